//! How much of an answer may come before its client has taken what is there.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::Notify;

/// Bytes of an answer that an origin may be ahead of the client.
const WINDOW_BYTES: i64 = 64 << 10;

/// Bytes that an origin may still send. It may go below zero, because what one read brings is
/// passed on whole.
pub(crate) struct Credit {
    left: AtomicI64,
    more: Notify,
    /// More followed the request than there is room for.
    pub(crate) overflowed: AtomicBool,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            left: AtomicI64::new(WINDOW_BYTES),
            more: Notify::new(),
            overflowed: AtomicBool::new(false),
        }
    }
}

impl Credit {
    pub(crate) fn grant(&self, bytes: usize) {
        self.left.fetch_add(bytes as i64, Ordering::AcqRel);
        self.more.notify_one();
    }

    pub(crate) fn spend(&self, bytes: usize) {
        self.left.fetch_sub(bytes as i64, Ordering::AcqRel);
    }

    /// Waits until there is some. One task waits, and a grant that comes before it is remembered.
    pub(crate) async fn some(&self) {
        while self.left.load(Ordering::Acquire) <= 0 {
            self.more.notified().await;
        }
    }
}
