//! The thread that writes: takes what waits of all shards, appends it with one write, and syncs now
//! and then.
//!
//! Rule for a disk that refuses: what is published meanwhile is not written, which is said once and
//! shows in `healthz`. Some seconds later a new segment is tried. Once it is there, shards copy
//! everything, and with that the log is whole again.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throng_broker::{Acknowledge, Lineage, LogEntry, SegmentRecords, copy_is_due, write_frame};
use throng_metrics::{Counter, Gauge};

use crate::files::Place;
use crate::lane::{Asked, Common, Order};
use crate::{Options, ShardWaker};

/// A segment of more bytes is followed by another.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Time for which records are gathered before one write.
const GATHER: Duration = Duration::from_millis(5);
/// Between two tries after the disk refused something, and between two copies for that reason.
const PATIENCE: Duration = Duration::from_secs(5);
/// A sleep without a reason to wake.
const LONG: Duration = Duration::from_secs(3600);
/// A buffer of more is not kept.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

pub(crate) struct Writer {
    common: Arc<Common>,
    options: Options,
    /// None before another process has let go, and after this one has.
    place: Option<Place>,
    pub(crate) lineage: Lineage,
    rounds: CopySchedule,
    /// When the last copy for a hole began.
    round_at: Option<Instant>,
    /// Since when something is not synced.
    unsynced: Option<Instant>,
    /// When to try again after the disk refused something.
    retry_at: Option<Instant>,
    /// The copies that the shards have written.
    copied: Vec<u64>,
    /// The newest record that was taken of each shard.
    taken: Vec<u64>,
    is_active: bool,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(common: Arc<Common>, options: Options, place: Option<Place>) -> Self {
        let is_failing = place.as_ref().is_some_and(|place| place.file.is_none());
        common.is_failing.store(is_failing, Ordering::Relaxed);
        let mut rounds = CopySchedule::default();
        if is_failing {
            rounds.give_up();
        }
        Self {
            copied: vec![0; common.shards()],
            taken: vec![0; common.shards()],
            lineage: Lineage {
                nonce: options.nonce,
                ancestors: Vec::new(),
            },
            is_active: place.is_some(),
            retry_at: is_failing.then(|| Instant::now() + PATIENCE),
            common,
            options,
            place,
            rounds,
            round_at: None,
            unsynced: None,
            buffer: Vec::new(),
        }
    }

    /// Writes until the order to end comes.
    pub(crate) fn run(mut self, rings: &[ShardWaker]) {
        self.show();
        loop {
            let orders = self.common.take_orders();
            if self.is_active {
                self.turn(rings);
            }
            for (order, done) in orders {
                let is_close = matches!(order, Order::Close { .. });
                self.obey(&order, rings);
                // The caller may have given up.
                let _ = done.send(());
                if is_close {
                    return self.refuse_all();
                }
            }
            let now = Instant::now();
            let interval = Duration::from_millis(self.options.sync_ms);
            let sync_at = self.unsynced.map(|since| since + interval);
            let hole = self.rounds.has_hole.then(|| now + PATIENCE);
            let next = [sync_at, self.retry_at, hole].into_iter().flatten().min();
            let longest = next.map_or(LONG, |at| at.saturating_duration_since(now));
            self.common.sleep(longest);
            self.common.gather(GATHER);
        }
    }

    /// Answers all orders that wait, and all later ones, as done.
    fn refuse_all(&self) {
        self.common.is_over.store(true, Ordering::Relaxed);
        drop(self.common.take_orders());
    }

    fn obey(&mut self, order: &Order, rings: &[ShardWaker]) {
        match order {
            Order::Begin if !self.is_active => {
                self.is_active = true;
                self.lineage = self
                    .common
                    .lineage()
                    .unwrap_or_else(|| self.lineage.clone());
                self.begin(rings);
            }
            Order::Begin => {}
            Order::LetGo => {
                self.is_active = false;
                self.place = None;
                self.unsynced = None;
                self.retry_at = None;
            }
            Order::Close { is_whole } => self.close(*is_whole),
        }
    }

