//! What is known of a connection once hands are shaken.

/// What is known once hands are shaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaken {
    /// TLS 1.3, not 1.2.
    pub is_tls13: bool,
    /// The client came back with a ticket.
    pub is_resumed: bool,
}
