//! What GRIP sessions want done beyond their connection.

use throng_grip::exchange::OriginRequest;
use throng_grip::item::Item;
use throng_hub::ReplyTo;
use throng_types::{ChannelName, ConnId};

use crate::look::Wanted;
use crate::receipt::Receipt;

/// Something that a session wants of its gateway.
#[derive(Debug)]
pub enum Order {
    /// Ask a backend. What it does comes to its session with this token, and an
    /// exchange that the connection had before is over.
    Ask {
        conn: ConnId,
        /// Given back with each event.
        token: u32,
        request: Box<OriginRequest>,
    },
    /// Tell a backend something to which no answer is awaited, even if the connection ends.
    Tell { request: Box<OriginRequest> },
    /// Send bytes behind the request that was asked last; [`OriginEvent::Taken`] answers.
    ///
    /// [`OriginEvent::Taken`]: throng_grip::exchange::OriginEvent::Taken
    Send { conn: ConnId, bytes: Vec<u8> },
    /// Nothing more follows the request that was asked last.
    Finish { conn: ConnId },
    /// Nothing more of the exchange is wanted.
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
        /// Before the answer, tell it how many connections took it.
        counts: bool,
    },
    /// Everybody on this shard who is to get an item has got it.
    Carried {
        /// Receipt of the publisher that asked for the number.
        receipt: Receipt,
        /// So many took it.
        count: u64,
    },
    /// The session is subscribed to a channel; only where publishers may want to know.
    Subscribed { channel: ChannelName },
    /// From now on tell it which channels have subscribers.
    Listen { conn: ConnId },
    /// From now on tell it statistics.
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
    /// Do this with these connections, as far as they are there.
    Look {
        /// Connection that asks, and the number of its question.
        asker: (ConnId, u32),
        wanted: Wanted,
        conns: Vec<ConnId>,
    },
}
