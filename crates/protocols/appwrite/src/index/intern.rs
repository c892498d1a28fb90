//! Names and filters, each kept once, by seeded hashes, since clients choose the names.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use hashbrown::HashTable;

use crate::QueryFilter;
use crate::index::storage::{Posting, Slab};

/// The number of [`QueryFilter::ALL`], which is not kept.
pub(super) const FILTER_ALL: u32 = u32::MAX;

/// A channel, a key or a role of a project.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Box<str>,
    /// The shapes or role sets to visit for it.
    pub(super) groups: Posting,
    pub(super) profiles: u32,
    /// The shapes or role sets that name it, visited for it or not.
    holders: u32,
}

/// The channels, the keys or the roles of a project, by text and by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) names: Slab<Name>,
    pub(super) by_text: HashTable<u32>,
}

impl Names {
    pub(super) fn find(&self, hashing: &Hashing, text: &str) -> Option<u32> {
        self.by_text
            .find(hashing.text(text), |&id| *self.names[id].text == *text)
            .copied()
    }

    /// A new name has no holder yet; whoever asked makes one.
    pub(super) fn find_or_new(&mut self, hashing: &Hashing, text: &str) -> u32 {
        if let Some(known) = self.find(hashing, text) {
            return known;
        }
        let id = self.names.insert(Name {
            text: text.into(),
            groups: Posting::Empty,
            profiles: 0,
            holders: 0,
        });
        let names = &self.names;
        self.by_text
            .insert_unique(hashing.text(text), id, |&id| hashing.text(&names[id].text));
        id
    }

    pub(super) fn hold(&mut self, id: u32) {
        self.names[id].holders += 1;
    }

    /// Ends a hold, and the name with its last one.
    pub(super) fn release(&mut self, hashing: &Hashing, id: u32) {
        let name = &mut self.names[id];
        name.holders -= 1;
        if name.holders > 0 {
            return;
        }
        let Some(name) = self.names.remove(id) else {
            return;
        };
        if let Ok(entry) = self
            .by_text
            .find_entry(hashing.text(&name.text), |&known| known == id)
        {
            entry.remove();
        }
        if self.by_text.is_empty() {
            self.by_text = HashTable::new();
        }
    }

    pub(super) fn text(&self, id: u32) -> &str {
        &self.names[id].text
    }

    pub(super) fn get(&self, id: u32) -> &Name {
        &self.names[id]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Name {
        &mut self.names[id]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.names.iter()
    }
}

#[derive(Debug)]
pub(super) struct Held {
    filter: QueryFilter,
    holders: u32,
    /// Verdict on the event at hand, once known.
    verdict: Option<bool>,
}

/// The filters of all projects, by text and by number, with a count of who holds each.
#[derive(Debug, Default)]
pub(super) struct Filters {
    pub(super) filters: Slab<Held>,
    pub(super) by_text: HashTable<u32>,
    /// Filters with a verdict, to forget before the next event.
    pub(super) judged: Vec<u32>,
}

impl Filters {
    pub(super) fn acquire(&mut self, hashing: &Hashing, filter: &QueryFilter) -> u32 {
        if filter.is_all() {
            return FILTER_ALL;
        }
        let hash = hashing.text(filter.text());
        let known = self
            .by_text
            .find(hash, |&id| self.filters[id].filter == *filter)
            .copied();
        if let Some(id) = known {
            self.filters[id].holders += 1;
            return id;
        }
        let id = self.filters.insert(Held {
            filter: filter.clone(),
            holders: 1,
            verdict: None,
        });
        let filters = &self.filters;
        self.by_text
            .insert_unique(hash, id, |&id| hashing.text(filters[id].filter.text()));
        id
    }

    pub(super) fn get(&self, id: u32) -> &QueryFilter {
        if id == FILTER_ALL {
            &QueryFilter::ALL
        } else {
            &self.filters[id].filter
        }
    }

    /// Adds a holder of a filter that somebody holds.
    pub(super) fn retain(&mut self, id: u32) {
        if id != FILTER_ALL {
            self.filters[id].holders += 1;
        }
    }

    pub(super) fn release(&mut self, hashing: &Hashing, id: u32) {
        if id == FILTER_ALL {
            return;
        }
        let held = &mut self.filters[id];
        held.holders -= 1;
        if held.holders > 0 {
            return;
        }
        let hash = hashing.text(held.filter.text());
        if let Ok(entry) = self.by_text.find_entry(hash, |&known| known == id) {
            entry.remove();
        }
        self.filters.remove(id);
    }

    /// Tells whether the event at hand passes, asking `judge` at most once for each filter.
    pub(super) fn passes(&mut self, id: u32, judge: impl FnOnce(&QueryFilter) -> bool) -> bool {
        if id == FILTER_ALL {
            return true;
        }
        let held = &mut self.filters[id];
        if let Some(verdict) = held.verdict {
            return verdict;
        }
        let verdict = judge(&held.filter);
        held.verdict = Some(verdict);
        self.judged.push(id);
        verdict
    }

    pub(super) fn forget_verdicts(&mut self) {
        for id in self.judged.drain(..) {
            self.filters[id].verdict = None;
        }
    }
}

/// The hash of everything in an index.
#[derive(Debug)]
pub(super) struct Hashing {
    seed: u64,
    shared: SharedSeed,
}

impl Hashing {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            shared: SharedSeed::from_u64(seed),
        }
    }

    pub(super) fn text(&self, text: &str) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    pub(super) fn numbers(&self, numbers: impl IntoIterator<Item = u32>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        for number in numbers {
            hasher.write_u32(number);
        }
        hasher.finish()
    }
}
