//! Requests without a reply from the broker yet. The broker bounds their number.

use throng_broker::Ticket;
use throng_types::Slots;

use crate::{Format, ReplyTo};

/// Request that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    Subscribe {
        reply_to: ReplyTo,
        channel: u32,
        format: Format,
    },
    Publish {
        reply_to: ReplyTo,
    },
    /// A publication of a feed.
    Feed {
        round: u32,
        number: u32,
    },
    History {
        reply_to: ReplyTo,
    },
    Present {
        reply_to: ReplyTo,
    },
    /// Nobody waits. Also keeps the first place, which is always taken.
    Nobody,
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
