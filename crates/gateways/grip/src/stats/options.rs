//! Options of statistics.

use throng_grip::stats::StatsFormat;

/// Options of statistics, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct StatsOptions {
    /// Format of the packets.
    pub format: StatsFormat,
    /// Between two reports, in milliseconds; 0 for none.
    pub report_interval_ms: u64,
    /// Whether each connection is reported.
    pub sends_connections: bool,
    /// Milliseconds that readers remember a connection.
    pub connection_ttl_ms: u64,
    /// Milliseconds that readers remember a channel's subscribers.
    pub subscription_ttl_ms: u64,
    /// Milliseconds that a channel of long polls is reported with subscribers after the last one
    /// was answered: mostly the client asks again.
    pub linger_ms: u64,
}
