//! Detection of missing, doubled and reordered messages, in bounded memory per subscription.
//!
//! Owns: the sequence numbers that a connection has received of each (channel, publisher).
//!
//! Each tracker keeps the highest number and a window of the last 64 as bits. A number that leaves
//! the window unreceived is missing for good; a number below the window cannot be told from a
//! duplicate any more and is counted apart.
//!
//! Invariants
//! - `received = distinct + duplicates + too_late + before_join`.
//! - After [`Tracker::finish`], `distinct + missing` is how many messages were due to this
//!   subscription (each `too_late` one is among the missing, and may have come after all).

use serde::{Deserialize, Serialize};
use throng_bench_plan::payload::Message;

const WINDOW: u64 = 64;

/// Most (channel, publisher) pairs that one connection follows; messages of further ones count as
/// untracked.
pub const TRACKS_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceOutcome {
    InOrder,
    /// New, while some before it are still missing.
    Ahead,
    /// Missed so far, and come after all.
    OutOfOrder,
    /// Received once before already.
    Duplicate,
    /// Too far back to be classified.
    TooLate,
    /// Older than this subscription's first message.
    BeforeJoin,
}

/// Counts of deliveries, summed over all subscriptions of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryCounts {
    pub received: u64,
    pub distinct: u64,
    pub missing: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    /// Messages that arrived more than 64 messages late.
    pub too_late: u64,
    /// Messages published before the subscription began.
    pub before_join: u64,
    /// Messages of pairs beyond [`TRACKS_MAX`].
    pub untracked: u64,
    /// Messages whose padding was cut or altered.
    pub damaged: u64,
}

impl DeliveryCounts {
    pub const fn merge(&mut self, other: &Self) {
        add_fields!(self, other: received distinct missing duplicates out_of_order too_late
            before_join untracked damaged);
    }

    /// Deliveries that were due: those that came and those that are missing.
    pub const fn expected(&self) -> u64 {
        self.distinct + self.missing
    }
}

/// Sequence of one (channel, publisher) as one subscription receives it: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    first: u64,
    /// Highest number received; `first - 1` when none was.
    highest: u64,
    /// Bit i: `highest - i` was received.
    window: u64,
}

impl Tracker {
    /// Begins at the first number that is due: the next one published where a subscription stands,
    /// or the first one received by a subscription that joined at an unknown moment.
    pub const fn from_number(first: u64) -> Self {
        let first = if first == 0 { 1 } else { first };
        Self {
            first,
            highest: first - 1,
            // Below the first number nothing is due, so nothing there may count as missing.
            window: u64::MAX,
        }
    }

    pub fn on(&mut self, sequence: u64, counts: &mut DeliveryCounts) -> SequenceOutcome {
        counts.received += 1;
        if sequence < self.first {
            counts.before_join += 1;
            return SequenceOutcome::BeforeJoin;
        }
        if sequence > self.highest {
            return self.advance(sequence, counts);
        }
        let back = self.highest - sequence;
        if back >= WINDOW {
            counts.too_late += 1;
            return SequenceOutcome::TooLate;
        }
        let bit = 1 << back;
        if self.window & bit != 0 {
            counts.duplicates += 1;
            return SequenceOutcome::Duplicate;
        }
        self.window |= bit;
        counts.distinct += 1;
        counts.out_of_order += 1;
        SequenceOutcome::OutOfOrder
    }

    fn advance(&mut self, sequence: u64, counts: &mut DeliveryCounts) -> SequenceOutcome {
        let step = sequence - self.highest;
        self.shift(step, counts);
        self.window |= 1;
        counts.distinct += 1;
        if step == 1 {
            SequenceOutcome::InOrder
        } else {
            SequenceOutcome::Ahead
        }
    }

    /// Moves the window up by `step`; numbers that leave it unreceived are missing.
    fn shift(&mut self, step: u64, counts: &mut DeliveryCounts) {
        if step == 0 {
            return;
        }
        if step < WINDOW {
            let leaving = self.window >> (WINDOW - step);
            counts.missing += step - u64::from(leaving.count_ones());
            self.window <<= step;
        } else {
            counts.missing += u64::from(self.window.count_zeros()) + (step - WINDOW);
            self.window = 0;
        }
        self.highest += step;
    }

