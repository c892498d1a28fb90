//! The contract between hubs and any broker: requests, replies, deliveries, and the rules that both
//! rely on. Requests and replies own what they carry, so that they can wait in a mailbox or cross a
//! network.
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
//!   behind the position of a [`crate::Subscribed`] comes after it, any other one before it.
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
//!   [`Receiver::broken`] in their place. The same where the epoch changes under its subscribers.
//!
//! Presence
//! - A member that came with an accepted [`Request::Subscribe`] is listed, if it asked for that,
//!   before the reply and until its [`Request::Quit`] took effect. One that comes twice is listed
//!   once. A hub sends one quit for each such subscribe, after it.
//! - Comings and goings travel as deliveries, without a position, to shards that are interested.
//!   A member is not told of itself before the reply to its own subscribe. They may be dropped when
//!   there is little room, and in channels whose subscribers keep only the latest delivery: the
//!   list is authoritative. Publications are never dropped for them.
//! - Of members with [`Announced::Users`] the broker announces the first connection of a user that
//!   is listed in the channel, on whichever node, and the last one that is not any more; also
//!   where a node died. Either may be told twice, but what is told last is true.
//! - An answer with all members is refused ([`crate::Refusal::TooLong`]) rather than cut.
//! - When a node dies, its members leave the list after a time that the broker chooses; in memory
//!   they end with the process.

use std::sync::Arc;

use throng_types::{ChannelName, Payload, Position, Publication, Publisher, Save, SpanContext};

/// Names a request, so that its hub knows the reply. The broker only echoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// Comings and goings that subscribers of a channel are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum Announced {
    Nothing,
    /// Those of each connection.
    Connections,
    /// Those of a user: its first connection and its last one. Only of members that are listed.
    Users,
}

/// A member of a channel, as its presence options show it.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct ChannelMember {
    /// The member; its public id is unique.
    pub who: Arc<Publisher>,
    pub is_listed: bool,
    pub announced: Announced,
}

/// Version of a publication by the publisher's own count.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Version {
    /// Count within the epoch; higher is newer.
    pub number: u64,
    /// Numbers of different epochs are not compared, and an empty one is compared with all.
    pub epoch: Box<str>,
}

/// Stage that a publication must reach before it is answered. Has an effect only where it is kept
/// and there is a store: anywhere else it is answered at once. Subscribers may get it before the
/// answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acknowledge {
    /// Memory of the process; a crash may lose it.
    #[default]
    Memory,
    /// The kernel has it, so it survives the process.
    Written,
    /// The disk has it, so it survives the machine.
    Synced,
}

/// A publication before it has a position.
#[derive(Clone, Debug)]
pub struct Draft {
    pub channel: ChannelName,
    pub payload: Payload,
    pub publisher: Option<Box<Publisher>>,
    /// JSON object with text values; travels with the publication.
    pub tags: Option<Box<str>>,
    /// Deliver it, but do not keep it; such a publication has no position.
    pub skip_history: bool,
    /// A second draft with the same key within some minutes is answered like the first and not
    /// delivered.
    pub idempotency_key: Option<Box<str>>,
    /// A draft that is not newer than the newest of its channel is answered and not delivered. Only
    /// in channels that keep history.
    pub version: Option<Box<Version>>,
    /// Minimum stage before the answer; the channel may ask for a later one.
    pub acknowledge: Acknowledge,
    /// Span of what publishes it, if that is traced. Shards that get the publication from its home
    /// or from a broker elsewhere are told, but not those that find it in a history.
    pub trace: Option<Box<SpanContext>>,
}

impl Draft {
    /// Makes a draft of data alone, which is kept where its channel keeps history.
    #[must_use]
    pub const fn new(channel: ChannelName, payload: Payload) -> Self {
        Self {
            channel,
            payload,
            publisher: None,
            tags: None,
            skip_history: false,
            idempotency_key: None,
            version: None,
            acknowledge: Acknowledge::Memory,
            trace: None,
        }
    }

    /// Bytes that the publication costs to keep; see [`Publication::cost_bytes`].
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let publisher = { self.publisher.as_deref() }.map_or(0, Publisher::cost_bytes);
        let tags = self.tags.as_ref().map_or(0, |tags| tags.len());
        size_of::<Publication>() + self.payload.bytes.len() + publisher + tags
    }
}

/// Part of a channel's history; by default all of it, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Publications at most; `None` for as many as one reply may have, `Some(0)` for the position
    /// alone. The broker has a limit of its own, so a page may be shorter.
    pub limit: Option<u32>,
    /// Only what comes after this position (before it, when reversed).
    pub since: Option<Position>,
    /// Whether the newest comes first.
    pub reverse: bool,
}

#[derive(Debug)]
pub enum Request {
    /// Starts deliveries to this shard, and asks where the stream stands.
    Subscribe {
        ticket: Ticket,
        channel: ChannelName,
        /// Last position of the subscriber, if it asks for recovery.
        since: Option<Position>,
        /// The member that comes, if presence is on. It is listed before the reply and announced
        /// after it.
        presence: Option<ChannelMember>,
    },
    /// Removes a member that came with a subscribe. Has no reply.
    Quit {
        channel: ChannelName,
        presence: ChannelMember,
    },
    /// Ends deliveries: this shard's last subscriber has left. Has no reply.
    Leave { channel: ChannelName },
    /// Gives the draft a position, keeps and delivers it.
    Publish { ticket: Ticket, draft: Draft },
    /// Asks for the members of a channel.
    Present {
        ticket: Ticket,
        channel: ChannelName,
        /// Whether the reply lists all members, besides their number.
        with_members: bool,
    },
    /// Forgets the channel's history; the stream keeps its position. The reply is an empty page.
    Forget {
        ticket: Ticket,
        channel: ChannelName,
    },
    /// Reads the channel's history.
    History {
        ticket: Ticket,
        channel: ChannelName,
        query: HistoryQuery,
    },
}