    /// Everything that is there was written.
    fn close(&mut self, is_whole: bool) {
        let is_whole = is_whole && !self.rounds.has_hole && self.retry_at.is_none();
        if let Some(place) = self.place.as_mut().filter(|_| self.is_active && is_whole) {
            let mut bytes = Vec::new();
            write_frame(&LogEntry::closed(), &mut bytes);
            let closed = place.file.as_mut().map_or(Ok(()), |file| {
                file.write_all(&bytes)?;
                file.sync_all()
            });
            if let Err(error) = closed {
                tracing::error!("the last part of the history was not written: {error}");
            }
        }
        self.place = None;
        self.is_active = false;
    }

    /// Takes the folder from another process, or tries again.
    fn begin(&mut self, rings: &[ShardWaker]) {
        let begun = match self.place.take() {
            Some(place) => Ok(place),
            None => Place::take_over(&self.options, &self.lineage),
        };
        let begun = begun.and_then(|mut place| {
            let rolled = place.roll(&self.lineage);
            self.place = Some(place);
            rolled
        });
        match begun {
            Ok(number) => {
                self.retry_at = None;
                self.copy_from(number, rings);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn turn(&mut self, rings: &[ShardWaker]) {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.begin(rings);
        }
        let mut rang = Vec::new();
        let mut wanted = Acknowledge::Memory;
        for shard in 0..self.common.shards() {
            let mut waiting = self.common.waiting(shard);
            let mut bytes = std::mem::take(&mut self.buffer);
            std::mem::swap(&mut waiting.bytes, &mut bytes);
            let lost = std::mem::take(&mut waiting.lost);
            self.copied[shard] = waiting.copied;
            self.taken[shard] = waiting.newest;
            let wants = waiting.wants.take();
            if std::mem::take(&mut waiting.wants_room) || wants.is_some() {
                rang.push(shard);
            }
            drop(waiting);
            wanted = wanted.max(wants.unwrap_or_default());
            if self.take(&bytes, lost) {
                self.reached(shard, Acknowledge::Written);
            } else {
                self.common.has_failed(shard, self.taken[shard]);
            }
            if bytes.capacity() <= BUFFER_KEPT_BYTES {
                bytes.clear();
                self.buffer = bytes;
            }
        }
        if wanted == Acknowledge::Synced {
            // Shards that wait share one sync.
            self.sync_now();
        }
        for shard in rang {
            if let Some(ring) = rings.get(shard) {
                ring();
            }
        }
        self.sync_if_due();
        self.end_round();
        self.begin_round(rings);
        self.show();
    }

    fn reached(&self, shard: usize, level: Acknowledge) {
        self.common.has_reached(shard, self.taken[shard], level);
    }

    /// Writes what a shard left; false if not all of it is written.
    fn take(&mut self, bytes: &[u8], lost: u64) -> bool {
        if lost > 0 {
            self.options.counters.add(Counter::HistoryStoreLost, lost);
            self.rounds.lost();
            if self.retry_at.is_none() {
                tracing::warn!(lost, "the disk is too slow: publications were not written");
            }
        }
        if bytes.is_empty() {
            return lost == 0 && self.retry_at.is_none();
        }
        let file = self.place.as_mut().and_then(|place| place.file.as_mut());
        let written = file.map(|file| file.write_all(bytes));
        let Some((Ok(()), place)) = written.as_ref().zip(self.place.as_mut()) else {
            let lost = SegmentRecords::new(bytes).count() as u64;
            self.options.counters.add(Counter::HistoryStoreLost, lost);
            if let Some(Err(error)) = written {
                self.fail(&error);
            }
            return false;
        };
        let count = bytes.len() as u64;
        self.options
            .counters
            .add(Counter::HistoryStoreWritten, count);
        self.unsynced.get_or_insert_with(Instant::now);
        let mut size = 0;
        if let Some(mut last) = place.segments.last_entry() {
            *last.get_mut() += count;
            size = *last.get();
        }
        if size > SEGMENT_BYTES
            && let Err(error) = place.roll(&self.lineage)
        {
            self.fail(&error);
        }
        lost == 0 && self.retry_at.is_none()
    }

    fn sync_now(&mut self) {
        if self.unsynced.is_some() {
            self.sync();
        } else if self.retry_at.is_none() {
            (0..self.taken.len()).for_each(|it| self.reached(it, Acknowledge::Synced));
        }
    }

    fn sync_if_due(&mut self) {
        let interval = Duration::from_millis(self.options.sync_ms);
        if self
            .unsynced
            .is_some_and(|since| since.elapsed() >= interval)
        {
            self.sync();
        }
    }

    /// False if the disk refused it.
    fn sync(&mut self) -> bool {
        self.unsynced = None;
        let file = self.place.as_ref().and_then(|place| place.file.as_ref());
        let Some(file) = file else {
            return true;
        };
        let synced = file.sync_data();
        self.options.counters.count(Counter::HistoryStoreSyncs);
        match synced {
            Ok(()) => (0..self.taken.len()).for_each(|it| self.reached(it, Acknowledge::Synced)),
            Err(error) => {
                self.fail(&error);
                return false;
            }
        }
        true
    }

    /// Lets old segments go when a copy is complete and on the disk.
    fn end_round(&mut self) {
        let shards = self.copied.clone();
        let last = self.common.round.load(Ordering::Relaxed);
        let is_done = shards.iter().all(|number| *number >= last);
        if !self.rounds.is_under_way() || !is_done || !self.sync() {
            return;
        }
        let Some(first) = self.rounds.copied(shards.into_iter()) else {
            return;
        };
        if self.common.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!("history is written to disk again");
        }
        let Some(place) = &mut self.place else {
            return;
        };
        let newer = place.segments.split_off(&first);
        for number in std::mem::replace(&mut place.segments, newer).into_keys() {
            if let Err(error) = place.folder.remove(number) {
                tracing::warn!("an old segment cannot be removed: {error}");
            }
        }
    }

    /// Asks for a copy where one is due.
    fn begin_round(&mut self, rings: &[ShardWaker]) {
        let Some(place) = self.place.as_mut().filter(|place| place.file.is_some()) else {
            return;
        };
        let is_rested = self.round_at.is_none_or(|at| at.elapsed() >= PATIENCE);
        let mends = self.rounds.has_hole && is_rested;
        let is_due = copy_is_due(place.bytes(), self.common.live_bytes());
        if self.rounds.is_under_way() || !(mends || is_due) {
            return;
        }
        match place.roll(&self.lineage) {
            Ok(number) => self.copy_from(number, rings),
            Err(error) => self.fail(&error),
        }
    }

    /// Asks for a copy that begins with a segment.
    fn copy_from(&mut self, segment: u64, rings: &[ShardWaker]) {
        self.round_at = Some(Instant::now());
        let round = self.rounds.begin(segment);
        self.common.round.store(round, Ordering::Release);
        for ring in rings {
            ring();
        }
    }

    /// The disk refused something; this file is not written again.
    fn fail(&mut self, error: &io::Error) {
        self.retry_at = Some(Instant::now() + PATIENCE);
        self.rounds.give_up();
        self.unsynced = None;
        if let Some(place) = &mut self.place {
            place.file = None;
        }
        for (shard, taken) in self.taken.iter().enumerate() {
            self.common.has_failed(shard, *taken);
        }
        if !self.common.is_failing.swap(true, Ordering::Relaxed) {
            let path = self.options.path.display();
            let then = match self.options.refuses {
                true => "publications that are to be kept are refused until it is",
                false => "publications go on, and would not survive this process",
            };
            tracing::error!(%path, "history is not written to disk: {error}; {then}");
        }
    }

    fn show(&self) {
        let counters = &self.options.counters;
        let bytes = self.place.as_ref().map_or(0, Place::bytes);
        counters.set(Gauge::HistoryStoreBytes, bytes);
        let is_failing = self.common.is_failing.load(Ordering::Relaxed);
        counters.set(
            Gauge::HistoryStoreUp,
            u64::from(self.is_active && !is_failing),
        );
    }
}

/// An order, and where it is heard that it is done.
pub(crate) fn asked(order: Order) -> (Asked, std::sync::mpsc::Receiver<()>) {
    // Bound: one message, when the order is done.
    let (done, heard) = std::sync::mpsc::channel();
    ((order, done), heard)
}

/// Copies that shards are asked for.
#[derive(Default)]
pub(crate) struct CopySchedule {
    /// Number of the last one.
    last: u64,
    /// First segment of the one that is under way: those before it go when it is complete.
    first: Option<u64>,
    /// Whether nothing was lost since it began.
    is_whole: bool,
    /// Something that shards said is not in the log.
    pub(crate) has_hole: bool,
}

impl CopySchedule {
    pub(crate) const fn is_under_way(&self) -> bool {
        self.first.is_some()
    }

