//! Work that waits for threads. The type of the work has the bound.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Feed;

/// Between two looks of an idle thread whether the server has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Work that waits, in the form `S`, and the threads that wait for it.
#[derive(Default)]
pub(crate) struct Work<S> {
    state: Mutex<S>,
    more: Condvar,
}

impl<S> Work<S> {
    /// Locks it. Every change must leave it whole between any two statements.
    pub(crate) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one thread, which may do any of it.
    pub(crate) fn wake_one(&self) {
        self.more.notify_one();
    }

    /// Wakes all threads, for work that not every one may do.
    pub(crate) fn wake_all(&self) {
        self.more.notify_all();
    }

    /// Waits until `take` finds some; `None` when the server has ended.
    pub(crate) fn next<T>(
        &self,
        feed: &Feed,
        mut take: impl FnMut(&mut S) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            if feed.is_over() {
                return None;
            }
            if let Some(next) = take(&mut state) {
                return Some(next);
            }
            let woken = self.more.wait_timeout(state, LOOK);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