    /// Ends the count. `last` is the last number that was published while the subscription lived,
    /// if it is known: a loss at the tail shows in no gap.
    pub fn finish(mut self, last: Option<u64>, counts: &mut DeliveryCounts) {
        if let Some(tail) = last.and_then(|last| last.checked_sub(self.highest)) {
            self.shift(tail, counts);
        }
        counts.missing += u64::from(self.window.count_zeros());
    }
}

/// Trackers of one connection. Empty until the first message, then 32 bytes for each (channel,
/// publisher).
#[derive(Clone, Debug, Default)]
pub struct Tracks {
    entries: Vec<Track>,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    channel: u32,
    publisher: u32,
    tracker: Tracker,
}

impl Tracks {
    /// Notes that this connection is subscribed before `first` is published.
    pub fn expect(&mut self, channel: u32, publisher: u32, first: u64) {
        if let Err(at) = self.find(channel, publisher)
            && self.entries.len() < TRACKS_MAX
        {
            self.insert(at, channel, publisher, Tracker::from_number(first));
        }
    }

    /// Counts a message that arrived; `None` when it is of a pair beyond [`TRACKS_MAX`].
    pub fn on(
        &mut self,
        message: &Message,
        counts: &mut DeliveryCounts,
    ) -> Option<SequenceOutcome> {
        let (channel, publisher) = (message.channel, message.publisher);
        let at = match self.find(channel, publisher) {
            Ok(at) => at,
            Err(_) if self.entries.len() >= TRACKS_MAX => {
                counts.received += 1;
                counts.untracked += 1;
                return None;
            }
            Err(at) => {
                self.insert(
                    at,
                    channel,
                    publisher,
                    Tracker::from_number(message.sequence),
                );
                at
            }
        };
        let entry = self.entries.get_mut(at)?;
        Some(entry.tracker.on(message.sequence, counts))
    }

    /// Ends the count of every pair. `last` returns the last number published to (channel,
    /// publisher).
    pub fn finish(
        self,
        mut last: impl FnMut(u32, u32) -> Option<u64>,
        counts: &mut DeliveryCounts,
    ) {
        for entry in self.entries {
            let last = last(entry.channel, entry.publisher);
            entry.tracker.finish(last, counts);
        }
    }

    /// Messages due after the highest received of each pair; `last` returns the last number due.
    pub fn behind(&self, last: impl Fn(u32, u32) -> Option<u64>) -> u64 {
        let behind = |entry: &Track| {
            last(entry.channel, entry.publisher)?.checked_sub(entry.tracker.highest)
        };
        self.entries.iter().filter_map(behind).sum()
    }

    /// Lists the channels that have not come as far as `last` returns, each with that number.
    pub fn missed(&self, last: impl Fn(u32, u32) -> Option<u64>) -> Vec<(u32, u64)> {
        let missed = |entry: &Track| {
            let last = last(entry.channel, entry.publisher)?;
            (entry.tracker.highest < last).then_some((entry.channel, last))
        };
        self.entries.iter().filter_map(missed).collect()
    }

    /// Highest number received of a pair; 0 if it is not followed.
    pub fn highest(&self, channel: u32, publisher: u32) -> u64 {
        let at = self.find(channel, publisher).ok();
        at.and_then(|at| self.entries.get(at))
            .map_or(0, |entry| entry.tracker.highest)
    }

