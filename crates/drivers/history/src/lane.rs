//! The way from one shard to the thread that writes.
//!
//! A shard appends to bytes behind a lock that the writer holds for as long as it takes to swap
//! them. It wakes the writer only if that sleeps.
//!
//! Rule for "full": the record is lost, which is counted, and the writer asks for a copy of
//! everything. Copies stop long before that and leave the room to publications.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use throng_broker::{Acknowledge, Lineage, Reached, Store, write_frame};
use throng_types::lock;

/// Bytes of one shard that wait for the writer. Queue: `history store`.
pub(crate) const LANE_BYTES_MAX: usize = 16 << 20;
/// A copy waits while so many bytes do.
const COPY_BYTES_MAX: usize = 1 << 20;

pub(crate) enum Order {
    /// Begin to write; another process has let go.
    Begin,
    /// Write what is there and let go of the folder.
    LetGo,
    /// End; `is_whole` says that everything was written.
    Close { is_whole: bool },
}

pub(crate) type Asked = (Order, Sender<()>);

#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lost: u64,
    /// The last copy that is complete, its records included.
    pub(crate) copied: u64,
    /// Set if the shard is to be woken when there is room.
    pub(crate) wants_room: bool,
    pub(crate) newest: u64,
    /// Level at which the shard is to be woken, once every record has reached it.
    pub(crate) wants: Option<Acknowledge>,
}

/// State that one shard shares with the writer.
#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    live: AtomicUsize,
    /// Number of the last record written; for this and the next two see [`Reached`].
    written: AtomicU64,
    synced: AtomicU64,
    failed: AtomicU64,
}

/// State that all shards share with the writer.
pub(crate) struct Common {
    lanes: Vec<Shared>,
    orders: Mutex<Vec<Asked>>,
    news: Condvar,
    is_awake: AtomicBool,
    /// A shard waits for what it has left.
    is_hurried: AtomicBool,
    /// The copy that is wanted.
    pub(crate) round: AtomicU64,
    /// Publications are not being written at the moment.
    pub(crate) is_failing: AtomicBool,
    /// Publications are refused while that is so.
    pub(crate) refuses: bool,
    /// Set once nothing will be written again.
    pub(crate) is_over: AtomicBool,
    /// Epochs as the process that handed over reported them.
    pub(crate) lineage: Mutex<Option<Lineage>>,
}

impl Common {
    pub(crate) fn new(shards: u8, refuses: bool) -> Arc<Self> {
        Arc::new(Self {
            lanes: (0..shards).map(|_| Default::default()).collect(),
            orders: Mutex::default(),
            news: Condvar::new(),
            is_awake: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
            round: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            refuses,
            is_over: AtomicBool::new(false),
            lineage: Mutex::default(),
        })
    }

    /// One end for each shard.
    pub(crate) fn lanes(self: &Arc<Self>) -> Vec<Lane> {
        let lane = |shard| Lane {
            common: self.clone(),
            shard,
            newest: 0,
        };
        (0..self.lanes.len()).map(lane).collect()
    }

    /// Locks the bytes and requests of one shard that wait for the writer.
    pub(crate) fn waiting(&self, shard: usize) -> MutexGuard<'_, Waiting> {
        lock(&self.lanes[shard].waiting)
    }

    pub(crate) fn shards(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        let live = self
            .lanes
            .iter()
            .map(|lane| lane.live.load(Ordering::Relaxed));
        live.sum::<usize>() as u64
    }

    /// Notes that the shard's records up to this one are with the kernel, or synced to disk.
    pub(crate) fn has_reached(&self, shard: usize, record: u64, level: Acknowledge) {
        let lane = &self.lanes[shard];
        lane.written.store(record, Ordering::Release);
        if level == Acknowledge::Synced {
            lane.synced.store(record, Ordering::Release);
        }
    }

    /// Notes that the shard's records up to this one could not be written or synced.
    pub(crate) fn has_failed(&self, shard: usize, record: u64) {
        if self.refuses {
            self.lanes[shard].failed.store(record, Ordering::Release);
        } else {
            self.has_reached(shard, record, Acknowledge::Synced);
        }
    }

    pub(crate) fn order(&self, asked: Asked) {
        lock(&self.orders).push(asked);
        self.wake();
    }

    pub(crate) fn take_orders(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.orders))
    }

    pub(crate) fn lineage(&self) -> Option<Lineage> {
        lock(&self.lineage).clone()
    }

    fn wake(&self) {
        // The writer says that it sleeps before it looks for the last time, and we look at that
        // after we have left something: one of the two sees the other.
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            let _orders = lock(&self.orders);
            self.news.notify_one();
        }
    }

    /// Sleeps until something is there, at most so long.
    pub(crate) fn sleep(&self, longest: Duration) {
        self.is_awake.store(false, Ordering::SeqCst);
        let has_bytes = (0..self.lanes.len()).any(|shard| {
            let waiting = self.waiting(shard);
            !waiting.bytes.is_empty() || waiting.lost > 0 || waiting.wants.is_some()
        });
        let orders = lock(&self.orders);
        if !has_bytes && orders.is_empty() && !self.is_awake.load(Ordering::SeqCst) {
            let asleep = |_: &mut Vec<Asked>| !self.is_awake.load(Ordering::SeqCst);
            let woken = self.news.wait_timeout_while(orders, longest, asleep);
            drop(woken);
        }
        self.is_awake.store(true, Ordering::SeqCst);
    }

    /// Waits for more to come, at most so long; not while a shard waits.
    pub(crate) fn gather(&self, longest: Duration) {
        let orders = lock(&self.orders);
        let is_calm = |_: &mut Vec<Asked>| !self.is_hurried.load(Ordering::SeqCst);
        drop(self.news.wait_timeout_while(orders, longest, is_calm));
        // What is asked for from now on is found in the lanes, or gathers no longer.
        self.is_hurried.store(false, Ordering::SeqCst);
    }

    fn hurry(&self) {
        if !self.is_hurried.swap(true, Ordering::SeqCst) {
            let _orders = lock(&self.orders);
            self.news.notify_one();
        }
        self.wake();
    }
}

