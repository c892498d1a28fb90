//! A home that writes its state to a store, and another one that restores it.

mod acknowledged;
mod random;
mod stories;

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::memory::home::home_of;
use crate::{Acknowledge, Head, Lineage, LogEntry, Reached, Replay, Restored, Store};

/// Records, and how many copies are wanted and done.
#[derive(Default)]
struct State {
    records: Vec<Vec<u8>>,
    room: usize,
    round: u64,
    /// Where the records of the last complete copy begin, and of the one under way.
    copied: u64,
    refuses: bool,
    is_full: bool,
    reached: Reached,
    hurried: Option<Acknowledge>,
}

#[derive(Clone, Default)]
struct Tape(Arc<Mutex<State>>);

impl Tape {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Tape {
    fn append(&mut self, record: &[u8]) {
        self.state().records.push(record.to_vec());
    }

    fn takes(&mut self, _: usize) -> bool {
        !self.state().is_full
    }

    fn newest(&self) -> u64 {
        self.state().records.len() as u64
    }

    fn hurry(&mut self, to: Acknowledge) {
        let mut state = self.state();
        state.hurried = state.hurried.max(Some(to));
    }

    fn reached(&self) -> Reached {
        self.state().reached
    }

    fn refuses(&self) -> bool {
        self.state().refuses
    }

    fn round(&self) -> u64 {
        self.state().round
    }

    fn has_room(&mut self) -> bool {
        let mut state = self.state();
        let has = state.room > 0;
        state.room = state.room.saturating_sub(1);
        has
    }

    fn copied(&mut self, round: u64) {
        self.state().copied = round;
    }

    fn live(&mut self, _: usize) {}

    fn lineage(&mut self, _: &Lineage) {}
}

/// Heads and records as one log; the head of each life stands before its records. The number of
/// lives is counted, those of which nothing is left among them.
#[derive(Default)]
struct Log(Vec<(Head, Vec<Vec<u8>>)>, u32);

impl Log {
    fn replay(&self, now: Now) -> Replay {
        let namespaces = options(5, 1000, 1 << 20).live.namespaces;
        let mut replay = Replay::new(namespaces, 7, now.unix_ms);
        for (head, records) in &self.0 {
            replay.head(&Head::of_record(&head.to_record()).expect("a head"));
            for record in records {
                assert!(replay.record(record));
            }
        }
        replay
    }

    /// A new home goes on where the log ends.
    fn next(&mut self, now: Now) -> (Home, Tape) {
        let replay = self.replay(now);
        let (begins, lineage) = replay.next(100 + self.1);
        self.1 += 1;
        let mut homes = replay.finish(&lineage, 1, home_of);
        let head = Head {
            number: self.0.len() as u64,
            begins,
            lineage,
        };
        self.0.push((head, Vec::new()));
        durable(homes.pop().expect("one home"), now)
    }

    /// The process died, and so many of its records are on the disk.
    fn end(&mut self, tape: &Tape, written: usize) {
        let records = std::mem::take(&mut tape.state().records);
        let (_, log) = self.0.last_mut().expect("a life");
        log.extend(records.into_iter().take(written));
    }
}

fn durable(restored: Restored, now: Now) -> (Home, Tape) {
    let mut home = home(5, 1000, 1 << 20);
    let tape = Tape::default();
    home.restore_all(restored, now);
    home.check();
    home.write_to(Box::new(tape.clone()));
    (home, tape)
}

/// Generation and offset: the same in the epochs of every process.
fn place(position: Option<Position>) -> Option<(u32, u64)> {
    position.map(|position| (position.epoch.0 as u32, position.offset))
}

/// Texts that a client recovers; `None` if the reply says that something may be lost.
fn recover(home: &mut Home, channel: &str, since: Position, now: Now) -> Option<Vec<String>> {
    let subscribed = home.subscribe(SHARD, &name(channel), Some(since), now);
    match subscribed.recovery {
        Recovery::Whole(publications) => Some(texts(&publications)),
        _ => None,
    }
}
