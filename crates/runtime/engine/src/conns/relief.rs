//! One bound on what all queues of a shard hold together: [`super::ConnLimits::queued_bytes_max`].
//! Queue: `all outbound queues`.
//!
//! Counted is what the queues cost. Bytes of one connection's own, TLS records and the lists count
//! as they are allocated; a frame that many queues share counts once, a part of it for each.
//!
//! The sum is taken only when it may have passed the bound, since a frame's part depends on who
//! else holds it; and not before a sixteenth of the bound has come, by so much it may be exceeded.
//!
//! Rule for "full": the queues that cost most and have stood still longest end, as slow ones do,
//! until an eighth of the bound is free. A connection that was about to end goes at once, and so
//! does one at whose head more waits than its peer should be given time for. Connections that are
//! [`super::Conns::prefer`]red come last.

use super::{Conns, flag};
use crate::outbound::{Outbound, Sum};
use crate::{Closed, Kernel};

/// Bytes that a queue may keep when it ends, so that its peer still gets the reason.
const REST_BYTES_MAX: usize = 64 << 10;
/// A queue that stands still for a second weighs twice what it costs.
const STILL_MS: u64 = 1_000;
/// A queue of which the kernel has taken nothing for this long, and that holds so much, is one of a
/// peer that does not read. Its connection stays behind in a hand-over.
const UNMOVED_MS: u64 = 2_000;
const UNMOVED_BYTES: usize = 256 << 10;

impl<S, K: Kernel> Conns<S, K> {
    /// Ends connections if all queues together may have passed their bound.
    #[inline]
    pub(super) fn keep_bound(&mut self) {
        if self.sum.is_due() {
            self.relieve();
        }
    }

    #[cold]
    fn relieve(&mut self) {
        let bound = self.limits.queued_bytes_max;
        // Twice at most: a queue that was given time for a last word has none in the second round.
        for _ in 0..2 {
            let mut cost: usize = self.queues.iter().map(|(_, queue)| queue.cost()).sum();
            self.sum = Sum {
                since: 0,
                since_max: bound.saturating_sub(cost).max(bound / 16),
            };
            if cost <= bound {
                return;
            }
            let now_ms = self.now.mono.0;
            let mut queues: Vec<_> = { self.queues.iter() }
                .filter_map(|(_, queue)| {
                    let slot = self.slots.get(queue.owner)?;
                    let still_ms = now_ms.saturating_sub(queue.moved_at.0);
                    let weight = queue.cost() as u64 * (STILL_MS + still_ms);
                    let rank = (!slot.has(flag::PREFERRED), weight);
                    Some((rank, queue.owner))
                })
                .collect();
            queues.sort_unstable_by(|one, other| other.cmp(one));
            for (_, index) in queues {
                if cost <= bound / 8 * 7 {
                    break;
                }
                cost -= self.end_crowding(index).min(cost);
            }
        }
    }

    /// Ends a connection because all queues together are too long; gives what that has freed.
    fn end_crowding(&mut self, index: u32) -> usize {
        let Some(slot) = self.slots.get(index) else {
            return 0;
        };
        let (out, was_leaving, was_slow) =
            (slot.out, slot.has(flag::LEAVING), slot.has(flag::SLOW));
        let cost = |conns: &Self| conns.queues.get(out).map_or(0, Outbound::cost);
        let before = cost(self);
        self.stats.crowded += u64::from(!was_slow);
        if !was_leaving {
            self.end_slow(index);
        }
        let rest = self.queues.get(out).map_or(0, Outbound::bytes);
        if was_leaving || rest > REST_BYTES_MAX {
            self.close(index, Closed::Slow);
            if let Some(queue) = self.queues.get_mut(out) {
                queue.recycle();
            }
        }
        before.saturating_sub(cost(self))
    }

