//! Identities of late, which are forgotten when users change.

use crate::cache::Cache;
use crate::changes::Changes;

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
