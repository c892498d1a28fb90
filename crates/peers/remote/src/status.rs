//! State of the connection to the broker, readable from any thread; and orders to the
//! driver.

#![expect(
    clippy::disallowed_types,
    reason = "shards and the peer have threads of their own"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use throng_broker::LiveOptions;
use throng_types::lock;

#[derive(Clone, Debug)]
pub struct Health(pub(crate) Vec<Arc<Status>>);

impl Health {
    /// Number of servers that answer, and of all.
    #[must_use]
    pub fn servers_up(&self) -> (usize, usize) {
        let up = self.0.iter().filter(|status| status.is_up());
        (up.count(), self.0.len())
    }

    /// Whether one of them has contradicted itself within the last minute.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.0.iter().any(|status| status.is_in_doubt())
    }

    /// Whether a server answers and takes no writes.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.0.iter().any(|status| status.is_refusing())
    }
}

/// The state of one server of the broker.
#[derive(Debug, Default)]
pub struct Status {
    is_up: AtomicBool,
    is_in_doubt: AtomicBool,
    is_refusing: AtomicBool,
    /// A shard has left something since the peer last looked.
    is_called: AtomicBool,
    /// Until the peer takes them.
    renewed: Mutex<Option<LiveOptions>>,
}

impl Status {
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Whether it answers and takes no writes.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.is_refusing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_refusing(&self, is_refusing: bool) {
        self.is_refusing.store(is_refusing, Ordering::Relaxed);
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Relaxed)
    }

    pub(crate) fn set_in_doubt(&self, is_in_doubt: bool) {
        self.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
    }

    /// Notes that a shard has left something; true if the peer is to be woken.
    pub(crate) fn call(&self) -> bool {
        !self.is_called.swap(true, Ordering::AcqRel)
    }

    /// Notes that the peer looks into its queues now.
    pub(crate) fn has_heard(&self) {
        self.is_called.swap(false, Ordering::AcqRel);
    }

    /// Leaves other options for the peer.
    pub(crate) fn renew(&self, options: &LiveOptions) {
        let mut renewed = lock(&self.renewed);
        *renewed = Some(options.clone());
    }

    /// Takes them, if there are any.
    pub(crate) fn take_renewed(&self) -> Option<LiveOptions> {
        let mut renewed = lock(&self.renewed);
        renewed.take()
    }
}
