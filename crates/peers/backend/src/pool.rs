//! Links that wait for another request.
//!
//! Rule for "full": the link of a place that has waited longest is closed for a new one, and if all
//! places together are full, the one of any place.
//!
//! Invariants
//! - A link in the pool was read to the end of an answer, so the next bytes on it belong to the
//!   next answer.
//! - Routes name places, so clients cannot make more of them. The name that a certificate was
//!   checked for may be the client's to choose; it decides which link is taken and not how many
//!   there are.

use std::collections::{BTreeMap, VecDeque};

use throng_peer::LinkId;

use crate::place::{Key, Place};

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) of_place_max: usize,
    pub(crate) all_max: usize,
}

struct Idle {
    link: LinkId,
    name: String,
    /// Orders idle links of all places by how long they have waited.
    turn: u64,
}

/// Idle links to backends, by place.
pub(crate) struct Pool {
    /// Bound: [`PoolLimits`]. The one that has waited longest comes first.
    places: BTreeMap<Place, VecDeque<Idle>>,
    /// Place of each link. Bound: [`PoolLimits`].
    links: BTreeMap<LinkId, Place>,
    turn: u64,
    limits: PoolLimits,
}

impl Pool {
    pub(crate) const fn new(limits: PoolLimits) -> Self {
        Self {
            places: BTreeMap::new(),
            links: BTreeMap::new(),
            turn: 0,
            limits,
        }
    }

    /// Takes the link that was used last.
    pub(crate) fn take(&mut self, key: &Key) -> Option<LinkId> {
        let idle = self.places.get(&key.place)?;
        let found = idle.iter().rfind(|idle| idle.name == key.name)?.link;
        self.remove(found);
        Some(found)
    }

    /// Keeps a link; gives those that are to be closed for it, maybe itself.
    pub(crate) fn put(&mut self, key: &Key, link: LinkId) -> Vec<LinkId> {
        let limits = self.limits;
        if limits.of_place_max == 0 || limits.all_max == 0 {
            return vec![link];
        }
        let mut closed = Vec::new();
        let idle = self.places.get(&key.place);
        if let Some(idle) = idle.filter(|idle| limits.of_place_max <= idle.len()) {
            closed.extend(idle.front().map(|oldest| oldest.link));
        } else if limits.all_max <= self.links.len() {
            let fronts = self.places.values().filter_map(VecDeque::front);
            let oldest = fronts.min_by_key(|idle| idle.turn);
            closed.extend(oldest.map(|oldest| oldest.link));
        }
        for link in &closed {
            self.remove(*link);
        }
        self.turn += 1;
        self.links.insert(link, key.place.clone());
        self.places
            .entry(key.place.clone())
            .or_default()
            .push_back(Idle {
                link,
                name: key.name.clone(),
                turn: self.turn,
            });
        closed
    }

    pub(crate) fn remove(&mut self, link: LinkId) {
        if let Some(place) = self.links.remove(&link)
            && let Some(idle) = self.places.get_mut(&place)
        {
            idle.retain(|idle| idle.link != link);
            if idle.is_empty() {
                self.places.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A pool, and the number of the last link that was put there.
    struct Run(Pool, u64);

    impl Run {
        fn new(of_place_max: usize, all_max: usize) -> Self {
            let limits = PoolLimits {
                of_place_max,
                all_max,
            };
            Self(Pool::new(limits), 0)
        }

        /// Puts the next number; gives those that were closed.
        fn put(&mut self, host: &str, name: &str) -> Vec<u64> {
            self.1 += 1;
            let closed = self.0.put(&key(host, name), LinkId(self.1));
            closed.into_iter().map(|link| link.0).collect()
        }

        fn take(&mut self, host: &str, name: &str) -> Option<u64> {
            self.0.take(&key(host, name)).map(|link| link.0)
        }

        fn kept(&self) -> usize {
            let kept = self.0.places.values().map(VecDeque::len).sum();
            assert_eq!(self.0.links.len(), kept);
            kept
        }
    }

    #[test]
    fn the_one_that_was_used_last_comes_first() {
        let mut run = Run::new(8, 8);
        for (host, name) in [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")] {
            assert_eq!(run.put(host, name), [0; 0]);
        }
        assert_eq!(run.take("a", "x"), Some(2));
        assert_eq!(run.take("a", "x"), Some(1));
        assert_eq!(run.take("a", "x"), None);
        // No certificate was checked for that name.
        assert_eq!(run.take("b", "y"), None);
        assert_eq!(run.kept(), 2);
    }

    #[test]
    fn names_do_not_make_room() {
        let mut run = Run::new(4, 100);
        let closed: Vec<u64> = (0..50)
            .flat_map(|name| run.put("a", &name.to_string()))
            .collect();
        assert_eq!(closed, (1..47).collect::<Vec<_>>());
        assert_eq!(run.kept(), 4);
        assert_eq!(run.take("a", "45"), None);
        assert_eq!(run.take("a", "46"), Some(47));
    }

    #[test]
    fn the_oldest_of_all_gives_way() {
        let mut run = Run::new(4, 3);
        let closed: Vec<u64> = ["b", "a", "c", "d"]
            .into_iter()
            .flat_map(|host| run.put(host, ""))
            .collect();
        assert_eq!((closed, run.kept()), (vec![1], 3));
        assert_eq!(run.take("b", ""), None);
        assert_eq!(run.take("a", ""), Some(2));
    }

    #[test]
    fn a_link_that_ended_is_not_taken() {
        let mut run = Run::new(8, 8);
        run.put("a", "x");
        run.put("a", "x");
        run.0.remove(LinkId(2));
        run.0.remove(LinkId(2));
        assert_eq!(run.take("a", "x"), Some(1));
        assert_eq!((run.kept(), run.0.places.len()), (0, 0));
        assert_eq!(Run::new(0, 8).put("a", ""), [1]);
    }
}
