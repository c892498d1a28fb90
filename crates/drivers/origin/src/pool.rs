//! Connections that wait for another request.
//!
//! Rule for "full": the connection of a place that has waited longest is closed for a new one,
//! and if all places together are full, the one of any place. What has waited too long, or was
//! closed by the other side, is closed by [`Pool::reap`], whoever asks for what.
//!
//! Invariants
//! - What is in the pool has been read to the end of an answer, so the next bytes on it belong to
//!   the next answer.
//! - A place is one that a route names, so clients cannot make more of them. The name that a
//!   certificate was checked for may be the client's to choose; it decides which connection is
//!   taken and not how many there are.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::place::{Key, Place};

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    /// Connections of one place.
    pub(crate) of_place_max: usize,
    /// Connections of all places.
    pub(crate) all_max: usize,
    /// How long one may wait.
    pub(crate) timeout: Duration,
}

struct Idle<S> {
    stream: S,
    name: String,
    since: Instant,
}

/// What the pool has to know of a connection.
pub(crate) trait Quiet {
    /// Whether nothing has come since the last answer, not even an end.
    fn is_quiet(&self) -> bool;
}

/// By place, the one that has waited longest first.
struct Places<S> {
    /// Bound: [`PoolLimits`].
    all: HashMap<Place, VecDeque<Idle<S>>>,
    count: usize,
}

/// Idle connections to backends, by place.
pub(crate) struct Pool<S> {
    places: Mutex<Places<S>>,
    limits: PoolLimits,
}

impl<S: Quiet> Pool<S> {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self {
            places: Mutex::new(Places {
                all: HashMap::new(),
                count: 0,
            }),
            limits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places<S>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last and is still open.
    pub(crate) fn take(&self, key: &Key, now: Instant) -> Option<S> {
        let mut places = self.lock();
        loop {
            let idle = places.all.get_mut(&key.place)?;
            let at = idle.iter().rposition(|idle| idle.name == key.name)?;
            let found = idle.remove(at)?;
            let is_empty = idle.is_empty();
            if is_empty {
                places.all.remove(&key.place);
            }
            places.count -= 1;
            if now.saturating_duration_since(found.since) < self.limits.timeout
                && found.stream.is_quiet()
            {
                return Some(found.stream);
            }
        }
    }

    pub(crate) fn put(&self, key: Key, stream: S, now: Instant) {
        let limits = self.limits;
        if limits.of_place_max == 0 || limits.all_max == 0 {
            return;
        }
        let mut places = self.lock();
        let idle = places.all.get(&key.place).map_or(0, VecDeque::len);
        if idle >= limits.of_place_max {
            places.drop_oldest(&key.place);
        }
        while places.count >= limits.all_max
            && let Some(oldest) = places.oldest()
        {
            places.drop_oldest(&oldest);
        }
        places.count += 1;
        places.all.entry(key.place).or_default().push_back(Idle {
            stream,
            name: key.name,
            since: now,
        });
    }

    /// Closes what has waited too long, and what the other side has closed. To be called now and
    /// then.
    pub(crate) fn reap(&self, now: Instant) {
        let timeout = self.limits.timeout;
        let mut places = self.lock();
        places.all.retain(|_, idle| {
            idle.retain(|idle| {
                now.saturating_duration_since(idle.since) < timeout && idle.stream.is_quiet()
            });
            !idle.is_empty()
        });
        places.count = places.all.values().map(VecDeque::len).sum();
    }
}

impl<S> Places<S> {
    fn oldest(&self) -> Option<Place> {
        let fronts = self.all.iter();
        let fronts = fronts.filter_map(|(place, idle)| Some((place, idle.front()?.since)));
        let oldest = fronts.min_by_key(|(_, since)| *since);
        oldest.map(|(place, _)| place.clone())
    }

