//! Values that are drawn when a server starts, and handed on to its successors.

use throng_types::Save;

/// Values that differ from start to start, as arguments: so a simulator starts the same server
/// again.
#[derive(Clone, Copy, Debug, Save)]
pub struct Start {
    /// The wall clock, in Unix milliseconds.
    pub unix_ms: u64,
    /// Any number; epochs and hash seeds follow from it. Some are public, so no secret does.
    pub seed: u64,
    /// Secret random bytes; clients' ids are made with them.
    pub secret: [u8; 32],
}
