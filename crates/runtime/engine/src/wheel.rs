//! The timer wheel: one deadline per connection, a few bytes each, no allocation to set one.
//!
//! Owns the deadlines. Never: reads a clock, calls anybody.
//!
//! Four levels of 64 buckets; a bucket of level `n` spans 64^n ticks. An entry sits in
//! the level where its distance first fits and moves down as its time comes near.
//!
//! Invariants
//! - An index is in at most one bucket, and `links[index]` says which.
//! - Ticks are kept modulo 2^32 and understood as the nearest to now, so the wheel
//!   does not care how long the process has run.
//! - No deadline fires early; it fires at most one tick late.

use throng_types::Millis;

/// The wheel's resolution, in milliseconds.
pub const TICK_MS: u64 = 32;

const LEVELS: usize = 4;
const BUCKETS: usize = 64;
const BITS: u32 = 6;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    previous: u32,
    /// The due tick, modulo 2^32.
    tick: u32,
}

const UNSET: Link = Link {
    next: NONE,
    previous: NONE,
    tick: 0,
};

/// The furthest a deadline may be away; further ones fire there. About a year.
const REACH_TICKS: u64 = 1 << 30;

/// Deadlines by index, in four levels of buckets.
pub struct Wheel {
    links: Vec<Link>,
    heads: [[u32; BUCKETS]; LEVELS],
    occupied: [u64; LEVELS],
    /// Every tick before this one has fired.
    current: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            heads: [[NONE; BUCKETS]; LEVELS],
            occupied: [0; LEVELS],
            current: 0,
            len: 0,
        }
    }
}

impl Wheel {
    /// Sets, moves or (with `None`) clears the deadline of an index.
    pub fn set(&mut self, index: u32, deadline: Option<Millis>) {
        self.unlink(index);
        let Some(deadline) = deadline else {
            self.forget_tail();
            return;
        };
        if self.links.len() <= index as usize {
            self.links.resize(index as usize + 1, UNSET);
        }
        // Rounded up, so that nothing fires early.
        let tick = deadline.0.div_ceil(TICK_MS);
        let tick = tick.clamp(self.current, self.current + REACH_TICKS);
        self.links[index as usize].tick = tick as u32;
        self.link(index);
        self.len += 1;
    }

    /// The deadline of an index, rounded up to a tick.
    pub fn get(&self, index: u32) -> Option<Millis> {
        let link = self.links.get(index as usize)?;
        if link.previous == NONE {
            return None;
        }
        Some(Millis(self.tick_of(index) * TICK_MS))
    }

    /// Gives the memory above the highest index with a deadline back, once it is worth it.
    fn forget_tail(&mut self) {
        while self.links.last().is_some_and(|link| link.previous == NONE) {
            self.links.pop();
        }
        if self.links.len() < self.links.capacity() / 4 {
            self.links.shrink_to(2 * self.links.len());
        }
    }

    /// The time at which [`Wheel::expire`] has something to do next; it may turn out to be a move
    /// between levels.
    pub fn next_deadline(&self) -> Option<Millis> {
        (0..LEVELS)
            .filter_map(|level| self.next_in(level))
            .min()
            .map(|tick| Millis(tick * TICK_MS))
    }

    /// The first tick from `current` on at which a level's next bucket comes up.
    fn next_in(&self, level: usize) -> Option<u64> {
        let shift = BITS * level as u32;
        let here = self.current >> shift;
        let rotated = self.occupied[level].rotate_right((here % BUCKETS as u64) as u32);
        (rotated != 0).then(|| {
            let ahead = u64::from(rotated.trailing_zeros());
            ((here + ahead) << shift).max(self.current)
        })
    }

    /// Hands over every index whose deadline has come; each is unset before it is handed over.
    pub fn expire(&mut self, now: Millis, mut fire: impl FnMut(u32)) {
        let now_tick = now.0 / TICK_MS;
        while let Some(next) = self.next_deadline() {
            let tick = next.0 / TICK_MS;
            if tick > now_tick {
                break;
            }
            self.current = self.current.max(tick);
            for level in (1..LEVELS).rev() {
                if self.current.trailing_zeros() >= BITS * level as u32 {
                    self.move_down(level);
                }
            }
            self.fire_current(&mut fire);
        }
        self.current = self.current.max(now_tick);
        // A jump may have passed the starts of buckets: what they hold is due later, but lower.
        for level in (1..LEVELS).rev() {
            self.move_down(level);
        }
    }

    fn fire_current(&mut self, fire: &mut impl FnMut(u32)) {
        let bucket = (self.current % BUCKETS as u64) as usize;
        while self.heads[0][bucket] != NONE {
            let index = self.heads[0][bucket];
            self.unlink(index);
            fire(index);
        }
    }

