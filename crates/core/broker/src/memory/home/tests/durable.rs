//! A home that writes its state to a store, and another one that restores it.

mod acknowledged;
mod copies;
mod random;

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::memory::home::home_of;
use crate::{Acknowledge, Begins, Head, Lineage, LogEntry, Reached, Replay, Restored, Store};

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
        let namespaces = options(5, 1000, 1 << 20).namespaces;
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

#[test]
fn after_a_clean_end_everything_is_as_it_was() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    for n in 1..=8_u64 {
        home.publish(versioned(n, "kept:a", &n.to_string()), at(n));
    }
    let keyed = keyed("kept:b", "k");
    let first = home.publish(keyed.clone(), at(9)).position;
    publish(&mut home, "kept:gone", "x", 10);
    home.forget_history(&name("kept:gone"), at(10))
        .expect("history");
    tape.state().records.push(LogEntry::closed());
    let count = tape.state().records.len();
    log.end(&tape, count);
    assert!(log.replay(at(20)).is_closed());
    let (mut home, _) = log.next(at(20));
    let since = Position {
        epoch: first.expect("history").epoch,
        offset: 5,
    };
    let texts = recover(&mut home, "kept:a", since, at(20));
    assert_eq!(texts.expect("whole"), ["6", "7", "8"]);
    let again = home.publish(keyed, at(20));
    assert!(again.publication.is_none() && place(again.position) == place(first));
    assert_ne!(again.position, first, "every process has epochs of its own");
    let older = versioned(8, "kept:a", "older");
    assert!(home.publish(older, at(20)).publication.is_none());
    let next = publish(&mut home, "kept:gone", "y", 20);
    assert_eq!(next.offset, 2);
    let lost = Position { offset: 0, ..next };
    assert_eq!(
        recover(&mut home, "kept:gone", lost, at(20)),
        None,
        "its history was removed"
    );
    home.check();
}

/// The folder of a process that ended well comes back, after others have gone on from it.
#[test]
fn a_copy_from_before_counts_up_to_its_own_end() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let early = publish(&mut home, "kept:a", "1", 1);
    let last = publish(&mut home, "kept:a", "2", 1);
    tape.state().records.push(LogEntry::closed());
    log.end(&tape, 3);
    let mut backup = Log(log.0.clone(), log.1 + 1);
    let (mut home, _) = log.next(at(2));
    assert_eq!(recover(&mut home, "kept:a", last, at(2)), Some(Vec::new()));
    let beyond = ["3", "4"].map(|data| publish(&mut home, "kept:a", data, 2));
    // Another life of the copy, with the nonce that it draws.
    backup.0.push(backup.0[0].clone());
    backup.0[1].0.begins = Begins::NextEpochs;
    backup.0[1].0.lineage = backup.0[0].0.lineage.next(77);
    backup.0[1].1.clear();
    let (mut home, _) = backup.next(at(3));
    for data in ["other 3", "other 4", "other 5"] {
        publish(&mut home, "kept:a", data, 3);
    }
    for beyond in beyond {
        assert_eq!(recover(&mut home, "kept:a", beyond, at(3)), None);
    }
    let known = recover(&mut home, "kept:a", early, at(3));
    assert_eq!(known.expect("whole").len(), 4);
    home.check();
}

/// Starts are remembered, and what they cost is bounded.
#[test]
fn positions_hold_over_eight_starts() {
    let mut log = Log::default();
    let (mut home, mut tape) = log.next(at(0));
    let first = publish(&mut home, "kept:a", "1", 1);
    for start in 1..=crate::ANCESTORS_MAX {
        log.end(&tape, 2);
        (home, tape) = log.next(at(2));
        let known = recover(&mut home, "kept:a", first, at(2));
        assert_eq!(known, Some(Vec::new()), "start {start}");
        let key = home.streams.key(&name("kept:a")).expect("a stream");
        let older = home.ancestry.tops(key, 0).len();
        assert_eq!(older, start - 1, "one start costs nothing");
    }
    log.end(&tape, 2);
    let (mut home, _) = log.next(at(2));
    assert_eq!(recover(&mut home, "kept:a", first, at(2)), None);
}

#[test]
fn what_was_kept_gets_old_while_nobody_runs() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let first = publish(&mut home, "kept:a", "1", 5000);
    publish(&mut home, "kept:a", "2", 5600);
    log.end(&tape, 2);
    // The clock of the next process begins at zero.
    let later = Now {
        mono: Millis(3),
        unix_ms: at(6100).unix_ms,
    };
    let (mut home, _) = log.next(later);
    assert_eq!(home.stats().history_publications, 1);
    assert_eq!(
        recover(&mut home, "kept:a", first, later).expect("whole"),
        ["2"]
    );
    let expired = Now {
        mono: Millis(503),
        unix_ms: at(6600).unix_ms,
    };
    home.tick(expired, 100);
    assert_eq!(home.stats().history_publications, 0);
    home.check();
}

