//! Bounds on one client's wishes. Appwrite bounds frames and messages a minute, and nothing else.

/// Bounds on what a client sends, each refused before anything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// One incoming message, in bytes. Appwrite's server takes 64,000.
    pub message_bytes_max: usize,
    /// Parameters in the URL's query. PHP drops what comes after 1,000; we refuse.
    pub url_params_max: usize,
    pub channels_max: usize,
    pub channel_bytes_max: usize,
    /// Subscriptions in one message, and slots in one URL. SDKs from 25 on send all they have in
    /// one message when they come back.
    pub subscriptions_max: usize,
    /// Queries of one subscription, counting those inside `and` and `or`.
    pub queries_max: usize,
    pub query_values_max: usize,
    /// Depth to which `and` and `or` may nest.
    pub query_depth_max: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 64_000,
            url_params_max: 1_000,
            channels_max: 256,
            channel_bytes_max: 512,
            subscriptions_max: 1024,
            queries_max: 128,
            query_values_max: 128,
            query_depth_max: 8,
        }
    }
}

/// Rates that a client may reach, with Appwrite's figures as the default.
///
/// Counting is the caller's: this crate has no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Messages on one connection within [`Rates::window_ms`]. The next is answered with
    /// [`RealtimeError::TooManyMessages`](crate::RealtimeError::TooManyMessages) and the connection
    /// stays.
    pub messages_max: u32,
    /// Connections opened from one address within [`Rates::window_ms`]. The next is refused with
    /// [`RealtimeError::TooManyRequests`](crate::RealtimeError::TooManyRequests).
    pub opens_max: u32,
    /// The window of both, in milliseconds.
    pub window_ms: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            messages_max: 32,
            opens_max: 128,
            window_ms: 60_000,
        }
    }
}
