//! Orders of GRIP sessions that go beyond their connection; mail of GRIP between its shards, and
//! from backends.

use std::sync::Arc;

use throng_broker::Refusal;
use throng_grip::item::Item;
use throng_http1::origin::{OriginEvent, OriginRequest};
use throng_hub::ReplyTo;
use throng_types::{ChannelName, ConnId, Position, SpanContext};

use crate::forms::Receipt;
use crate::sequencer::LastItem;
use crate::shared::RouteBook;
use crate::stats::StatsMail;

/// Order from a session to its gateway.
#[derive(Debug)]
pub enum Order {
    /// Ask a backend. Its events come to the session with this token, and an earlier exchange of
    /// the connection is over.
    Ask {
        conn: ConnId,
        /// Given back with each event.
        token: u32,
        request: Box<OriginRequest>,
    },
    /// Send a backend a request without an awaited answer, even if the connection ends.
    Tell { request: Box<OriginRequest> },
    /// Send bytes behind the request that was asked last; [`OriginEvent::Taken`] answers.
    ///
    /// [`OriginEvent::Taken`]: throng_http1::origin::OriginEvent::Taken
    Send { conn: ConnId, bytes: Vec<u8> },
    /// Nothing more follows the request that was asked last.
    Finish { conn: ConnId },
    /// End the exchange; no more of it is needed.
    Forget { conn: ConnId },
    /// The connection's stream has ended: it leaves all channels, and takes the next request.
    Leave { conn: ConnId },
    /// The connection has left all channels.
    Left { conn: ConnId },
    /// Publish, in order. Answered like a publication of the hub.
    Publish {
        reply_to: ReplyTo,
        item: Box<Item>,
        /// Whether the publisher waits for room instead of being refused; such a one has few items
        /// under way.
        patient: bool,
        /// Whether it gets the number of receivers before the answer.
        counts: bool,
        /// Span of its request, if that is traced.
        trace: Option<Box<SpanContext>>,
    },
    /// All subscribers on this shard have got an item.
    Carried {
        /// Receipt of the publisher that asked for the number.
        receipt: Receipt,
        /// Number of connections that took it.
        count: u64,
    },
    /// The session has subscribed to a channel; sent only if publishers may listen to topics.
    Subscribed { channel: ChannelName },
    /// Send it the channels that have subscribers, from now on.
    Listen { conn: ConnId },
    /// Send it statistics, from now on.
    ReadStats { conn: ConnId },
    /// Which item of a channel went out last? Answered to it.
    LastId { conn: ConnId, channel: ChannelName },
    /// Every reliable stream and response asks its backend.
    Recover,
    /// WebSockets over HTTP of a channel ask their backend.
    Refresh {
        /// The channel, by the publisher's name.
        channel: String,
    },
    /// Carry a command out, on all shards.
    Look(ConnLook),
}

/// Command for these connections, as far as they are there.
#[derive(Debug)]
pub struct ConnLook {
    /// Connection that asks, and the number of its question.
    pub asker: (ConnId, u32),
    pub command: ConnCommand,
    pub conns: Vec<ConnId>,
}

/// Command of a publisher for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnCommand {
    /// Asks which of them are open.
    Check,
    /// Makes those that are WebSockets ask their backends.
    Refresh,
}

/// A message to the gateway on one shard.
#[derive(Debug)]
pub enum Mail {
    /// A backend has done something.
    Origin {
        conn: ConnId,
        /// The number that the request carried.
        token: u32,
        event: OriginEvent,
    },
    /// Publish this in a channel of yours.
    Publish(ItemOffer),
    /// Reply to `Publish`: the item is done.
    Published {
        reply_to: ReplyTo,
        /// Position of the publication, or the reason of the refusal.
        result: Result<Option<Position>, Refusal>,
    },
    /// Progress of an item with a receipt.
    Receipt {
        /// Number of the receipt on the receiving shard.
        number: u64,
        progress: ItemProgress,
    },
    /// Which item went out last?
    LastId {
        conn: ConnId,
        channel: ChannelName,
    },
    /// Reply to `LastId`: the last item of the channel.
    LastIs {
        conn: ConnId,
        channel: ChannelName,
        last: LastItem,
    },
    Routes(Arc<RouteBook>),
    /// All your sessions ask their backends.
    Recover,
    /// Your WebSockets over HTTP of this channel ask theirs.
    Refresh {
        channel: ChannelName,
    },
    /// Carry a command out on these connections of yours.
    Look(ConnLook),
    /// Reply to `Look`: the connections that are there.
    Found {
        /// Connection that asked, and the number of its question.
        asker: (ConnId, u32),
        /// `None` if the shard could not be asked.
        found: Option<Vec<ConnId>>,
    },
    /// Mail between the shards' parts of statistics.
    Stats(StatsMail),
    /// A channel has subscribers on the sending shard, or has none any more.
    Topic {
        channel: ChannelName,
        is_wanted: bool,
    },
}

/// Item of a publisher, on its way to the home of its channel.
#[derive(Debug)]
pub struct ItemOffer {
    pub reply_to: ReplyTo,
    pub item: Box<Item>,
    /// Whether the publisher waits for room instead of being refused.
    pub patient: bool,
    /// Receipt of a publisher that asks for the number of receivers.
    pub receipt: Option<Receipt>,
    /// Span of the publisher's request, if that is traced.
    pub trace: Option<Box<SpanContext>>,
}

/// Report about an item whose receivers are counted.
#[derive(Clone, Copy, Debug)]
pub enum ItemProgress {
    Refused(Refusal),
    /// The item waits for the one before it; it goes out after the publisher was answered.
    Later,
    /// The item is on its way to this many shards.
    Shards(u32),
    /// Count of one shard, after its last delivery.
    Count(u64),
}
