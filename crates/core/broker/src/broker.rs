//! The contract of every broker: the trait, and the rules that hub and broker rely on.
//!
//! Every shard has one part of the broker, beside its hub. The hub hands it requests; the part
//! hands replies and deliveries to the hub. How the parts find each other, where subscribers are,
//! and whether there is a network in between is internal to each broker.
//!
//! Rules for every broker. The suite `throng-broker-suite` tests them.
//!
//! Order
//! - Mail between two parts is delivered in the order in which it was sent.
//! - The requests of one hub about one channel take effect in the order in which they were made.
//! - A reply and the deliveries of its channel arrive in one order: a publication that is not
//!   behind the position of a [`Reply::Subscribed`] comes after it, any other one before it.
//!   So a hub that takes the reply as the beginning of a subscription misses nothing and gets
//!   nothing twice.
//! - Every shard gets a channel's publications in the order of their positions.
//!
//! Replies
//! - Every request but [`Request::Leave`] and [`Request::Quit`] gets exactly one reply, to the hub
//!   that made it, with its ticket. It may come while the request is being made or at any later
//!   time. Replies about different channels may overtake each other.
//! - A publisher that needs its order and repeats what was refused has one publication of a
//!   channel under way at a time: a later one may be accepted while an earlier one is refused.
//! - A refused request had no effect. [`Refusal::Busy`] means that a bounded queue on the way is
//!   full and that the same request may succeed in a moment. An accepted request is never dropped
//!   for lack of room. A refusal may overtake other replies, since nothing follows from it.
//! - A broker bounds the requests that wait for a reply, and refuses more with `Busy`. This
//!   bounds what a hub must remember about them.
//!
//! Interest
//! - A shard is interested from an accepted [`Request::Subscribe`] to its next
//!   [`Request::Leave`]. Repeated subscribes count once.
//! - Publications go to interested shards only. One that was on its way when the shard left may
//!   still arrive; the hub ignores it.
//!
//! Streams
//! - Positions are only compared within one epoch. There, offsets rise.
//!   [`throng_types::Position::START`] is the beginning of every epoch.
//! - [`Recovery::Whole`] has everything after the position that was asked for, up to the reply's
//!   position. If anything is missing, or the reply would be too long, the answer is
//!   [`Recovery::Lost`].
//! - In channels with [`crate::ChannelOptions::cache`] recovery is about the newest publication
//!   alone. If it is there, [`Recovery::Whole`] has it, or nothing if the position asked for is the
//!   stream's. If it is not, only the stream's own position is `Whole`; any other is `Lost`. The
//!   position asked for may be of another epoch.
//! - A stream that was forgotten after it had a publication comes back with another epoch.
//! - A draft with a version that is not newer than the newest of its stream is accepted without an
//!   effect, and answered with the position of the stream.
//! - A shard that missed publications of a stream gets all of them later, in order, or a
//!   [`Reply::Broken`] in their place. The same where the epoch changes under its subscribers.
//!
//! Presence
//! - A member that came with an accepted [`Request::Subscribe`] is listed, if it asked for that,
//!   before the reply and until its [`Request::Quit`] took effect. One that comes twice is listed
//!   once. A hub sends one quit for each such subscribe, after it.
//! - Comings and goings travel as deliveries, without a position, to shards that are interested.
//!   A member is not told of itself before the reply to its own subscribe. They may be dropped when
//!   there is little room, and in channels whose subscribers keep only the latest delivery: the
//!   list is authoritative. Publications are never dropped for them.
//! - An answer with all members is refused ([`crate::Refusal::TooLong`]) rather than cut.
//! - When a node dies, its members leave the list after a time that the broker chooses; in memory
//!   they end with the process.

use throng_types::{ChannelName, Now, Parts, Saved, ShardId};

use crate::{BrokerStats, Draft, LiveOptions, Moving, Published, Refusal, Reply, Request, Ticket};

/// One shard's part of a broker.
pub trait Broker {
    type Mail;

    /// Carries out a request of this shard's hub.
    ///
    /// Replies and deliveries that are known at once are handed to `hub` before this returns.
    /// [`Request::Leave`] and [`Request::Quit`] hand it deliveries alone.
    fn request(&mut self, request: Request, now: Now, hub: &mut impl Receiver);

