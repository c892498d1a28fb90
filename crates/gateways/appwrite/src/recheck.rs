//! Which connections are still to be looked up again, after events may have been lost.
//!
//! A walk over all connections, a few of them under way at any time: Appwrite has just come back,
//! too, and those who want to come in ask as well. Rule for "full": the walk stands still until an
//! answer has come; a connection without one for too long is ended by its session.

use std::collections::BTreeSet;

/// Connections of a shard that are looked up at the same time.
const ASKED_MAX: usize = 32;
/// Slots that are looked at in one turn.
const SLOTS_PER_TURN: u32 = 4096;

/// How far the walk has come, and who is asked about.
#[derive(Default)]
pub(crate) struct Rechecks {
    next: u32,
    end: u32,
    /// Bound: [`ASKED_MAX`].
    asked: BTreeSet<u32>,
}

impl Rechecks {
    /// Begins anew; no connection is in a slot from `end` on.
    pub(crate) const fn begin(&mut self, end: u32) {
        (self.next, self.end) = (0, end);
    }

    /// A connection has its answer, or is gone.
    pub(crate) fn done(&mut self, slot: u32) {
        self.asked.remove(&slot);
    }

    /// Goes on; `ask` is true for a connection that asks. True if more can be done at once.
    pub(crate) fn some(&mut self, mut ask: impl FnMut(u32) -> bool) -> bool {
        let until = self.end.min(self.next.saturating_add(SLOTS_PER_TURN));
        while self.next < until && self.asked.len() < ASKED_MAX {
            let slot = self.next;
            self.next += 1;
            if ask(slot) {
                self.asked.insert(slot);
            }
        }
        self.next < self.end && self.asked.len() < ASKED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_a_time() {
        let mut rechecks = Rechecks::default();
        assert!(!rechecks.some(|_| panic!("nothing is to be done")));
        rechecks.begin(10_000);
        let mut asked = Vec::new();
        // Every hundredth has a user, and all are answered between two turns.
        for turn in 0..100 {
            if rechecks.next == rechecks.end {
                break;
            }
            rechecks.some(|slot| {
                let asks = slot % 100 == 0;
                asked.extend(asks.then_some(slot));
                asks
            });
            assert!(rechecks.asked.len() <= ASKED_MAX);
            if turn % 2 == 1 {
                asked.iter().for_each(|&slot| rechecks.done(slot));
            }
        }
        assert_eq!(asked.len(), 100);
        rechecks.begin(100);
        rechecks.begin(0);
        assert!(!rechecks.some(|_| true));
    }
}