#[test]
fn after_a_crash_positions_hold_as_far_as_the_log_goes() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let empty = home.subscribe(SHARD, &name("kept:empty"), None, at(0));
    let seen: Vec<Position> = ["1", "2", "3", "4"]
        .iter()
        .map(|data| publish(&mut home, "kept:a", data, 1))
        .collect();
    // The last two are lost.
    log.end(&tape, 2);
    let (mut home, tape) = log.next(at(2));
    let known = recover(&mut home, "kept:a", seen[0], at(2));
    assert_eq!(known.expect("whole"), ["2"]);
    assert_eq!(
        recover(&mut home, "kept:a", seen[1], at(2))
            .expect("whole")
            .len(),
        0
    );
    assert_eq!(recover(&mut home, "kept:a", seen[2], at(2)), None);
    let empty = empty.position.expect("history");
    assert!(recover(&mut home, "kept:empty", empty, at(2)).is_some());
    // The same offsets come again, with other publications.
    let other = publish(&mut home, "kept:a", "other 3", 3);
    assert_eq!(other.offset, seen[2].offset);
    assert_ne!(other.epoch, seen[2].epoch);
    publish(&mut home, "kept:a", "other 4", 3);
    assert_eq!(recover(&mut home, "kept:a", seen[2], at(3)), None);
    assert_eq!(recover(&mut home, "kept:a", seen[3], at(3)), None);
    let known = recover(&mut home, "kept:a", seen[1], at(3));
    assert_eq!(known.expect("whole"), ["other 3", "other 4"]);
    // History gives the same answer.
    let query = |since| HistoryQuery {
        since: Some(since),
        ..HistoryQuery::default()
    };
    let page = home.history(&name("kept:a"), query(seen[1]), at(3));
    assert_eq!(page.expect("history").publications.len(), 2);
    let page = home.history(&name("kept:a"), query(seen[2]), at(3));
    assert_eq!(page.err(), Some(Refusal::UnrecoverablePosition));
    // A second crash: the first epoch is still known.
    log.end(&tape, 1);
    let (mut home, _) = log.next(at(4));
    assert_eq!(
        recover(&mut home, "kept:a", seen[1], at(4)).expect("whole"),
        ["other 3"]
    );
    assert_eq!(
        recover(&mut home, "kept:a", other, at(4))
            .expect("whole")
            .len(),
        0
    );
    assert_eq!(recover(&mut home, "kept:a", seen[2], at(4)), None);
}

/// A client whose stream the crash took with it gets nothing of another one that has its number.
#[test]
fn what_was_known_of_a_forgotten_stream_is_not_said_of_the_next() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    for n in 1..=5 {
        publish(&mut home, "kept:a", "a", n);
    }
    home.tick(at(2000), 10);
    home.tick(at(3_700_000), 10);
    assert_eq!(home.stats().streams, 0);
    publish(&mut home, "kept:b", "1", 3_700_001);
    let seen = publish(&mut home, "kept:b", "2", 3_700_001);
    // The disk knows nothing of the end of the first stream, nor of the second.
    log.end(&tape, 5);
    let (mut home, _) = log.next(at(3_700_002));
    assert_eq!(home.stats().streams, 1);
    home.tick(at(7_400_000), 10);
    assert_eq!(home.stats().streams, 0);
    for data in ["other 1", "other 2", "other 3"] {
        publish(&mut home, "kept:b", data, 7_400_001);
    }
    assert_eq!(recover(&mut home, "kept:b", seen, at(7_400_002)), None);
    home.check();
}

/// To remove the history of a channel that never had any costs the disk nothing.
#[test]
fn nothing_is_written_where_nothing_was() {
    let (mut home, tape) = Log::default().next(at(0));
    home.subscribe(SHARD, &name("kept:a"), None, at(0));
    let page = home.forget_history(&name("kept:a"), at(0));
    assert!(page.is_ok() && tape.state().records.is_empty());
    publish(&mut home, "kept:a", "1", 1);
    assert!(home.forget_history(&name("kept:a"), at(1)).is_ok());
    assert_eq!(tape.state().records.len(), 2, "now it says where it stands");
}

#[test]
fn what_cannot_be_written_may_be_refused() {
    let home = home(5, 1000, 1 << 20);
    assert!(!home.refuses());
    let (home, tape) = Log::default().next(at(0));
    assert!(!home.refuses());
    tape.state().refuses = true;
    assert!(home.refuses());
}

#[test]
fn a_hole_in_the_log_is_seen() {
    let mut log = Log::default();
    let (mut home, tape) = log.next(at(0));
    let seen: Vec<Position> = (1..=4)
        .map(|n| publish(&mut home, "kept:a", &n.to_string(), n))
        .collect();
    tape.state().records.remove(1);
    log.end(&tape, 3);
    let (mut home, _) = log.next(at(5));
    assert_eq!(
        recover(&mut home, "kept:a", seen[0], at(5)),
        None,
        "2 is missing"
    );
    assert_eq!(
        recover(&mut home, "kept:a", seen[1], at(5)).expect("whole"),
        ["3", "4"]
    );
}
