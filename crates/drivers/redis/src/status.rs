//! What is known of the connection to Redis, for whoever asks from any thread.

use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the broker.
#[derive(Debug, Default)]
pub struct Status {
    is_up: AtomicBool,
}

impl Status {
    /// Whether Redis answers.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }
}
