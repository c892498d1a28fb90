//! Durations that end with the turn of a shard: an answer or a delivery has gone to the kernel, or
//! to its queue, when the turn is over, and only then is the turn's own time known.
//!
//! Rule for "full": a duration that finds no room is recorded at once, without the turn's time.

use std::cell::RefCell;

use crate::{Counters, Histogram};

/// Different durations of one turn; most have the same few.
const NOTES_MAX: usize = 64;

struct Note {
    histogram: Histogram,
    before_ms: u64,
    times: u64,
}

/// Durations noted in the current turn of one shard.
#[derive(Default)]
pub struct TurnTimes {
    /// Different durations so far. Bound: [`NOTES_MAX`].
    notes: RefCell<Vec<Note>>,
}

impl TurnTimes {
    /// Notes something that this turn completes and that began `before_ms` before it.
    pub fn note(&self, histogram: Histogram, before_ms: u64, counters: &Counters) {
        let mut notes = self.notes.borrow_mut();
        let known = |it: &Note| it.histogram == histogram && it.before_ms == before_ms;
        match notes.iter().position(known) {
            Some(at) => notes[at].times += 1,
            None if notes.len() < NOTES_MAX => notes.push(Note {
                histogram,
                before_ms,
                times: 1,
            }),
            None => counters.record(histogram, before_ms.saturating_mul(1000)),
        }
    }

    /// Records what was noted in a turn that took `turn_us`.
    pub fn end_turn(&self, turn_us: u64, counters: &Counters) {
        for note in self.notes.borrow_mut().drain(..) {
            let us = note.before_ms.saturating_mul(1000).saturating_add(turn_us);
            counters.record_many(note.histogram, us, note.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_the_turn_in_it() {
        let (times, counters) = (TurnTimes::default(), Counters::new());
        let of = |histogram| counters.histogram(histogram);
        times.note(Histogram::DeliveryLag, 0, &counters);
        times.note(Histogram::ApiPublish, 2, &counters);
        times.note(Histogram::DeliveryLag, 0, &counters);
        assert_eq!(of(Histogram::DeliveryLag).count(), 0);
        times.end_turn(70, &counters);
        times.end_turn(5_000, &counters);
        let (lag, publish) = (of(Histogram::DeliveryLag), of(Histogram::ApiPublish));
        assert_eq!((lag.count(), lag.sum_us), (2, 140));
        assert_eq!((publish.count(), publish.sum_us), (1, 2_070));
    }

    #[test]
    fn what_has_no_room_is_recorded_at_once() {
        let (times, counters) = (TurnTimes::default(), Counters::new());
        for ms in 0..=NOTES_MAX as u64 {
            times.note(Histogram::DeliveryLag, ms, &counters);
        }
        let lag = || counters.histogram(Histogram::DeliveryLag);
        assert_eq!((lag().count(), lag().sum_us), (1, 64_000));
        times.end_turn(0, &counters);
        assert_eq!(lag().count(), 65);
    }
}