    /// Begins a copy with a segment; gives its number.
    pub(crate) fn begin(&mut self, first: u64) -> u64 {
        self.last += 1;
        (self.first, self.is_whole) = (Some(first), true);
        self.last
    }

    /// Notes that records were lost, so that a new round of copies is due.
    pub(crate) fn lost(&mut self) {
        (self.has_hole, self.is_whole) = (true, false);
    }

    /// Nothing is written at present, so no copy is.
    pub(crate) fn give_up(&mut self) {
        self.has_hole = true;
        self.first = None;
    }

    /// Each shard has written the copy of its number, and it is on the disk. Gives the segment
    /// before which all may go, if that completes the current one.
    pub(crate) fn copied(&mut self, mut shards: impl Iterator<Item = u64>) -> Option<u64> {
        if self.first.is_none() || !shards.all(|number| number >= self.last) {
            return None;
        }
        let first = self.first.take().filter(|_| self.is_whole)?;
        self.has_hole = false;
        Some(first)
    }
}

pub struct Journal {
    common: Arc<Common>,
    thread: JoinHandle<()>,
}

impl Journal {
    pub(crate) fn start(
        common: Arc<Common>,
        writer: Writer,
        rings: Vec<ShardWaker>,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || writer.run(&rings))?;
        Ok(Self { common, thread })
    }

