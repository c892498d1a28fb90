//! One channel on this node: which shards want it, and where its deliveries stand.

use throng_types::Position;

/// What a channel's deliveries are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No shard is told anything yet.
    Joining,
    /// Each publication is left as it comes.
    Live,
    /// Something may be missing: those with positions are left when it was found.
    Deaf,
}

/// A channel that shards of this node want.
pub(crate) struct Channel {
    /// Bit `n` is set while shard `n` is interested.
    pub(crate) interest: u64,
    /// Subscribes on their way.
    pub(crate) pending: u32,
    pub(crate) state: State,
    /// Redis was asked for it on this connection.
    pub(crate) is_subscribed: bool,
    /// A refill is on its way.
    pub(crate) is_refilling: bool,
    /// The position of the last publication that was left, in channels with history.
    pub(crate) top: Option<Position>,
    /// Tells it from a channel of that name before.
    pub(crate) serial: u64,
    pub(crate) audited_at_ms: u64,
}
