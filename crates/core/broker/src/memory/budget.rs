//! One budget of bytes for all shards, without a lock and without an atomic for each use.
//!
//! The budget hands out chunks. A shard's [`Share`] takes from its chunks with plain arithmetic
//! and comes here only when they are used up, or when two of them are free.
//!
//! Rule for "full": a share that gets nothing frees bytes of its own. A share with less than an
//! equal part sets `wanted`; those with more give back at their next look.
//!
//! Invariants
//! - `free` and what all shares were granted add up to `max`, so all of them together never use
//!   more.
//! - A share uses at most what it was granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Chunks for each shard if all have the same; fewer would leave more unused.
const CHUNKS: usize = 64;

/// Bytes that several shards share.
#[derive(Debug)]
pub struct Budget {
    max: usize,
    /// An equal part for each shard.
    equal: usize,
    chunk: usize,
    /// Bytes that no share was granted.
    free: AtomicUsize,
    /// Bytes that a share below an equal part asked for and did not get; zero if none did.
    wanted: AtomicUsize,
}

impl Budget {
    /// `bytes_max` for so many shards together.
    #[must_use]
    pub fn new(bytes_max: usize, shards: u8) -> Arc<Self> {
        let equal = bytes_max / usize::from(shards.max(1));
        Arc::new(Self {
            max: bytes_max,
            equal,
            chunk: (equal / CHUNKS).max(1),
            free: AtomicUsize::new(bytes_max),
            wanted: AtomicUsize::new(0),
        })
    }

    /// An equal part for each shard, in bytes.
    pub(super) const fn equal(&self) -> usize {
        self.equal
    }
}

pub(super) struct Share {
    budget: Arc<Budget>,
    granted: usize,
    used: usize,
}

impl Share {
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            granted: 0,
            used: 0,
        }
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// Whether so many bytes fit into the whole budget.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        bytes <= self.budget.max
    }

    /// Takes bytes; false, and nothing is taken, if there are none left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let needed = self.used + bytes;
        if needed > self.granted && !self.grow(needed - self.granted) {
            return false;
        }
        self.used = needed;
        true
    }

    fn grow(&mut self, missing: usize) -> bool {
        let Budget { chunk, free, .. } = &*self.budget;
        let mut grant = 0;
        let taken = free.fetch_update(Relaxed, Relaxed, |free| {
            grant = missing.max(*chunk).min(free);
            (free >= missing).then(|| free - grant)
        });
        if taken.is_ok() {
            self.granted += grant;
        } else if self.granted < self.budget.equal {
            self.budget.wanted.fetch_max(missing.max(*chunk), Relaxed);
        }
        taken.is_ok()
    }

    pub(super) fn give(&mut self, bytes: usize) {
        self.used -= bytes;
        let spare = self.granted - self.used;
        if spare >= 2 * self.budget.chunk {
            self.release(spare - self.budget.chunk);
        }
    }

    /// Counts all bytes as unused. The grant stays, for what comes in their place.
    pub(super) const fn forget(&mut self) {
        self.used = 0;
    }

    fn release(&mut self, bytes: usize) {
        self.granted -= bytes;
        self.budget.free.fetch_add(bytes, Relaxed);
    }

    /// Bytes that this share may go on using, if another one below an equal part found nothing.
    pub(super) fn target(&self) -> Option<usize> {
        let wanted = self.budget.wanted.load(Relaxed);
        let target = self.granted.saturating_sub(wanted).max(self.budget.equal);
        (wanted > 0).then_some(target)
    }

    /// Gives back what this share was granted beyond an equal part and does not use.
    pub(super) fn settle(&mut self) {
        let wanted = self.budget.wanted.load(Relaxed);
        let spare = self.granted - self.used;
        let above = self.granted.saturating_sub(self.budget.equal);
        let bytes = wanted.min(spare).min(above);
        if bytes > 0 {
            self.release(bytes);
            self.budget.wanted.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Share {
        pub(crate) const fn granted(&self) -> usize {
            self.granted
        }
    }

    fn shares<const N: usize>(bytes_max: usize) -> [Share; N] {
        let budget = Budget::new(bytes_max, N as u8);
        std::array::from_fn(|_| Share::new(budget.clone()))
    }

    #[test]
    fn one_share_may_use_nearly_all() {
        let [mut a, mut b] = shares(1000);
        assert!(a.take(993));
        assert!(!a.take(8));
        assert!(b.take(7) && !b.take(1));
        a.give(993);
        assert!(b.take(900), "what was given back is there for others");
    }

    #[test]
    fn all_together_never_use_more() {
        let [mut a, mut b, mut c] = shares(900);
        let mut rng = 1_u64;
        for step in 0..10_000 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let share = [&mut a, &mut b, &mut c]
                .into_iter()
                .nth((rng >> 33) as usize % 3)
                .unwrap();
            let bytes = (rng >> 40) as usize % 200;
            match (rng >> 50) % 3 {
                0 => drop(share.take(bytes)),
                1 => share.give(bytes.min(share.used)),
                _ => {
                    let target = share.target().unwrap_or(usize::MAX);
                    share.give(share.used.saturating_sub(target));
                    share.settle();
                }
            }
            let granted = a.granted + b.granted + c.granted;
            assert_eq!(granted + a.budget.free.load(Relaxed), 900, "step {step}");
            assert!(a.used <= a.granted && b.used <= b.granted && c.used <= c.granted);
        }
    }

    #[test]
    fn who_has_more_than_an_equal_part_gives_to_who_has_less() {
        let [mut a, mut b] = shares(1000);
        assert!(a.take(1000));
        assert_eq!(a.target(), None, "nobody wants it");
        assert!(!b.take(30));
        assert_eq!(a.target(), Some(970));
        a.give(30);
        a.settle();
        assert!(b.take(30));
        assert_eq!(a.target(), None);
        // Up to an equal part, and no further.
        while a.used > 500 {
            assert!(!b.take(100));
            let target = a.target().unwrap();
            assert!(target < a.used);
            a.give(a.used - target);
            a.settle();
            b.take(100);
        }
        assert_eq!(a.used, 500);
        assert!(!b.take(200));
        assert_eq!(a.target(), Some(500), "it has no more than an equal part");
    }
}