impl Request {
    #[must_use]
    pub const fn channel(&self) -> &ChannelName {
        match self {
            Self::Subscribe { channel, .. }
            | Self::Leave { channel }
            | Self::Quit { channel, .. }
            | Self::Present { channel, .. }
            | Self::Forget { channel, .. }
            | Self::History { channel, .. } => channel,
            Self::Publish { draft, .. } => &draft.channel,
        }
    }

    /// The reply that refuses it; none for a request without a reply.
    #[must_use]
    pub const fn refused(&self, refusal: Refusal) -> Option<Reply> {
        let (ticket, outcome) = match self {
            Self::Leave { .. } | Self::Quit { .. } => return None,
            Self::Subscribe { ticket, .. } => (*ticket, Outcome::Subscribed(Err(refusal))),
            Self::Publish { ticket, .. } => (*ticket, Outcome::Published(Err(refusal))),
            Self::Present { ticket, .. } => (*ticket, Outcome::Present(Err(refusal))),
            Self::Forget { ticket, .. } | Self::History { ticket, .. } => {
                (*ticket, Outcome::History(Err(refusal)))
            }
        };
        Some(Reply { ticket, outcome })
    }
}

/// Result of a request to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// No position was given.
    NotAsked,
    /// Everything after the given position, oldest first; empty when nothing was missed.
    Whole(Vec<Arc<Publication>>),
    /// Something is missing, or it is too much for one reply, so nothing is given.
    Lost,
}

/// Where a stream stood when a subscription began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// The newest position; none in channels that keep no history.
    pub position: Option<Position>,
    pub recovery: Recovery,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The newest position; none in channels that keep no history.
    pub position: Option<Position>,
    /// Publications found, in the order that was asked for.
    pub publications: Vec<Arc<Publication>>,
}

/// Members of a channel, counted or listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Number of connections that are members.
    pub clients: u32,
    /// Number of different users; connections without a user count as one.
    pub users: u32,
    /// All members, in any order; `None` if only the numbers were asked for.
    pub members: Option<Vec<Arc<Publisher>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The position it got, in channels that keep history; for a repeated idempotency key, the
    /// first one's.
    pub position: Option<Position>,
    /// Number of shards it is delivered to; zero for a repeated idempotency key. `None` where the
    /// broker does not know.
    pub shards: Option<u32>,
}

/// Reason why a request was not carried out. It had no effect, except with [`Refusal::Unknown`] and
/// [`Refusal::NotOnDisk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A queue on the way is full: try again in a moment.
    Busy,
    /// No namespace of that name is configured.
    UnknownChannel,
    /// The connection has this subscription already.
    AlreadySubscribed,
    /// The connection has the maximum number of subscriptions.
    ChannelLimit,
    /// The connection unsubscribed before the reply came.
    Cancelled,
    /// The channel keeps no history.
    NotAvailable,
    /// The position asked for is of another epoch or lies ahead of the stream.
    UnrecoverablePosition,
    /// The answer would exceed the limit of one reply.
    TooLong,
    /// The broker cannot be reached, or accepts nothing now: try again in a moment.
    Unavailable,
    /// The connection to the broker broke before the reply: the publication may have happened.
    /// Repeating it with the same idempotency key is safe.
    Unknown,
    /// The history store cannot write now, and the configuration refuses publications then: try
    /// again later.
    NotWritten,
    /// The publication was delivered, and the disk refused it before it was acknowledged. Repeating
    /// it with the same idempotency key is safe.
    NotOnDisk,
}

/// Answer of a broker to one request of a hub.
#[derive(Debug)]
pub struct Reply {
    pub ticket: Ticket,
    pub outcome: Outcome,
}

impl Reply {
    /// Makes the answer to a [`Request::Publish`].
    #[must_use]
    pub const fn published(ticket: Ticket, result: Result<Published, Refusal>) -> Self {
        let outcome = Outcome::Published(result);
        Self { ticket, outcome }
    }
}

/// Result of a request, or the reason why it was refused.
#[derive(Debug)]
pub enum Outcome {
    /// Answers [`Request::Subscribe`] with where the stream stands.
    Subscribed(Result<Subscribed, Refusal>),
    /// Answers [`Request::Publish`] with the position.
    Published(Result<Published, Refusal>),
    /// Answers [`Request::History`], and [`Request::Forget`] with an empty page.
    History(Result<HistoryPage, Refusal>),
    /// Answers [`Request::Present`] with counts or a list.
    Present(Result<Present, Refusal>),
}

/// A hub, as its part of the broker sees it.
pub trait Receiver {
    /// Whether the hub can take one more publication of a channel, of that many bytes. Asked before
    /// a publication is accepted that would be delivered here at once.
    fn has_room(&self, channel: &ChannelName, bytes: usize) -> bool;

    /// Takes the answer to a request of this hub.
    fn reply(&mut self, reply: Reply);

    /// Takes a publication for the subscribers of this shard, or the notice that a member came or
    /// went.
    fn deliver(&mut self, publication: Arc<Publication>);

    /// Notes that the deliveries of a channel have a gap, or that its epoch changed. Its
    /// subscribers on this shard must subscribe again, and learn by that what they lost.
    fn broken(&mut self, channel: &ChannelName);
}
