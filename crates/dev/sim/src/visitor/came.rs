//! What became of bytes that came, whatever they were.

/// Result of reading bytes.
pub(crate) enum Came {
    /// Nothing final yet; more may follow.
    More,
    /// The server has ended the conversation.
    Over,
    /// The server refused, with this status.
    Refused(u16),
}