    /// Whether a connection's peer reads, as far as its queue tells.
    pub(super) fn reads(&self, queue: u32) -> bool {
        self.queues.get(queue).is_none_or(|queue| {
            queue.bytes() < UNMOVED_BYTES || self.now.mono < queue.moved_at + UNMOVED_MS
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use throng_types::{ConnId, Frame, Millis, Now, Overflow, ShardId};

    use super::super::{ConnLimits, Delivery, Pieces};
    use super::*;
    use crate::{Accepted, Linux};

    const BOUND: usize = 1 << 20;
    const PIECE: usize = 100_000;

    /// Connections to nothing: nobody writes in these tests.
    struct Crowd {
        conns: Conns<u32>,
        ids: Vec<ConnId>,
    }

    impl Crowd {
        fn new(count: usize) -> Self {
            let limits = ConnLimits {
                queued_bytes_max: BOUND,
                ..ConnLimits::default()
            };
            let kernel = Linux::new(Instant::now()).expect("a reactor");
            let mut conns = Conns::new(ShardId(3), limits, kernel);
            let null = std::fs::File::open("/dev/null").expect("a file");
            let accepted = || Accepted {
                session: 5,
                tag: 7,
                deadline: None,
            };
            let socket = || null.try_clone().expect("a descriptor").into();
            let ids = (0..count).map(|_| conns.insert(socket(), accepted(), false));
            let ids = ids.collect();
            Self { conns, ids }
        }

        fn at(&mut self, ms: u64) {
            self.conns.set_now(Now {
                mono: Millis(ms),
                unix_ms: 0,
            });
        }

        fn reply(&mut self, who: usize, bytes: usize) {
            let act = |_, _: &mut u32, fx: &mut crate::Effects<'_>| fx.out.resize(bytes, 1);
            self.conns.act(self.ids[who].index(), act);
        }

        fn deliver(&mut self, who: usize, frame: &Frame) {
            let delivery = Delivery {
                frames: Pieces::Made(std::slice::from_ref(frame)),
                joined: frame,
                key: 1,
                overflow: Overflow::Close,
                gather: true,
            };
            self.conns.deliver(self.ids[who].index(), &delivery);
        }

        fn held(&self) -> usize {
            { self.conns.queues.iter() }
                .map(|(_, queue)| queue.cost())
                .sum()
        }

        /// The places of those that ended, and of those that are gone.
        fn ended(&mut self) -> (Vec<usize>, Vec<usize>) {
            let place = |index: u32| self.ids.iter().position(|id| id.index() == index);
            let slow = std::iter::from_fn(|| self.conns.take_slow());
            let mut slow: Vec<usize> = slow.filter_map(place).collect();
            slow.sort_unstable();
            let closed = self.conns.closed.iter();
            let mut closed: Vec<usize> = closed.filter_map(|(index, _)| place(*index)).collect();
            closed.sort_unstable();
            (slow, closed)
        }
    }

    #[test]
    fn all_queues_together_have_a_bound() {
        let mut crowd = Crowd::new(100);
        for who in 0..100 {
            crowd.at(who as u64);
            crowd.reply(who, PIECE);
            assert!(crowd.held() <= BOUND + BOUND / 16 + 2 * PIECE, "{who}");
        }
        let (slow, closed) = crowd.ended();
        // So much at the head is not waited for.
        assert_eq!(slow, closed);
        assert!((88..96).contains(&closed.len()), "{closed:?}");
        assert_eq!(crowd.conns.stats().crowded, closed.len() as u64);
        assert_eq!(crowd.conns.stats().slow, closed.len() as u64);
        // One that stood longest went before one that came last.
        assert!(closed.contains(&0) && !closed.contains(&99), "{closed:?}");
    }

    #[test]
    fn a_shorter_queue_and_one_that_moves_stay() {
        let mut crowd = Crowd::new(12);
        crowd.at(1_000);
        for who in 0..9 {
            crowd.reply(who, PIECE);
        }
        // The last one has most, and the kernel takes of it; the one before has little.
        crowd.reply(10, PIECE / 10);
        crowd.reply(11, 2 * PIECE / 3);
        crowd.at(20_000);
        let out = crowd
            .conns
            .slots
            .get(crowd.ids[11].index())
            .expect("it is there");
        let queue = crowd.conns.queues.get_mut(out.out).expect("bytes wait");
        queue.moved_at = Millis(20_000);
        crowd.reply(11, 2 * PIECE / 3);
        crowd.reply(9, PIECE);
        let (slow, closed) = crowd.ended();
        assert_eq!(slow, closed);
        assert!(
            !closed.is_empty() && closed.iter().all(|who| *who < 9),
            "{closed:?}"
        );
    }

    #[test]
    fn what_queues_share_counts_once() {
        let mut crowd = Crowd::new(100);
        crowd.at(1_000);
        for _ in 0..5 {
            let shared = Frame::new(&[1; PIECE]);
            for who in 0..80 {
                crowd.deliver(who, &shared);
            }
        }
        assert_eq!(crowd.ended(), (vec![], vec![]));
        let mut told = Vec::new();
        for who in 80..100 {
            // The first frame is short, and leaves time for a last word.
            crowd.deliver(who, &Frame::new(&[1; 100]));
            crowd.deliver(who, &Frame::new(&[1; PIECE]));
            let (slow, closed) = crowd.ended();
            assert!(closed.is_empty(), "{closed:?}");
            told.extend(slow);
        }
        assert!(
            !told.is_empty() && told.iter().all(|who| *who >= 80),
            "{told:?}"
        );
        assert!(crowd.held() <= BOUND + BOUND / 16 + PIECE);
        // A last word is behind what had begun, and nothing else.
        let index = crowd.ids[told[0]].index();
        crowd
            .conns
            .act_slow(index, |_, _, fx| fx.out.extend(b"slow"));
        assert_eq!(crowd.conns.queued_bytes(crowd.ids[told[0]]), 100 + 4);
    }

    #[test]
    fn preferred_connections_end_last() {
        let mut crowd = Crowd::new(30);
        crowd.at(1_000);
        let first = crowd.ids[0];
        crowd.conns.prefer(first);
        crowd.reply(0, 5 * PIECE);
        crowd.at(50_000);
        for who in 1..30 {
            crowd.reply(who, PIECE);
        }
        let (_, closed) = crowd.ended();
        assert!(!closed.is_empty() && !closed.contains(&0), "{closed:?}");
        // Alone it has no more than all.
        crowd.at(51_000);
        for _ in 0..20 {
            crowd.reply(0, PIECE);
        }
        assert!(crowd.ended().1.contains(&0));
        assert!(crowd.held() <= BOUND);
    }

    #[test]
    fn a_connection_whose_peer_does_not_read_stays_behind() {
        let mut crowd = Crowd::new(3);
        crowd.at(1_000);
        crowd.reply(0, UNMOVED_BYTES);
        crowd.reply(1, UNMOVED_BYTES - 1);
        for (ms, count) in [(1_000 + UNMOVED_MS - 1, 3), (1_000 + UNMOVED_MS, 2)] {
            crowd.at(ms);
            assert_eq!(crowd.conns.movable().count(), count);
        }
    }
}