    fn drop_oldest(&mut self, place: &Place) {
        let Some(idle) = self.all.get_mut(place) else {
            return;
        };
        self.count -= usize::from(idle.pop_front().is_some());
        if idle.is_empty() {
            self.all.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A connection with a number; the cell says whether the other side has closed.
    struct Fake(u32, Rc<Cell<bool>>);

    impl Quiet for Fake {
        fn is_quiet(&self) -> bool {
            !self.1.get()
        }
    }

    fn key(host: &str, name: &str) -> Key {
        Key {
            place: Place {
                host: host.to_owned(),
                port: 443,
                tls: true,
                insecure: true,
            },
            name: name.to_owned(),
        }
    }

    struct Play {
        pool: Pool<Fake>,
        start: Instant,
        open: Vec<Rc<Cell<bool>>>,
    }

    impl Play {
        fn new(of_place_max: usize, all_max: usize) -> Self {
            let timeout = Duration::from_secs(10);
            Self {
                pool: Pool::new(PoolLimits {
                    of_place_max,
                    all_max,
                    timeout,
                }),
                start: Instant::now(),
                open: Vec::new(),
            }
        }

        fn at(&self, s: u64) -> Instant {
            self.start + Duration::from_secs(s)
        }

        /// Puts the next number.
        fn put(&mut self, host: &str, name: &str, s: u64) {
            let is_closed = Rc::new(Cell::new(false));
            let number = self.open.len() as u32;
            self.open.push(is_closed.clone());
            self.pool
                .put(key(host, name), Fake(number, is_closed), self.at(s));
        }

        fn take(&self, host: &str, name: &str, s: u64) -> Option<u32> {
            let fake = self.pool.take(&key(host, name), self.at(s));
            fake.map(|Fake(number, _)| number)
        }

        /// How many are open.
        fn kept(&self) -> usize {
            let open = self.open.iter();
            let kept = open.filter(|open| Rc::strong_count(open) > 1).count();
            assert_eq!(kept, self.pool.lock().count);
            kept
        }
    }

    #[test]
    fn the_one_that_was_used_last_comes_first() {
        let mut play = Play::new(8, 8);
        play.put("a", "x", 0);
        play.put("a", "x", 1);
        play.put("a", "y", 2);
        play.put("b", "x", 3);
        assert_eq!(play.take("a", "x", 4), Some(1));
        assert_eq!(play.take("a", "x", 4), Some(0));
        assert_eq!(play.take("a", "x", 4), None);
        // No certificate was checked for that name.
        assert_eq!(play.take("b", "y", 4), None);
        assert_eq!(play.kept(), 2);
    }

    #[test]
    fn names_do_not_make_room() {
        let mut play = Play::new(4, 100);
        for name in 0..50 {
            play.put("a", &name.to_string(), 0);
        }
        assert_eq!(play.kept(), 4);
        assert_eq!(play.take("a", "45", 0), None);
        assert_eq!(play.take("a", "46", 0), Some(46));
    }

    #[test]
    fn the_oldest_of_all_gives_way() {
        let mut play = Play::new(4, 3);
        for (s, host) in ["b", "a", "c", "d"].into_iter().enumerate() {
            play.put(host, "", s as u64);
        }
        assert_eq!(play.kept(), 3);
        assert_eq!(play.take("b", "", 5), None);
        assert_eq!(play.take("a", "", 5), Some(1));
    }

    #[test]
    fn what_is_old_or_closed_goes_without_being_asked_for() {
        let mut play = Play::new(8, 8);
        play.put("a", "x", 0);
        play.put("a", "y", 5);
        play.put("b", "", 5);
        play.open[2].set(true);
        play.pool.reap(play.at(10));
        assert_eq!(play.kept(), 1);
        assert!(!play.pool.lock().all.contains_key(&key("b", "").place));
        // And it is not taken either.
        play.put("a", "x", 6);
        play.put("a", "x", 7);
        play.open[4].set(true);
        assert_eq!(play.take("a", "x", 8), Some(3));
        assert_eq!(play.take("a", "y", 15), None);
        assert_eq!(play.kept(), 0);
        let mut none = Play::new(0, 8);
        none.put("a", "", 0);
        assert_eq!(none.kept(), 0);
    }
}
