//! What a hub asks of its broker, and what the broker replies.
//!
//! Plain values: they own what they carry, so that they can wait in a mailbox or cross a network.
//! The rules about their order stand at the head of [`crate::Broker`]'s module.

use std::sync::Arc;

use throng_types::{ChannelName, Payload, Position, Publication, Publisher};

/// Names a request, so that its hub knows the reply. The broker only echoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// Somebody who is to be seen in a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Who it is. Its public id tells it from all others.
    pub who: Arc<Publisher>,
    /// It stands in the list of those who are present.
    pub is_listed: bool,
    /// Its coming and going is told to the channel's subscribers.
    pub is_announced: bool,
}

throng_types::save_fields!(Presence {
    who,
    is_listed,
    is_announced
});

/// Which of a channel's publications is the newer one, by the publisher's own count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Higher is newer.
    pub number: u64,
    /// Numbers of different epochs are not compared, and an empty one is compared with all.
    pub epoch: Box<str>,
}

throng_types::save_fields!(Version { number, epoch });

/// How far a publication must have got before it is answered. Only where it is kept and there is
/// a store: anywhere else it is answered at once. Subscribers may hear it before the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acknowledge {
    /// Kept in memory.
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
    /// Where it is published.
    pub channel: ChannelName,
    /// The data.
    pub payload: Payload,
    /// Which connection published it, if one did.
    pub publisher: Option<Box<Publisher>>,
    /// A JSON object of texts to travel with it.
    pub tags: Option<Box<str>>,
    /// Deliver it, but do not keep it; such a publication has no position.
    pub skip_history: bool,
    /// A second draft with the same key within some minutes is answered like the first and not
    /// delivered.
    pub idempotency_key: Option<Box<str>>,
    /// A draft that is not newer than the newest of its channel is answered and not delivered. Only
    /// in channels that keep history.
    pub version: Option<Box<Version>>,
    /// How far it must have got at least before it is answered, whatever its channel asks for.
    pub acknowledge: Acknowledge,
}

impl Draft {
    /// What the publication will cost to keep, in bytes; see [`Publication::cost_bytes`].
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let publisher = { self.publisher.as_deref() }.map_or(0, Publisher::cost_bytes);
        let tags = self.tags.as_ref().map_or(0, |tags| tags.len());
        size_of::<Publication>() + self.payload.bytes.len() + publisher + tags
    }
}

/// Which part of a channel's history is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Publications at most; `None` for as many as one reply may have, `Some(0)` for the position
    /// alone. The broker has a limit of its own, so a page may be shorter.
    pub limit: Option<u32>,
    /// Only what comes after this position (before it, when reversed).
    pub since: Option<Position>,
    /// Newest first.
    pub reverse: bool,
}

/// What a hub asks of its broker.
#[derive(Debug)]
pub enum Request {
    /// From now on this shard has subscribers: send it what is published, and say where the
    /// stream stands.
    Subscribe {
        /// Echoed in the reply.
        ticket: Ticket,
        /// The channel.
        channel: ChannelName,
        /// Where the subscriber was, if it wants what it missed.
        since: Option<Position>,
        /// Who comes, if that is to be seen. It is listed before the reply and announced after it.
        presence: Option<Presence>,
    },
    /// Somebody who came with a subscribe has left. Has no reply.
    Quit {
        /// The channel.
        channel: ChannelName,
        /// As the subscribe said.
        presence: Presence,
    },
    /// This shard's last subscriber has left. Has no reply.
    Leave {
        /// The channel.
        channel: ChannelName,
    },
    /// Give this a position, keep it, deliver it.
    Publish {
        /// Echoed in the reply.
        ticket: Ticket,
        /// What to publish.
        draft: Draft,
    },
    /// Say who is present.
    Present {
        /// Echoed in the reply.
        ticket: Ticket,
        /// The channel.
        channel: ChannelName,
        /// Everybody, not only how many they are.
        with_members: bool,
    },
    /// Forget what was published; the stream goes on where it stands. The reply is an empty page.
    Forget {
        /// Echoed in the reply.
        ticket: Ticket,
        /// The channel.
        channel: ChannelName,
    },
    /// Read what was published.
    History {
        /// Echoed in the reply.
        ticket: Ticket,
        /// The channel.
        channel: ChannelName,
        /// Which part.
        query: HistoryQuery,
    },
}

impl Request {
    /// The channel that it is about.
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

/// What became of a request to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nobody asked.
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
    /// What the subscriber had missed.
    pub recovery: Recovery,
}

/// A part of a channel's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The newest position; none in channels that keep no history.
    pub position: Option<Position>,
    /// What was asked for and is still there.
    pub publications: Vec<Arc<Publication>>,
}

/// Who is present in a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// How many connections.
    pub clients: u32,
    /// Different users; those without a user are one.
    pub users: u32,
    /// Everybody, in any order; nothing if only the numbers were asked for.
    pub members: Option<Vec<Arc<Publisher>>>,
}

/// What became of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The position it got, in channels that keep history; for a repeated idempotency key, the
    /// first one's.
    pub position: Option<Position>,
    /// How many shards it is delivered to; none for a repeated idempotency key. `None` where the
    /// broker does not know.
    pub shards: Option<u32>,
}

/// Why a request was not carried out. Nothing of it took effect, but for [`Refusal::Unknown`] and
/// [`Refusal::NotOnDisk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A queue on the way is full: try again in a moment.
    Busy,
    /// No namespace of that name is configured.
    UnknownChannel,
    /// The connection has this subscription already.
    AlreadySubscribed,
    /// The connection has as many subscriptions as it may.
    ChannelLimit,
    /// The connection unsubscribed before the reply came.
    Cancelled,
    /// The channel keeps no history.
    NotAvailable,
    /// The position asked for is of another epoch or lies ahead of the stream.
    UnrecoverablePosition,
    /// The answer would be longer than one may be.
    TooLong,
    /// The broker cannot be reached, or takes nothing now: try again in a moment.
    Unavailable,
    /// The connection to the broker broke before it answered: it may have published, or not. To
    /// repeat it with the same idempotency key is safe.
    Unknown,
    /// History cannot be written to disk now, and is to be refused then: try again later.
    NotWritten,
    /// It was published, and the disk refused it before that was acknowledged. To repeat it with
    /// the same idempotency key is safe.
    NotOnDisk,
}

/// What a broker says to a hub.
#[derive(Debug)]
pub enum Reply {
    /// To [`Request::Subscribe`].
    Subscribed {
        /// Of the request.
        ticket: Ticket,
        /// Where the stream stands.
        result: Result<Subscribed, Refusal>,
    },
    /// To [`Request::Publish`].
    Published {
        /// Of the request.
        ticket: Ticket,
        /// Its position, and where it goes.
        result: Result<Published, Refusal>,
    },
    /// To [`Request::History`].
    History {
        /// Of the request.
        ticket: Ticket,
        /// What was found.
        result: Result<HistoryPage, Refusal>,
    },
    /// To [`Request::Present`].
    Present {
        /// Of the request.
        ticket: Ticket,
        /// Who is there.
        result: Result<Present, Refusal>,
    },
    /// A publication for the shard's subscribers, or the word that somebody came or went.
    Delivery(Arc<Publication>),
    /// What the channel's subscribers on this shard got is not continued by what comes next, or not
    /// in the same epoch. They must subscribe again, and learn by that what they lost.
    Broken(ChannelName),
}
