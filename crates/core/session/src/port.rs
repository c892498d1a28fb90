//! The ports that connections come in by.

/// The port that a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Clients'.
    Client,
    /// The server API's.
    Api,
    /// One of a gateway's own, by the gateway's place in the list and its own number.
    Own {
        /// The gateway.
        gateway: u8,
        /// Which of its ports.
        port: u8,
    },
}
