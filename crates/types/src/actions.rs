//! Actions on a connection that its owner wants, beside the bytes that it writes.

use crate::Millis;

/// End of a connection, in order or at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Once everything queued has left; then the sending side is shut and the peer's close
    /// awaited. A peer that takes nothing, or does not close, for five seconds loses the rest.
    Flush,
    /// At once; what is queued is lost.
    Now,
}

/// Collected while a session runs, carried out by the engine after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// The connection's one deadline: `Some(None)` clears it, `None` leaves it as it is.
    pub deadline: Option<Option<Millis>>,
    /// End of the connection, if it ends.
    pub end: Option<End>,
    /// `Some(true)`: from now on deliveries wait, while own bytes still leave. `Some(false)`: they
    /// leave, behind the own bytes written until then. A connection that ends first never gets
    /// them.
    pub hold: Option<bool>,
    /// Deliveries that wait because of `hold` are lost, and none are held back any more; carried
    /// out behind the own bytes, and before `hold`.
    pub forget_held: bool,
    /// `Some(true)`: the connection is not read until `Some(false)`. Bytes that were read already
    /// are not given back; a peer that leaves meanwhile is noticed when reading goes on.
    pub pause: Option<bool>,
}

impl Actions {
    /// Ends the connection; the first wish counts, but "now" outranks "flush".
    pub fn end(&mut self, end: End) {
        if self.end != Some(End::Now) {
            self.end = Some(end);
        }
    }
}

/// Rule for a delivery that finds its connection's queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// End the connection; its client comes back and recovers.
    #[default]
    Close,
    /// Forget the oldest deliveries that have not begun to leave.
    DropOldest,
    /// Keep only the newest delivery of each channel, from the moment the connection lags.
    LatestOnly,
}
