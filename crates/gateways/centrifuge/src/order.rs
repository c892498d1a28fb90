//! What sessions ask of the gateway, and what it is told by itself and by backends.

use throng_session::{Ask, BackendMail, Question};
use throng_types::{ChannelName, ConnId};

use crate::upward::Upward;

/// What a session asks of its gateway.
#[derive(Debug)]
pub enum Order {
    /// Carry commands to their session.
    Upward(Upward),
    /// Ask a backend.
    Ask(Ask),
    /// Tell a backend that a channel has no newest publication, unless it was told so just now.
    CacheEmpty {
        /// Whose subscribe it was.
        conn: ConnId,
        /// The channel.
        channel: ChannelName,
        /// What the backend is told, and which.
        question: Question,
    },
}

/// What the gateway is told.
#[derive(Debug)]
pub enum Mail {
    /// Commands for a session of this shard.
    Upward(Upward),
    /// Of backends.
    Backends(BackendMail),
}

impl From<Ask> for Order {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}
