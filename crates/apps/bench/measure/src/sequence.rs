//! What is missing, doubled or out of order, in bounded memory per subscription.
//!
//! Owns: the sequence numbers that a connection has heard of each (channel, publisher).
//!
//! Each tracker keeps the highest number and a window of the last 64 as bits. A number that leaves
//! the window unheard is missing for good; a number below the window cannot be told from a
//! duplicate any more and is counted apart.
//!
//! Invariants
//! - `received = distinct + duplicates + too_late + before_join`.
//! - After [`Tracker::finish`], `distinct + missing` is how many messages were due to this
//!   subscription (each `too_late` one is among the missing, and may have been heard after all).

use serde::{Deserialize, Serialize};

const WINDOW: u64 = 64;

/// How many (channel, publisher) pairs one connection follows at most; messages of further ones
/// count as untracked.
pub const TRACKS_MAX: usize = 256;

/// What a number was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The next one.
    InOrder,
    /// New, and some before it are still missing.
    Ahead,
    /// Missed so far, and here after all.
    OutOfOrder,
    /// Heard before.
    Duplicate,
    /// Too far back to say.
    TooLate,
    /// From before this subscription's first message.
    BeforeJoin,
}

/// Sums over all subscriptions of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryCounts {
    /// Measured messages that arrived.
    pub received: u64,
    /// Those that arrived for the first time.
    pub distinct: u64,
    /// Never arrived.
    pub missing: u64,
    /// Arrived once more.
    pub duplicates: u64,
    /// Arrived after a later one.
    pub out_of_order: u64,
    /// Arrived more than 64 messages late.
    pub too_late: u64,
    /// Published before the subscription began.
    pub before_join: u64,
    /// Of a channel or publisher beyond what a connection follows.
    pub untracked: u64,
    /// With padding that was cut or altered.
    pub damaged: u64,
}

impl DeliveryCounts {
    /// Adds another worker's sums.
    pub const fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.distinct += other.distinct;
        self.missing += other.missing;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.too_late += other.too_late;
        self.before_join += other.before_join;
        self.untracked += other.untracked;
        self.damaged += other.damaged;
    }

    /// How many were due: what came and what is missing.
    #[must_use]
    pub const fn expected(&self) -> u64 {
        self.distinct + self.missing
    }
}

/// One (channel, publisher) as one subscription hears it: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// The first number that is due to this subscription.
    first: u64,
    /// The highest number heard; `first - 1` when none was.
    highest: u64,
    /// Bit i: `highest - i` was heard.
    window: u64,
}

impl Tracker {
    /// For a subscription that was there before number `first` was published: everything from it on
    /// is due.
    #[must_use]
    pub const fn from_number(first: u64) -> Self {
        let first = if first == 0 { 1 } else { first };
        Self {
            first,
            highest: first - 1,
            // Below the first number nothing is due, so nothing there may count as missing.
            window: u64::MAX,
        }
    }

    /// For a subscription that joined at an unknown moment: due is what comes from its first
    /// message on.
    #[must_use]
    pub const fn joining_with(sequence: u64) -> Self {
        Self::from_number(sequence)
    }

    /// Takes a number that arrived.
    pub fn on(&mut self, sequence: u64, counts: &mut DeliveryCounts) -> Heard {
        counts.received += 1;
        if sequence < self.first {
            counts.before_join += 1;
            return Heard::BeforeJoin;
        }
        if sequence > self.highest {
            return self.advance(sequence, counts);
        }
        let back = self.highest - sequence;
        if back >= WINDOW {
            counts.too_late += 1;
            return Heard::TooLate;
        }
        let bit = 1 << back;
        if self.window & bit != 0 {
            counts.duplicates += 1;
            return Heard::Duplicate;
        }
        self.window |= bit;
        counts.distinct += 1;
        counts.out_of_order += 1;
        Heard::OutOfOrder
    }

    fn advance(&mut self, sequence: u64, counts: &mut DeliveryCounts) -> Heard {
        let step = sequence - self.highest;
        self.shift(step, counts);
        self.window |= 1;
        counts.distinct += 1;
        if step == 1 {
            Heard::InOrder
        } else {
            Heard::Ahead
        }
    }

    /// Moves the window up by `step`; what falls out of it unheard is missing.
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
    /// if it is known: what is missing at the tail shows in no gap.
    pub fn finish(mut self, last: Option<u64>, counts: &mut DeliveryCounts) {
        if let Some(tail) = last.and_then(|last| last.checked_sub(self.highest)) {
            self.shift(tail, counts);
        }
        counts.missing += u64::from(self.window.count_zeros());
    }

    /// The highest number heard.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }
}

/// All trackers of one connection. Empty until the first message, then 32 bytes for each (channel,
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

    /// Takes a message that arrived; `None` when it belongs to more pairs than a connection
    /// follows.
    pub fn on(
        &mut self,
        message: &throng_bench_plan::payload::Message,
        counts: &mut DeliveryCounts,
    ) -> Option<Heard> {
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
                    Tracker::joining_with(message.sequence),
                );
                at
            }
        };
        let entry = self.entries.get_mut(at)?;
        Some(entry.tracker.on(message.sequence, counts))
    }

    /// Ends the count of every pair. `last` tells the last number published to (channel,
    /// publisher).
    pub fn finish(
        self,
        mut last: impl FnMut(u32, u32) -> Option<u64>,
        counts: &mut DeliveryCounts,
    ) {
        for entry in self.entries {
            entry
                .tracker
                .finish(last(entry.channel, entry.publisher), counts);
        }
    }

    /// How many messages are due after the highest that was heard of each pair; `last` tells the
    /// last number due.
    pub fn behind(&self, last: impl Fn(u32, u32) -> Option<u64>) -> u64 {
        let behind = |entry: &Track| {
            last(entry.channel, entry.publisher)?.checked_sub(entry.tracker.highest)
        };
        self.entries.iter().filter_map(behind).sum()
    }

    /// The channels that have not come as far as `last` tells, each with that number.
    pub fn missed(&self, last: impl Fn(u32, u32) -> Option<u64>) -> Vec<(u32, u64)> {
        let missed = |entry: &Track| {
            let last = last(entry.channel, entry.publisher)?;
            (entry.tracker.highest < last).then_some((entry.channel, last))
        };
        self.entries.iter().filter_map(missed).collect()
    }

    /// The highest number heard of a pair; 0 if it is not followed.
    #[must_use]
    pub fn highest(&self, channel: u32, publisher: u32) -> u64 {
        let at = self.find(channel, publisher).ok();
        at.and_then(|at| self.entries.get(at))
            .map_or(0, |entry| entry.tracker.highest)
    }

    /// Whether no message has come yet, whatever is expected.
    #[must_use]
    pub fn heard_nothing(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.tracker.highest < entry.tracker.first)
    }

    /// How many pairs are followed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing has been heard or is expected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, channel: u32, publisher: u32) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&(channel, publisher), |entry| {
                (entry.channel, entry.publisher)
            })
    }

    fn insert(&mut self, at: usize, channel: u32, publisher: u32, tracker: Tracker) {
        // Most connections follow one channel: no room for more is taken in advance.
        self.entries.reserve_exact(1);
        self.entries.insert(
            at,
            Track {
                channel,
                publisher,
                tracker,
            },
        );
    }
}

#[cfg(test)]
mod tests;
