//! Counters of the connection table, for metrics.

use throng_types::Overflow;

/// Counters of the connection table, for metrics. They only rise.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnStats {
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// Number of write calls.
    pub writes: u64,
    /// Frames handed over by [`crate::Conns::deliver`] and not refused.
    pub deliveries: u64,
    /// Frames forgotten under [`Overflow::DropOldest`].
    pub dropped_oldest: u64,
    /// Frames forgotten under [`Overflow::LatestOnly`], mostly because a newer one replaced them.
    pub dropped_latest_only: u64,
    /// Times that a queue began to forget frames.
    pub lagged: u64,
    /// Connections ended because their queue was full, or all queues together.
    pub slow: u64,
    /// Those of them that ended because all queues together were.
    pub crowded: u64,
}

impl ConnStats {
    /// Counts frames that a queue forgot; `kept_all` says that it had forgotten none before.
    pub(crate) fn forgot(&mut self, overflow: Overflow, dropped: u64, kept_all: bool) {
        match overflow {
            Overflow::LatestOnly => self.dropped_latest_only += dropped,
            Overflow::DropOldest | Overflow::Close => self.dropped_oldest += dropped,
        }
        self.lagged += u64::from(kept_all && dropped > 0);
    }
}
