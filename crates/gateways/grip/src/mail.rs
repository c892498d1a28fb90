//! Mail of GRIP between its shards, and from backends.

use std::sync::Arc;

use throng_broker::Refusal;
use throng_grip::item::Item;
use throng_http1::origin::OriginEvent;
use throng_hub::ReplyTo;
use throng_types::{ChannelName, ConnId, Position};

use crate::order::{ConnCommand, Receipt};
use crate::sequencer::LastItem;
use crate::shared::RouteBook;
use crate::stats::StatsMail;

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
    Publish {
        reply_to: ReplyTo,
        item: Box<Item>,
        /// Whether the publisher waits for room instead of being refused.
        patient: bool,
        /// Receipt of a publisher that asks for the number of receivers.
        receipt: Option<Receipt>,
    },
    /// Reply to `Publish`: the item is done.
    Published {
        reply_to: ReplyTo,
        /// Position of the publication, or the reason of the refusal.
        result: Result<Option<Position>, Refusal>,
    },
    /// ItemProgress of an item with a receipt.
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
    /// Do this with these connections of yours, as far as they are there.
    Look {
        /// Connection that asks, and the number of its question.
        asker: (ConnId, u32),
        command: ConnCommand,
        conns: Vec<ConnId>,
    },
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

/// Report about an item whose receivers are counted.
#[derive(Clone, Copy, Debug)]
pub enum ItemProgress {
    /// The item was not taken.
    Refused(Refusal),
    /// The item waits for the one before it; it goes out after the publisher was answered.
    Later,
    /// The item is on its way to this many shards.
    Shards(u32),
    /// Count of one shard, after its last delivery.
    Count(u64),
}
