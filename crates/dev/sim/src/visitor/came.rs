//! What became of bytes that came, whatever they were.

/// What became of bytes that came.
pub(crate) enum Came {
    /// More may follow.
    More,
    /// The server has said its last word.
    Over,
    /// It refused, with this status.
    Refused(u16),
}
