//! Names and filters, each kept once, by seeded hashes, since clients choose the names.

use crate::QueryFilter;
use crate::index::storage::{Hashed, Hashing, Interned, Posting};

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
pub(super) type Names = Interned<Name>;

impl Hashed for Name {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hashing.text(&self.text)
    }
}

impl Names {
    pub(super) fn named(&self, hashing: &Hashing, text: &str) -> Option<u32> {
        self.find(hashing.text(text), |name| *name.text == *text)
    }

    /// A new name has no holder yet; whoever asked makes one.
    pub(super) fn named_or_new(&mut self, hashing: &Hashing, text: &str) -> u32 {
        if let Some(known) = self.named(hashing, text) {
            return known;
        }
        let name = Name {
            text: text.into(),
            groups: Posting::Empty,
            profiles: 0,
            holders: 0,
        };
        self.insert(hashing, hashing.text(text), name)
    }

    pub(super) fn hold(&mut self, id: u32) {
        self[id].holders += 1;
    }

    /// Ends a hold, and the name with its last one.
    pub(super) fn release(&mut self, hashing: &Hashing, id: u32) {
        self[id].holders -= 1;
        if self[id].holders == 0 {
            self.remove(hashing, id);
        }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    filter: QueryFilter,
    holders: u32,
    /// Verdict on the event at hand, once known.
    verdict: Option<bool>,
}

impl Hashed for Held {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hashing.text(self.filter.text())
    }
}

/// The filters of all projects, by text and by number, with a count of who holds each.
#[derive(Debug, Default)]
pub(super) struct Filters {
    pub(super) filters: Interned<Held>,
    /// Filters with a verdict, to forget before the next event.
    pub(super) judged: Vec<u32>,
}

impl Filters {
    pub(super) fn acquire(&mut self, hashing: &Hashing, filter: &QueryFilter) -> u32 {
        if filter.is_all() {
            return FILTER_ALL;
        }
        let hash = hashing.text(filter.text());
        if let Some(id) = self.filters.find(hash, |held| held.filter == *filter) {
            self.filters[id].holders += 1;
            return id;
        }
        let held = Held {
            filter: filter.clone(),
            holders: 1,
            verdict: None,
        };
        self.filters.insert(hashing, hash, held)
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
        if held.holders == 0 {
            self.filters.remove(hashing, id);
        }
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
