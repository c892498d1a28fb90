//! Requests to the broker that wait for a reply, and whom each reply is for.

use throng_broker::Ticket;
use throng_types::{ChannelName, Slots, SpanContext};

use crate::{Format, ReplyTo};

/// Request that waits for a reply.
#[derive(Debug)]
pub(crate) enum Waiting {
    Subscribe {
        reply_to: ReplyTo,
        channel: u32,
        format: Format,
    },
    /// A command of a connection, other than a subscribe.
    Answer(ReplyTo),
    /// A publication of a feed.
    Feed { round: u32, number: u32 },
    /// A publication that is traced, on its way to a broker elsewhere.
    Traced(Box<TracedPublish>),
    /// Nobody waits. Also keeps the first place, which is always taken.
    Nobody,
}

/// Publication on its way to a broker elsewhere, whose time there is a span.
#[derive(Debug)]
pub(crate) struct TracedPublish {
    pub(crate) waiting: Waiting,
    pub(crate) by: Box<SpanContext>,
    pub(crate) channel: ChannelName,
    pub(crate) since_unix_ms: u64,
}

/// Waiting requests, by ticket.
pub(crate) struct Requests(Slots<Waiting>);

impl Default for Requests {
    fn default() -> Self {
        let mut slots = Slots::default();
        // A slab gives back memory when it is empty. Most requests are answered at once, so it
        // would do so for each of them.
        slots.insert(Waiting::Nobody);
        Self(slots)
    }
}

impl Requests {
    /// Whether no request waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn insert(&mut self, waiting: Waiting) -> Ticket {
        Ticket(self.0.insert(waiting))
    }

    /// Removes the request that a reply answers.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Waiting {
        let waiting = self.0.remove(ticket.0);
        debug_assert!(waiting.is_some(), "a reply answers a request, once");
        waiting.unwrap_or(Waiting::Nobody)
    }
}
