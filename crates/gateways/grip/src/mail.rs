//! What GRIP tells itself on other shards, and what backends tell it.

use std::sync::Arc;

use throng_broker::Refusal;
use throng_grip::exchange::OriginEvent;
use throng_grip::item::Item;
use throng_hub::ReplyTo;
use throng_types::{ChannelName, ConnId, Position};

use crate::look::{Found, Wanted};
use crate::receipt::Receipt;
use crate::receipts::Heard;
use crate::sequencer::LastItem;
use crate::shared::RouteBook;
use crate::stats::StatsMail;

/// A message to the gateway on one shard.
#[derive(Debug)]
pub enum Mail {
    /// A backend has done something.
    Origin {
        /// Whose exchange.
        conn: ConnId,
        /// The number that the request carried.
        token: u32,
        /// What the backend did.
        event: OriginEvent,
    },
    /// Publish this in a channel of yours.
    Publish {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// The item.
        item: Box<Item>,
        /// Whoever asks waits rather than being refused.
        patient: bool,
        /// Of a publisher who wants to know how many took it.
        receipt: Option<Receipt>,
    },
    /// It is done.
    Published {
        /// Who asked.
        reply_to: ReplyTo,
        /// What became of it.
        result: Result<Option<Position>, Refusal>,
    },
    /// About an item of which somebody wants to know how many took it.
    Receipt {
        /// Which of your receipts.
        number: u64,
        /// What is known.
        heard: Heard,
    },
    /// Which item went out last?
    LastId {
        /// Who asks.
        conn: ConnId,
        /// In which channel.
        channel: ChannelName,
    },
    /// This one.
    LastIs {
        /// Who asked.
        conn: ConnId,
        /// In which channel.
        channel: ChannelName,
        /// What is known.
        last: LastItem,
    },
    /// These routes hold from now on.
    Routes(Arc<RouteBook>),
    /// All your sessions ask their backends.
    Recover,
    /// Your WebSockets over HTTP of this channel ask theirs.
    Refresh {
        /// The channel.
        channel: ChannelName,
    },
    /// Do this with these connections of yours, as far as they are there.
    Look {
        /// Who asks, and which of its questions this is.
        asker: (ConnId, u32),
        /// What to do.
        wanted: Wanted,
        /// The connections.
        conns: Vec<ConnId>,
    },
    /// These are there.
    Found {
        /// Who asked, and which question.
        asker: (ConnId, u32),
        /// What is known.
        found: Found,
    },
    /// About statistics.
    Stats(StatsMail),
    /// A channel has subscribers on the shard that says so, or none any more.
    Topic {
        /// The channel.
        channel: ChannelName,
        /// Whether it has.
        is_wanted: bool,
    },
}
