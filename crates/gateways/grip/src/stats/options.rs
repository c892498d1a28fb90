//! What is configured of statistics.

use throng_grip::stats::StatsFormat;

/// What is sent, and how often.
#[derive(Clone, Copy, Debug)]
pub struct StatsOptions {
    /// How packets are written.
    pub format: StatsFormat,
    /// Between two reports, in milliseconds; 0 for none.
    pub report_interval_ms: u64,
    /// Whether each connection is told of.
    pub sends_connections: bool,
    /// How long readers remember a connection, in milliseconds.
    pub connection_ttl_ms: u64,
    /// How long readers remember a channel's subscribers, in milliseconds.
    pub subscription_ttl_ms: u64,
    /// How long a channel of long polls is told to have subscribers after the last one was
    /// answered, in milliseconds: mostly the client asks again.
    pub linger_ms: u64,
}