    /// Returns true until the first message of any pair.
    pub fn is_unheard(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.tracker.highest < entry.tracker.first)
    }

    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, channel: u32, publisher: u32) -> Result<usize, usize> {
        let pair = |entry: &Track| (entry.channel, entry.publisher);
        self.entries
            .binary_search_by_key(&(channel, publisher), pair)
    }

    fn insert(&mut self, at: usize, channel: u32, publisher: u32, tracker: Tracker) {
        // Most connections follow one channel: no room for more is taken in advance.
        self.entries.reserve_exact(1);
        let track = Track {
            channel,
            publisher,
            tracker,
        };
        self.entries.insert(at, track);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn run(first: Option<u64>, heard: &[u64], last: Option<u64>) -> DeliveryCounts {
        let mut counts = DeliveryCounts::default();
        let mut tracker =
            Tracker::from_number(first.unwrap_or_else(|| heard.first().copied().unwrap_or(1)));
        for &sequence in heard {
            tracker.on(sequence, &mut counts);
        }
        tracker.finish(last, &mut counts);
        counts
    }

    #[track_caller]
    fn check(first: Option<u64>, heard: &[u64], last: Option<u64>, expected: [u64; 6]) {
        let counts = run(first, heard, last);
        assert_eq!(
            [
                counts.distinct,
                counts.missing,
                counts.duplicates,
                counts.out_of_order,
                counts.too_late,
                counts.before_join
            ],
            expected,
            "{heard:?}"
        );
    }

    #[test]
    fn each_fate_is_told_apart() {
        // distinct, missing, duplicates, out of order, too late, before join
        check(Some(1), &[1, 2, 3], Some(3), [3, 0, 0, 0, 0, 0]);
        check(Some(1), &[1, 3], Some(3), [2, 1, 0, 0, 0, 0]);
        check(Some(1), &[1, 3, 2], Some(3), [3, 0, 0, 1, 0, 0]);
        check(Some(1), &[1, 2, 2, 1], Some(2), [2, 0, 2, 0, 0, 0]);
        check(Some(1), &[2, 3], Some(3), [2, 1, 0, 0, 0, 0]);
        check(Some(1), &[1, 2], Some(5), [2, 3, 0, 0, 0, 0]);
        check(Some(1), &[], Some(5), [0, 5, 0, 0, 0, 0]);
        check(Some(1), &[], None, [0, 0, 0, 0, 0, 0]);
        check(None, &[100, 101], Some(101), [2, 0, 0, 0, 0, 0]);
        check(None, &[100, 99, 102], Some(102), [2, 1, 0, 0, 0, 1]);
        check(Some(1), &[1, 200, 2], Some(200), [2, 198, 0, 0, 1, 0]);
        check(Some(1), &[1000], Some(1000), [1, 999, 0, 0, 0, 0]);
        check(Some(0), &[1], Some(1), [1, 0, 0, 0, 0, 0]);
        check(Some(5), &[5], Some(2), [1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn trackers_are_small() {
        assert_eq!(size_of::<Tracker>(), 24);
        assert_eq!(size_of::<Track>(), 32);
    }

    #[test]
    fn pairs_are_followed_apart_and_their_number_is_bounded() {
        let mut tracks = Tracks::default();
        let mut counts = DeliveryCounts::default();
        let message = |channel, publisher, sequence| Message {
            publisher,
            channel,
            sequence,
            due_us: 0,
        };
        tracks.expect(1, 0, 1);
        assert_eq!(
            tracks.on(&message(1, 0, 2), &mut counts),
            Some(SequenceOutcome::Ahead)
        );
        assert_eq!(
            tracks.on(&message(1, 1, 7), &mut counts),
            Some(SequenceOutcome::InOrder)
        );
        assert_eq!(
            tracks.on(&message(0, 0, 3), &mut counts),
            Some(SequenceOutcome::InOrder)
        );
        assert_eq!(tracks.entries.len(), 3);
        for channel in 10..10 + TRACKS_MAX as u32 {
            tracks.on(&message(channel, 0, 1), &mut counts);
        }
        assert_eq!(tracks.entries.len(), TRACKS_MAX);
        assert_eq!(counts.untracked, 3);
        tracks.finish(|channel, _| (channel == 1).then_some(8), &mut counts);
        // Number 1 and 3 to 8 of (1, 0), and number 8 of (1, 1).
        assert_eq!(counts.missing, 8);
    }

    proptest! {
        #[test]
        fn within_the_window_the_counts_are_those_of_a_set(
            heard in proptest::collection::vec(1_u64..=60, 0..150),
        ) {
            let counts = run(Some(1), &heard, Some(60));
            let distinct: BTreeSet<_> = heard.iter().copied().collect();
            prop_assert_eq!(counts.distinct, distinct.len() as u64);
            prop_assert_eq!(counts.missing, 60 - distinct.len() as u64);
            prop_assert_eq!(counts.duplicates, (heard.len() - distinct.len()) as u64);
            prop_assert_eq!(counts.received, heard.len() as u64);
        }

        #[test]
        fn what_was_due_is_heard_or_missing(
            heard in proptest::collection::vec(1_u64..=1000, 0..300),
        ) {
            let counts = run(Some(1), &heard, Some(1000));
            prop_assert_eq!(counts.expected(), 1000);
            let apart = counts.duplicates + counts.too_late + counts.before_join;
            prop_assert_eq!(counts.received, counts.distinct + apart);
        }
    }
}
