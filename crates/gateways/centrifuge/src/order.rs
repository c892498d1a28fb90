//! What sessions ask of the gateway, and what it is told by itself and by backends.

use throng_types::{ChannelName, ConnId};

use crate::backend::{Answered, NewBackends, ProxyOptions, Question};
use crate::upward::Upward;

/// What a session asks of its gateway.
#[derive(Debug)]
pub enum Order {
    /// Carry commands to their session.
    Upward(Upward),
    /// Ask a backend.
    Ask {
        /// Who asks.
        conn: ConnId,
        /// A number of its choice.
        number: u32,
        /// The question, and where it goes.
        question: Question,
    },
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
    /// A backend has answered, or failed to.
    Answered {
        /// Who asked.
        conn: ConnId,
        /// The number that it gave.
        number: u32,
        /// The answer.
        answer: Answered,
    },
    /// Other backends are asked from now on; what was asked before is still answered.
    Renewed(ProxyOptions, Option<NewBackends>),
}
