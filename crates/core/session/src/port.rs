//! The ports that connections come in by.

use throng_types::Save;

/// The port that a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum Port {
    /// Port for clients' connections.
    Client,
    /// Port of the server API.
    Api,
    /// One of a gateway's own, by the gateway's place in the list and its own number.
    Own {
        /// Place of the gateway in the list.
        gateway: u8,
        /// Which of its ports.
        port: u8,
    },
}
