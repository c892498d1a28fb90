//! Orders of sessions to the gateway, and mail from other shards and backends.

use throng_session::{Ask, BackendMail, Question};
use throng_types::{ChannelName, ConnId};

/// Order from a session to its gateway.
#[derive(Debug)]
pub enum Order {
    /// Carry commands to their session.
    Upward(Upward),
    /// Ask a backend about a client.
    Ask(Ask),
    /// Tell a backend that a channel has no newest publication, unless it was told just now.
    CacheEmpty {
        /// Connection of the client that subscribed.
        conn: ConnId,
        channel: ChannelName,
        /// Notice for the backend, and the backend's id.
        question: Question,
    },
}

/// Mail to the gateway on a shard.
pub enum Mail {
    /// Commands for a session of this shard.
    Upward(Upward),
    /// Answers and options of backends.
    Backends(BackendMail),
}

impl From<Ask> for Order {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

/// Commands on their way to the session that they name.
#[derive(Debug)]
pub struct Upward {
    /// The request that brought them; nothing once they have left its shard.
    pub(crate) request: Option<ConnId>,
    /// Connection of the session that the commands are for.
    pub(crate) to: ConnId,
    /// A frame of commands.
    pub(crate) data: Box<[u8]>,
}
