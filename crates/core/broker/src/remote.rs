//! A broker on another server: one shard's end of it, and the steps of a hand-over.
//!
//! Never: links. A peer has them, and [`Remote`] is its end on a shard.
//!
//! In a hand-over between processes channels and history stay where they are; what moves is this
//! node's interest, and who is present here. The new process *expects* every channel of the old
//! one, so that it gets it, and makes a *cut* in the broker's deliveries when it gets them all.
//! Every shard of the old process delivers what comes before the cut and nothing behind it; then it
//! reports up to which positions its subscribers have everything, and the new process *resumes*
//! there. Publications without a position go to subscribers from the old process if they are before
//! the cut, and from the new one if they are behind it. Those with one are found in history,
//! wherever the cut is. Connections that stay with the old process still hear by it: once the new
//! one has everything, it goes on behind the cut, with the first delivery that it had left.
//!
//! Rules for every broker on the other side of a network
//! - Steps of a shard take effect in their order, also among its requests.
//! - A shard gets nothing of a channel that it expects before the cut.
//! - A channel goes on from the position of its resume, or gets [`crate::Receiver::broken`].
//! - Taking and giving a member announces no coming or going.

use throng_types::{ChannelName, Position};

use crate::{ChannelMember, Draft, LiveOptions, Receiver, Refusal, Reply, Request, Ticket};

/// One shard's end of a broker that a peer serves.
///
/// The rules of [`Broker`](crate::Broker)s hold. No call waits.
pub trait Remote: Send {
    /// Hands a request to the peer, or gives the reply that refuses it.
    fn request(&mut self, request: Request) -> Option<Reply>;

    /// Hands in a publication as [`Self::request`] does, but gives back one that is refused.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again. No reply
    /// follows.
    fn publish(&mut self, ticket: Ticket, draft: Draft) -> Result<(), (Refusal, Draft)>;

    /// Hands the hub what the peer has left, oldest first, as far as there is room; true if more
    /// waits. Deliveries keep their order: those behind one without room wait, too.
    fn poll(&mut self, hub: &mut dyn Receiver) -> bool;

    /// Replaces the options; every shard's part is called.
    fn renew(&mut self, options: &LiveOptions);

    /// Passes a step of a hand-over to the peer.
    fn hand_over(&mut self, moving: Moving);

    /// Stops deliveries behind this cut from now on; they stay at the peer. With `None` they go
    /// on, with the first one behind the cut.
    fn stop_at(&mut self, cut: Option<u64>);

    /// Whether the peer has every request, and nothing more comes before the requested cut.
    fn has_stopped(&self) -> bool;
}

/// Step of a hand-over, sent by one shard of either process to its broker.
#[derive(Debug)]
pub enum Moving {
    /// To the new one: this shard has subscribers of the channel.
    Expect(ChannelName),
    /// To the new one: all channels of this shard are expected. When those of every shard are
    /// heard, the cut of this number is made.
    Cut(u64),
    /// To the new one: this shard's subscribers have everything up to this position; none in
    /// channels that kept no history.
    Resume(ChannelName, Option<Position>),
    /// To the new one: all channels of this shard are resumed.
    Resumed,
    /// To the new one: a member that came in the old process is present. To the old one: the
    /// hand-over is broken off, and the member is present there as before.
    Take(ChannelName, ChannelMember),
    /// To the old one: a member is about to be present in the new one.
    Give(ChannelName, ChannelMember),
}

impl Moving {
    /// The channel that it is about; none if it is about all.
    #[must_use]
    pub const fn channel(&self) -> Option<&ChannelName> {
        match self {
            Self::Expect(channel)
            | Self::Resume(channel, _)
            | Self::Take(channel, _)
            | Self::Give(channel, _) => Some(channel),
            Self::Cut(_) | Self::Resumed => None,
        }
    }
}
