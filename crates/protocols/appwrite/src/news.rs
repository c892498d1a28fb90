//! Events and answers for a shard.

use std::sync::Arc;

use throng_types::{ConnId, Position};

use crate::feed::FeedMessage;
#[cfg(doc)]
use crate::lookup::{Lookup, PresenceCall};
use crate::lookup::{LookupReply, PresenceReply};

/// A word for a shard from outside. Events come in one order for all shards.
#[derive(Clone, Debug)]
pub enum News {
    /// Something happened in a project.
    Event {
        event: Arc<FeedMessage>,
        /// Its place among all events.
        position: Position,
    },
    /// Events may have been lost, and what is known of users may be wrong: counting begins anew,
    /// after this position.
    Began(Position),
    /// The answer to a [`Lookup`].
    Found {
        /// The connection that asked.
        conn: ConnId,
        /// The number that the question carried.
        token: u32,
        found: LookupReply,
    },
    /// The answer to a [`PresenceCall`].
    Presence {
        /// The connection that asked.
        conn: ConnId,
        /// The number that the call carried.
        token: u32,
        answer: PresenceReply,
    },
}
