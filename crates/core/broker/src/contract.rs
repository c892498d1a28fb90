//! Requests of a hub to its broker, and the broker's replies.
//!
//! Plain values: they own what they carry, so that they can wait in a mailbox or cross a network.
//! The rules about their order stand at the head of [`crate::Broker`]'s module.

use std::sync::Arc;

use throng_types::{ChannelName, Payload, Position, Publication, Publisher, Save};

/// Names a request, so that its hub knows the reply. The broker only echoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// A member of a channel, as its presence options show it.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct ChannelMember {
    /// The member; its public id is unique.
    pub who: Arc<Publisher>,
    pub is_listed: bool,
    /// Whether subscribers of the channel are told when it comes and goes.
    pub is_announced: bool,
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
    pub fn refused(self, refusal: Refusal) -> Option<Reply> {
        Some(match self {
            Self::Subscribe { ticket, .. } => Reply::Subscribed {
                ticket,
                result: Err(refusal),
            },
            Self::Leave { .. } | Self::Quit { .. } => return None,
            Self::Present { ticket, .. } => Reply::Present {
                ticket,
                result: Err(refusal),
            },
            Self::Publish { ticket, .. } => Reply::Published {
                ticket,
                result: Err(refusal),
            },
            Self::Forget { ticket, .. } | Self::History { ticket, .. } => Reply::History {
                ticket,
                result: Err(refusal),
            },
        })
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

/// Message of a broker to a hub.
#[derive(Debug)]
pub enum Reply {
    /// Answers [`Request::Subscribe`] with the position.
    Subscribed {
        ticket: Ticket,
        /// Where the stream stands.
        result: Result<Subscribed, Refusal>,
    },
    /// Answers [`Request::Publish`] with the position.
    Published {
        ticket: Ticket,
        /// Position and number of shards.
        result: Result<Published, Refusal>,
    },
    /// Answers [`Request::History`] and [`Request::Forget`].
    History {
        ticket: Ticket,
        result: Result<HistoryPage, Refusal>,
    },
    /// Answers [`Request::Present`] with counts or a list.
    Present {
        ticket: Ticket,
        result: Result<Present, Refusal>,
    },
    /// A publication for the shard's subscribers, or the notice that a member came or went.
    Delivery(Arc<Publication>),
    /// The deliveries of a channel have a gap, or its epoch changed. Its subscribers on this shard
    /// must subscribe again, and learn by that what they lost.
    Broken(ChannelName),
}
