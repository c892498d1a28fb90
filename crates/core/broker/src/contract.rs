//! What a shard asks of a channel's home, and what the home answers.
//!
//! Invariants that every carrier of these messages must keep, because recovery
//! without gap or duplicate rests on them:
//! - between two shards messages arrive in the order in which they were sent;
//! - a reply and the deliveries of its channel travel on the same road.

use std::sync::Arc;

use throng_types::{ChannelName, Payload, Position, Publication, Publisher};

/// Names a question, so that the asker knows its answer. The home only echoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

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
}

/// Which part of a channel's history is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Publications at most; `None` for all, `Some(0)` for the position alone.
    pub limit: Option<u32>,
    /// Only what comes after this position (before it, when reversed).
    pub since: Option<Position>,
    /// Newest first.
    pub reverse: bool,
}

/// A shard's message to a channel's home.
#[derive(Debug)]
pub enum Request {
    /// From now on the shard has subscribers; answer with where the stream stands.
    Subscribe {
        /// Echoed in the answer.
        ticket: Ticket,
        /// Of which channel.
        channel: ChannelName,
        /// Where the subscriber was, if it wants what it missed.
        since: Option<Position>,
    },
    /// The shard's last subscriber has left. Not answered.
    Leave {
        /// Of which channel.
        channel: ChannelName,
    },
    /// Give this a position, keep it, deliver it.
    Publish {
        /// Echoed in the answer.
        ticket: Ticket,
        /// What to publish.
        draft: Draft,
    },
    /// Read the past.
    History {
        /// Echoed in the answer.
        ticket: Ticket,
        /// Of which channel.
        channel: ChannelName,
        /// Which part.
        query: HistoryQuery,
    },
}

/// What became of a wish to resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nobody asked.
    NotAsked,
    /// Everything after the given position, oldest first; empty when nothing was missed.
    Whole(Vec<Arc<Publication>>),
    /// The gap could not be filled whole, so nothing of it is given.
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

/// Why a request was not carried out. Nothing of it took effect.
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
    /// The subscription was ended before it began.
    TakenBack,
    /// The channel keeps no history.
    NotAvailable,
    /// The position asked for is of another epoch or lies ahead of the stream.
    UnrecoverablePosition,
}

/// The home's message to a shard.
#[derive(Debug)]
pub enum Reply {
    /// To [`Request::Subscribe`].
    Subscribed {
        /// Whose answer this is.
        ticket: Ticket,
        /// Where the stream stands.
        result: Subscribed,
    },
    /// To [`Request::Publish`].
    Published {
        /// Whose answer this is.
        ticket: Ticket,
        /// The position it got, in channels that keep history.
        result: Result<Option<Position>, Refusal>,
    },
    /// To [`Request::History`].
    History {
        /// Whose answer this is.
        ticket: Ticket,
        /// What was found.
        result: Result<HistoryPage, Refusal>,
    },
    /// A publication for the shard's subscribers.
    Delivery(Arc<Publication>),
}
