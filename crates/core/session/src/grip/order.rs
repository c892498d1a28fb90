//! What GRIP sessions want done beyond their connection.

use throng_grip::exchange::OriginRequest;
use throng_grip::item::Item;
use throng_hub::Asker;
use throng_types::{ChannelName, ConnId};

use super::receipt::Receipt;

/// A wish.
#[derive(Debug)]
pub enum GripOrder {
    /// Ask a backend. What it does comes to [`crate::Session::origin`] with this token, and an
    /// exchange that the connection had before is over.
    Ask {
        /// Who.
        conn: ConnId,
        /// Given back with each event.
        token: u32,
        /// What.
        request: Box<OriginRequest>,
    },
    /// Tell a backend something to which no answer is awaited, even if the connection ends.
    Tell {
        /// What.
        request: Box<OriginRequest>,
    },
    /// Send bytes behind the request that was asked last; [`OriginEvent::Taken`] answers.
    ///
    /// [`OriginEvent::Taken`]: throng_grip::exchange::OriginEvent::Taken
    Send {
        /// Whose.
        conn: ConnId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Nothing more follows the request that was asked last.
    Finish {
        /// Whose.
        conn: ConnId,
    },
    /// Nothing more of the exchange is wanted.
    Forget {
        /// Whose.
        conn: ConnId,
    },
    /// Publish, in order. Answered like a publication of the hub.
    Publish {
        /// Whom to answer.
        asker: Asker,
        /// What.
        item: Box<Item>,
        /// Whoever asks waits rather than being refused; they have few items under way.
        patient: bool,
        /// Before the answer, tell [`crate::Session::receivers`] how many connections took it.
        counts: bool,
    },
    /// Everybody on this shard who is to get an item has got it.
    Carried {
        /// Of a publisher who wants to know.
        receipt: Receipt,
        /// So many took it.
        count: u64,
    },
    /// From now on tell [`crate::Session::topic`] which channels have subscribers.
    Listen {
        /// Whom.
        conn: ConnId,
    },
    /// Which item of a channel went out last? Answered to [`crate::Session::last_item`].
    LastId {
        /// Who.
        conn: ConnId,
        /// Of which channel.
        channel: ChannelName,
    },
    /// Every reliable stream and response asks its backend.
    Recover,
    /// WebSockets over HTTP ask their backend.
    Refresh {
        /// This one.
        connection: Option<ConnId>,
        /// All of this channel, by the publisher's name.
        channel: Option<String>,
    },
}
