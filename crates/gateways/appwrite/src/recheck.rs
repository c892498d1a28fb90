//! Connections that are still to be looked up again, after events may have been lost.
//!
//! A walk over all connections, a few of them under way at any time: Appwrite has just come back,
//! too, and new clients need lookups as well. Rule for "full": the walk stands still until an
//! answer has come; a connection without one for too long is ended by its session.

use std::collections::BTreeSet;

/// Connections of a shard that are looked up at the same time.
const ASKED_MAX: usize = 32;
/// Slots that are looked at in one turn.
const SLOTS_PER_TURN: u32 = 4096;

/// Progress of the walk, and the connections under way.
#[derive(Default)]
pub(crate) struct Rechecks {
    next: u32,
    end: u32,
    /// Connections whose lookup is under way. Bound: [`ASKED_MAX`].
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

    /// A turn ends with its slots, and then more can be done at once; or with as many as may be
    /// asked about, and then one answer makes room for one.
    #[test]
    fn a_turn_says_whether_more_can_be_done() {
        let mut rechecks = Rechecks::default();
        let mut looked_at = 0..0;
        let mut nobody_asks = |rechecks: &mut Rechecks| {
            let more = rechecks.some(|slot| {
                assert_eq!(slot, looked_at.end, "one after the other");
                looked_at.end += 1;
                false
            });
            (more, looked_at.end)
        };
        rechecks.begin(SLOTS_PER_TURN * 2);
        assert_eq!(nobody_asks(&mut rechecks), (true, SLOTS_PER_TURN));
        assert_eq!(nobody_asks(&mut rechecks), (false, SLOTS_PER_TURN * 2));
        assert_eq!(nobody_asks(&mut rechecks), (false, SLOTS_PER_TURN * 2));
        let mut asked = Vec::new();
        let mut all_ask = |rechecks: &mut Rechecks| {
            let more = rechecks.some(|slot| {
                asked.push(slot);
                true
            });
            (more, asked.len())
        };
        rechecks.begin(ASKED_MAX as u32 + 2);
        assert_eq!(all_ask(&mut rechecks), (false, ASKED_MAX));
        assert_eq!(all_ask(&mut rechecks), (false, ASKED_MAX));
        for more in 1..=2 {
            rechecks.done(more);
            assert_eq!(all_ask(&mut rechecks), (false, ASKED_MAX + more as usize));
        }
        rechecks.done(3);
        assert_eq!(all_ask(&mut rechecks), (false, ASKED_MAX + 2));
    }
}
