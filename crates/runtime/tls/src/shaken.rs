//! Outcome of a connection's handshake.

use throng_types::Save;

/// Outcome of a handshake that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub struct Shaken {
    /// TLS 1.3, not 1.2.
    pub is_tls13: bool,
    /// The client came back with a ticket.
    pub is_resumed: bool,
}
