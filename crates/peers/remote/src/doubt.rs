//! Contradictions of a broker: two contents for one position, a position behind the one
//! before, an answer that makes no sense.
//!
//! Nobody knows why it happens, so nothing is concluded from it but this: it is counted and logged,
//! `/healthz` says so for [`DOUBT_MS`], and the clients of the channel are notified of a gap. They
//! come back from the position that they have, and that one may be of the other content; so this
//! node remembers which positions are in doubt, and recovers nothing from them.

use std::collections::VecDeque;

use throng_types::{ChannelName, Position};

/// Time for which `/healthz` reports a doubt, in milliseconds.
const DOUBT_MS: u64 = 60_000;
/// Between two lines of the log, in milliseconds.
const LOG_MS: u64 = 1000;
/// Ranges of positions in doubt. More of them: the oldest is forgotten.
const RANGES_MAX: usize = 1024;

/// Positions of a channel in doubt, from the first to the last.
struct Range {
    channel: ChannelName,
    first: Position,
    last: u64,
}

/// Contradictions of the broker, and the positions that they leave in doubt.
#[derive(Default)]
pub(crate) struct Doubt {
    /// Oldest first. Bound: [`RANGES_MAX`].
    ranges: VecDeque<Range>,
    until_ms: Option<u64>,
    logged_at_ms: Option<u64>,
}

impl Doubt {
    /// Begins, or goes on. True if a line of the log is due.
    pub(crate) fn begin(&mut self, now_ms: u64) -> bool {
        self.until_ms = Some(now_ms + DOUBT_MS);
        let is_due = self
            .logged_at_ms
            .is_none_or(|at_ms| at_ms + LOG_MS <= now_ms);
        if is_due {
            self.logged_at_ms = Some(now_ms);
        }
        is_due
    }

    /// Whether it has just ended.
    pub(crate) fn has_ended(&mut self, now_ms: u64) -> bool {
        self.until_ms
            .take_if(|until_ms| *until_ms <= now_ms)
            .is_some()
    }

    /// Positions from `first` up to `top` are in doubt.
    pub(crate) fn add(&mut self, channel: &ChannelName, first: Position, top: Option<Position>) {
        let top = top.filter(|top| top.epoch == first.epoch);
        if self.ranges.len() == RANGES_MAX {
            self.ranges.pop_front();
        }
        self.ranges.push_back(Range {
            channel: channel.clone(),
            first,
            last: top.map_or(first.offset, |top| top.offset.max(first.offset)),
        });
    }

    /// Whether a position is one of them.
    pub(crate) fn has(&self, channel: &ChannelName, at: Position) -> bool {
        self.ranges.iter().any(|it| {
            it.channel == *channel
                && it.first.epoch == at.epoch
                && (it.first.offset..=it.last).contains(&at.offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use throng_types::Epoch;

    use super::*;

    const fn at(epoch: u64, offset: u64) -> Position {
        let epoch = Epoch(epoch);
        Position { epoch, offset }
    }

    #[test]
    fn a_doubt_lasts_for_a_minute_and_is_logged_once_a_second() {
        let mut doubt = Doubt::default();
        assert!(!doubt.has_ended(0));
        assert!(doubt.begin(0) && !doubt.begin(LOG_MS - 1) && doubt.begin(LOG_MS));
        assert!(!doubt.has_ended(DOUBT_MS) && doubt.has_ended(DOUBT_MS + LOG_MS));
        assert!(!doubt.has_ended(2 * DOUBT_MS));
    }

    #[test]
    fn positions_in_doubt_are_those_up_to_where_the_channel_stood() {
        let name = |n: usize| ChannelName::new(&format!("{n}")).unwrap();
        let mut doubt = Doubt::default();
        doubt.add(&name(0), at(1, 5), Some(at(1, 7)));
        doubt.add(&name(1), at(1, 5), Some(at(2, 7)));
        for (channel, position, expected) in [
            (0, at(1, 4), false),
            (0, at(1, 5), true),
            (0, at(1, 7), true),
            (0, at(1, 8), false),
            (0, at(2, 5), false),
            (1, at(1, 5), true),
            (1, at(1, 6), false),
            (2, at(1, 5), false),
        ] {
            assert_eq!(
                doubt.has(&name(channel), position),
                expected,
                "{position:?}"
            );
        }
        // The oldest is forgotten.
        (1..RANGES_MAX).for_each(|n| doubt.add(&name(n), at(1, 5), None));
        assert!(!doubt.has(&name(0), at(1, 5)) && doubt.has(&name(1), at(1, 5)));
    }
}