pub(crate) struct Lane {
    common: Arc<Common>,
    shard: usize,
    newest: u64,
}

/// One of any size has room while no other waits.
fn has_room(waiting: &Waiting, bytes: usize) -> bool {
    waiting.bytes.is_empty() || waiting.bytes.len() + bytes <= LANE_BYTES_MAX
}

impl Store for Lane {
    fn append(&mut self, record: &[u8]) {
        if self.common.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.newest += 1;
        let mut waiting = self.common.waiting(self.shard);
        waiting.newest = self.newest;
        if has_room(&waiting, record.len()) {
            write_frame(record, &mut waiting.bytes);
        } else {
            waiting.lost += 1;
        }
        drop(waiting);
        self.common.wake();
    }

    fn takes(&mut self, bytes: usize) -> bool {
        has_room(&self.common.waiting(self.shard), bytes)
    }

    fn newest(&self) -> u64 {
        self.newest
    }

    fn hurry(&mut self, to: Acknowledge) {
        let mut waiting = self.common.waiting(self.shard);
        waiting.wants = waiting.wants.max(Some(to));
        drop(waiting);
        self.common.hurry();
    }

    fn reached(&self) -> Reached {
        let lane = &self.common.lanes[self.shard];
        let load = |number: &AtomicU64| number.load(Ordering::Acquire);
        Reached {
            written: load(&lane.written),
            synced: load(&lane.synced),
            failed: load(&lane.failed),
        }
    }

    fn refuses(&self) -> bool {
        self.common.refuses && self.common.is_failing.load(Ordering::Relaxed)
    }

    fn round(&self) -> u64 {
        self.common.round.load(Ordering::Acquire)
    }

    fn has_room(&mut self) -> bool {
        let mut waiting = self.common.waiting(self.shard);
        let has_room = waiting.bytes.len() < COPY_BYTES_MAX;
        waiting.wants_room |= !has_room;
        has_room
    }

    fn copied(&mut self, round: u64) {
        self.common.waiting(self.shard).copied = round;
        self.common.wake();
    }

    fn live(&mut self, bytes: usize) {
        self.common.lanes[self.shard]
            .live
            .store(bytes, Ordering::Relaxed);
    }

    fn lineage(&mut self, lineage: &Lineage) {
        *lock(&self.common.lineage) = Some(lineage.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_copies_stop_before() {
        let common = Common::new(1, false);
        let mut lanes = common.lanes();
        let lane = &mut lanes[0];
        assert!(lane.has_room());
        lane.append(&vec![1; LANE_BYTES_MAX + 1]);
        assert!(!lane.has_room());
        lane.append(b"x");
        let mut waiting = common.waiting(0);
        assert_eq!((waiting.lost, waiting.wants_room), (1, true));
        assert!(waiting.bytes.len() > LANE_BYTES_MAX);
        waiting.bytes.clear();
        drop(waiting);
        lane.append(b"x");
        assert_eq!(common.waiting(0).lost, 1);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let common = Common::new(1, false);
        let mut lane = common.lanes().remove(0);
        for _ in 0..200 {
            std::thread::scope(|scope| {
                // Only a broken program sleeps so long.
                scope.spawn(|| common.sleep(Duration::from_secs(60)));
                scope.spawn(|| lane.append(b"x"));
            });
            common.waiting(0).bytes.clear();
        }
    }
}
