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
        /// The connection.
        conn: ConnId,
        /// Given back with each event.
        token: u32,
        /// The request.
        request: Box<OriginRequest>,
    },
    /// Tell a backend something to which no answer is awaited, even if the connection ends.
    Tell {
        /// The request.
        request: Box<OriginRequest>,
    },
    /// Send bytes behind the request that was asked last; [`OriginEvent::Taken`] answers.
    ///
    /// [`OriginEvent::Taken`]: throng_grip::exchange::OriginEvent::Taken
    Send {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Nothing more follows the request that was asked last.
    Finish {
        /// The connection.
        conn: ConnId,
    },
    /// Nothing more of the exchange is wanted.
    Forget {
        /// The connection.
        conn: ConnId,
    },
    /// The connection's stream has ended: it leaves all channels, and takes the next request.
    Leave {
        /// The connection.
        conn: ConnId,
    },
    /// It has left them.
    Left {
        /// The connection.
        conn: ConnId,
    },
    /// Publish, in order. Answered like a publication of the hub.
    Publish {
        /// Whom to answer.
        reply_to: ReplyTo,
        /// The item.
        item: Box<Item>,
        /// Whoever asks waits rather than being refused; they have few items under way.
        patient: bool,
        /// Before the answer, tell it how many connections took it.
        counts: bool,
    },
    /// Everybody on this shard who is to get an item has got it.
    Carried {
        /// Of a publisher who wants to know.
        receipt: Receipt,
        /// So many took it.
        count: u64,
    },
    /// The session is subscribed to a channel; only where publishers may want to know.
    Subscribed {
        /// The channel.
        channel: ChannelName,
    },
    /// From now on tell it which channels have subscribers.
    Listen {
        /// The connection.
        conn: ConnId,
    },
    /// From now on tell it statistics.
    ReadStats {
        /// The connection.
        conn: ConnId,
    },
    /// Which item of a channel went out last? Answered to it.
    LastId {
        /// The connection.
        conn: ConnId,
        /// Of which channel.
        channel: ChannelName,
    },
    /// Every reliable stream and response asks its backend.
    Recover,
    /// WebSockets over HTTP of a channel ask their backend.
    Refresh {
        /// The channel, by the publisher's name.
        channel: String,
    },
    /// Do this with these connections, as far as they are there.
    Look {
        /// Who asks, and which of its questions this is.
        asker: (ConnId, u32),
        /// What to do.
        wanted: Wanted,
        /// The connections.
        conns: Vec<ConnId>,
    },
}