    /// Makes many publications that were asked for together. Each has a ticket and a reply of its
    /// own, as if it were a [`Request::Publish`] by itself, in this order. A broker that can sends
    /// those with one destination in one message.
    fn publish_all(&mut self, drafts: Vec<(Ticket, Draft)>, now: Now, hub: &mut impl Receiver) {
        for (ticket, draft) in drafts {
            self.request(Request::Publish { ticket, draft }, now, hub);
        }
    }

    /// Takes mail from another shard's part. A broker whose driver runs on a thread of its own
    /// gets that driver's mail here too, with its own shard as the sender.
    ///
    /// Call it only while the hub has room ([`Receiver::has_room`] is asked before a publication
    /// is accepted, but not for mail): otherwise leave the mail where it is.
    fn mail(&mut self, from: ShardId, mail: Self::Mail, now: Now, hub: &mut impl Receiver);

    /// Takes what a driver on a thread of its own has left for this shard, as far as the hub has
    /// room; true if more waits only for the next call. Called once a turn.
    fn poll(&mut self, hub: &mut impl Receiver) -> bool {
        let _ = hub;
        false
    }

    /// Bit set of the shards with subscribers of a channel; exact for channels at home here. All
    /// bits are set where the broker does not know.
    fn interest(&self, channel: &ChannelName) -> u64;

    /// Publishes at once in a channel that is at home here.
    ///
    /// # Errors
    /// The reason, with the draft: after [`Refusal::Busy`] it may be offered again.
    fn publish_here(
        &mut self,
        draft: Draft,
        now: Now,
        hub: &mut impl Receiver,
    ) -> Result<Published, (Refusal, Draft)>;

    /// The next mail for another shard's part, in the order in which it must be delivered.
    fn take_mail(&mut self, to: ShardId) -> Option<Self::Mail>;

    /// Whether mail waits for a shard.
    fn has_mail(&self, to: ShardId) -> bool;

    /// Does what is due with time, at most `budget` streams of it. True if more is due now.
    fn tick(&mut self, now: Now, budget: usize, hub: &mut impl Receiver) -> bool;

    /// Continues to write this part's state to its store, if a copy is due; true if there is more
    /// to do now. Called once a turn where there is a store.
    fn write_down(&mut self, now: Now) -> bool {
        let _ = now;
        false
    }

    /// Whether a channel and its history are on another server, so that a process that takes over
    /// finds them there. False for channels that stay on their node.
    fn is_elsewhere(&self, channel: &ChannelName) -> bool {
        let _ = channel;
        false
    }

    /// Passes a step of a hand-over between processes to a broker elsewhere; see [`Moving`].
    fn hand_over(&mut self, moving: Moving) {
        let _ = moving;
    }

    /// Stops deliveries behind this cut from now on; they stay at the broker. With `None` they go
    /// on, with the first one behind the cut.
    fn stop_at(&mut self, cut: Option<u64>) {
        let _ = cut;
    }

    /// Whether a broker elsewhere has every request, and nothing more comes before the requested
    /// cut.
    fn has_stopped(&self) -> bool {
        true
    }

    /// Hands everything that this part keeps to a process that takes over, as items of kinds below
    /// 128, and forgets it bit by bit, without a record in the store: it is loaded elsewhere from
    /// the items, or here again. False, and nothing is handed over, if its state cannot move.
    fn give_up(&mut self, parts: &mut Parts<'_>) -> bool {
        let _ = parts;
        false
    }

    /// Loads one saved item; `None` if it is not valid. Safe for any bytes.
    fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        let _ = (kind, from);
        None
    }

    /// Sizes of this part, for metrics.
    fn stats(&self) -> BrokerStats;

    /// Replaces the options. What exceeds them is dropped when it is next looked at.
    fn renew(&mut self, options: &LiveOptions, now: Now) {
        let _ = (options, now);
    }
}

/// A hub, as its part of the broker sees it.
pub trait Receiver {
    /// Whether the hub can take one more publication of a channel, of that many bytes. Asked before
    /// a publication is accepted that would be delivered here at once.
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool;

    fn reply(&mut self, reply: Reply);
}
