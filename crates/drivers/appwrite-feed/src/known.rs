//! What is known of users, and how it is forgotten when they change.
//!
//! The feed notes changes between two events, so whoever holds it there
//! ([`Feed::between_events`](crate::Feed)) sees none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cache::Cache;
use crate::changes::Changes;

/// Answers of late, and who has changed since.
pub(crate) struct Known(Mutex<Notes>);

/// What stands under the lock.
pub(crate) struct Notes {
    pub(crate) cache: Cache,
    pub(crate) changes: Changes,
}

impl Known {
    /// Nothing so far. See [`crate::DirectoryOptions`] for the bounds.
    pub(crate) fn new(answers_max: usize, grace: Duration) -> Self {
        Self(Mutex::new(Notes {
            cache: Cache::new(answers_max, grace),
            changes: Changes::default(),
        }))
    }

    /// A user is not what it was. To be called before the shards hear of it.
    pub(crate) fn changed(&self, project: &str, user_id: &str) {
        let mut notes = self.notes();
        notes.cache.forget(project, user_id);
        notes.changes.note(project, user_id);
    }

    /// Anything may have changed: nothing that is known counts any more. To be called before the
    /// shards hear of it.
    pub(crate) fn all_changed(&self) {
        let mut notes = self.notes();
        notes.cache.clear();
        notes.changes.note_all();
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        // What is under the lock is whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
