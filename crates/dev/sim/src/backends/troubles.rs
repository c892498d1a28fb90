//! Counts of what explains that a call fails.

/// Things that explain why a call fails, counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Troubles {
    pub(super) unreachable: u64,
    pub(super) stalls: u64,
    /// Connections that ended in the midst of an answer, or before they carried any.
    pub(super) cuts: u64,
    /// Connections that had carried an answer and ended without a byte of another.
    pub(super) quiet_cuts: u64,
    pub(super) garbage: u64,
}