    /// Whether nothing is written at the moment, because the disk refuses it.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.common.is_failing.load(Ordering::Relaxed)
    }

    /// Returns a check for any thread: true unless the disk refuses what is written.
    #[must_use]
    pub fn health(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let common = self.common.clone();
        Box::new(move || !common.is_failing.load(Ordering::Relaxed))
    }

    /// Takes the folder after another process has let go, or this one has; waits for that, a
    /// little, and for the disk. If that fails, the log says so, and it is tried again from time to
    /// time.
    pub fn begin(&self) {
        self.ask(Order::Begin);
    }

    /// Writes everything that shards have left until now, and lets go of the folder. What they
    /// leave afterwards waits for [`Journal::begin`].
    pub fn let_go(&self) {
        self.ask(Order::LetGo);
    }

    /// Stops writing: another process has taken over.
    pub fn give_up(&self) {
        self.common.is_over.store(true, Ordering::Relaxed);
        for shard in 0..self.common.shards() {
            self.common.waiting(shard).bytes = Vec::new();
        }
    }

    /// The shards have ended: writes what is left and, if all of them ended well, that nothing is
    /// missing.
    pub fn close(self, is_whole: bool) {
        self.ask(Order::Close { is_whole });
        // A panic of the writer was printed when it came.
        let _ = self.thread.join();
    }

    fn ask(&self, order: Order) {
        let (asked, heard) = asked(order);
        self.common.order(asked);
        // If the writer has ended, it says so by that.
        let _ = heard.recv();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_when_every_shard_has_made_it_and_nothing_was_lost() {
        let mut rounds = CopySchedule::default();
        rounds.lost();
        assert_eq!(rounds.begin(7), 1);
        assert_eq!(rounds.copied([1, 0].into_iter()), None);
        assert!(rounds.has_hole && rounds.is_under_way());
        assert_eq!(rounds.copied([1, 1].into_iter()), Some(7));
        assert!(!rounds.has_hole && !rounds.is_under_way());
        assert_eq!(rounds.copied([1, 1].into_iter()), None);
        assert_eq!(rounds.begin(9), 2);
        rounds.lost();
        assert_eq!(rounds.copied([2, 2].into_iter()), None);
        assert!(
            rounds.has_hole && !rounds.is_under_way(),
            "it is made again"
        );
    }
}
