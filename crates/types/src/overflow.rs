//! The rule for a connection's queue that is full.

/// What happens to a delivery that finds its connection's queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// End the connection; its client comes back and recovers.
    #[default]
    Close,
    /// Forget the oldest deliveries that have not begun to leave.
    DropOldest,
    /// Keep only the newest delivery of each channel, from the moment the connection lags.
    LatestOnly,
}
