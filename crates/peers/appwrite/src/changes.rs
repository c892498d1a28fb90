//! Users that have changed, and when, so that answers from before a change are noticed.
//!
//! Rule for "full": the oldest change is forgotten, and with it everybody counts as changed up to
//! then: an answer from so long ago is asked for again.

use std::collections::BTreeMap;

use crate::cache::Cache;

/// Changes that are remembered.
const CHANGES_MAX: usize = 4096;

/// A project, and a user of it.
pub(crate) type User = (Box<str>, Box<str>);

/// Users that have changed, with the count of changes at which they did.
#[derive(Default)]
pub(crate) struct Changes {
    clock: u64,
    /// The latest change that concerned everybody, or was forgotten.
    all: u64,
    /// Latest change of each user. Bound: [`CHANGES_MAX`].
    users: BTreeMap<User, u64>,
    /// Users, oldest change first. Bound: [`CHANGES_MAX`].
    in_order: BTreeMap<u64, User>,
}

impl Changes {
    pub(crate) const fn now(&self) -> u64 {
        self.clock
    }

    pub(crate) fn note(&mut self, project: &str, user_id: &str) {
        self.clock += 1;
        let user = (Box::from(project), Box::from(user_id));
        if let Some(before) = self.users.insert(user.clone(), self.clock) {
            self.in_order.remove(&before);
        }
        self.in_order.insert(self.clock, user);
        if self.in_order.len() > CHANGES_MAX
            && let Some((at, oldest)) = self.in_order.pop_first()
        {
            self.users.remove(&oldest);
            self.all = at;
        }
    }

    pub(crate) fn note_all(&mut self) {
        self.clock += 1;
        self.all = self.clock;
        self.users = BTreeMap::new();
        self.in_order = BTreeMap::new();
    }

    /// Whether a user may have changed after a moment.
    pub(crate) fn since(&self, moment: u64, project: &str, user_id: &str) -> bool {
        let user = (Box::from(project), Box::from(user_id));
        self.all > moment || self.users.get(&user).is_some_and(|&at| at > moment)
    }
}

/// Answers of late, and the users who have changed since. Changes are noted between two events,
/// before the shards hear of them.
pub(crate) struct Known {
    pub(crate) cache: Cache,
    pub(crate) changes: Changes,
}

impl Known {
    /// Empty. [`crate::DirectoryOptions`] has the bounds.
    #[must_use]
    pub(crate) fn new(answers_max: usize, grace_ms: u64) -> Self {
        Self {
            cache: Cache::new(answers_max, grace_ms),
            changes: Changes::default(),
        }
    }

    /// Forgets a user that has changed. Call it before the shards hear of it.
    pub(crate) fn changed(&mut self, project: &str, user_id: &str) {
        self.cache.forget(project, user_id);
        self.changes.note(project, user_id);
    }

    /// Forgets everything: anything may have changed. Call it before the shards hear of it.
    pub(crate) fn all_changed(&mut self) {
        self.cache.clear();
        self.changes.note_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_counts_as_changed() {
        let mut changes = Changes::default();
        let start = changes.now();
        changes.note("p", "ann");
        assert!(changes.since(start, "p", "ann"));
        assert!(!changes.since(start, "p", "bob") && !changes.since(start, "q", "ann"));
        let before = changes.now();
        assert!(!changes.since(before, "p", "ann"));
        for n in 0..CHANGES_MAX {
            changes.note("p", &n.to_string());
        }
        assert!(changes.since(start, "p", "bob"), "whose change was it?");
        assert!(!changes.since(before, "p", "bob"));
        changes.note_all();
        assert!(changes.since(before, "p", "bob"));
        assert!(!changes.since(changes.now(), "p", "bob"));
    }
}