    /// Moves the current bucket of a level to the levels below.
    fn move_down(&mut self, level: usize) {
        let bucket = ((self.current >> (BITS * level as u32)) % BUCKETS as u64) as usize;
        let mut index = std::mem::replace(&mut self.heads[level][bucket], NONE);
        self.occupied[level] &= !(1 << bucket);
        while index != NONE {
            let next = self.links[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    /// The whole tick of an entry: the one nearest to now that has its low half.
    fn tick_of(&self, index: u32) -> u64 {
        let ahead = self.links[index as usize]
            .tick
            .wrapping_sub(self.current as u32);
        self.current.saturating_add_signed(i64::from(ahead as i32))
    }

    fn place(&self, tick: u64) -> (usize, usize) {
        let units = |level: usize, tick: u64| tick >> (BITS * level as u32);
        // Compared in the level's own units, so that a bucket never wraps onto itself.
        let fits = |&level: &usize| {
            units(level, tick).saturating_sub(units(level, self.current)) < BUCKETS as u64
        };
        let level = (0..LEVELS).find(fits).unwrap_or(LEVELS - 1);
        // What is further away than the wheel reaches waits in its last bucket and moves on from
        // there.
        let last = units(level, self.current) + BUCKETS as u64 - 1;
        (
            level,
            (units(level, tick).min(last) % BUCKETS as u64) as usize,
        )
    }

    /// Puts an index, whose tick is set, into its bucket.
    fn link(&mut self, index: u32) {
        let (level, bucket) = self.place(self.tick_of(index));
        let head = std::mem::replace(&mut self.heads[level][bucket], index);
        self.occupied[level] |= 1 << bucket;
        if head != NONE {
            self.links[head as usize].previous = index;
        }
        // A first entry names its bucket in place of a predecessor.
        let bucket_name = NONE - 1 - (level * BUCKETS + bucket) as u32;
        self.links[index as usize].next = head;
        self.links[index as usize].previous = bucket_name;
    }

    fn unlink(&mut self, index: u32) {
        let Some(&link) = self.links.get(index as usize) else {
            return;
        };
        if link.previous == NONE {
            return;
        }
        if link.next != NONE {
            self.links[link.next as usize].previous = link.previous;
        }
        let bucket_name = (NONE - 1 - link.previous) as usize;
        if bucket_name < LEVELS * BUCKETS {
            let (level, bucket) = (bucket_name / BUCKETS, bucket_name % BUCKETS);
            self.heads[level][bucket] = link.next;
            if link.next == NONE {
                self.occupied[level] &= !(1 << bucket);
            }
        } else {
            self.links[link.previous as usize].next = link.next;
        }
        self.links[index as usize] = UNSET;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_wheel_agrees_with_a_sorted_list() {
        let mut state = 7_u64;
        let mut below = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut wheel = Wheel::default();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 0;
        for _ in 0..200_000 {
            match below(4) {
                0 | 1 => {
                    let index = below(300) as u32;
                    let reach = [100, 10_000, 1_000_000, 600_000_000][below(4) as usize];
                    let at = now + below(reach);
                    wheel.set(index, Some(Millis(at)));
                    model.insert(index, at);
                }
                2 => {
                    let index = below(300) as u32;
                    wheel.set(index, None);
                    model.remove(&index);
                }
                _ => {
                    let reach = [10, 500, 60_000, 100_000_000][below(4) as usize];
                    now += below(reach) + 1;
                    wheel.expire(Millis(now), |index| {
                        let at = model.remove(&index).expect("set");
                        assert!(at <= now, "early by {}", at - now);
                    });
                    let late = model.values().find(|&&at| at + TICK_MS <= now);
                    assert_eq!(late, None, "late at {now}");
                }
            }
            assert_eq!(wheel.len, model.len());
            if let (Some(next), Some(first)) = (wheel.next_deadline(), model.values().min()) {
                assert!(
                    next.0 < first + 2 * TICK_MS,
                    "sleeps past {first} until {}",
                    next.0
                );
            }
            assert_eq!(wheel.next_deadline().is_some(), !model.is_empty());
        }
    }

    #[test]
    fn a_wheel_gives_memory_back_with_its_deadlines() {
        let mut wheel = Wheel::default();
        for index in 0..10_000 {
            wheel.set(index, Some(Millis(5)));
        }
        for index in 10..10_000 {
            wheel.set(index, None);
        }
        assert!(wheel.links.capacity() < 100, "{}", wheel.links.capacity());
        for index in 0..10 {
            wheel.set(index, None);
        }
        assert_eq!(wheel.links.capacity(), 0);
    }
}
