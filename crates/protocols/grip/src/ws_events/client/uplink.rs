//! What a client has said and its backend has not taken.
//!
//! Invariants
//! - `bytes` is the sum over `queue`.
//! - `offered` is never more than what is there.

use std::collections::VecDeque;

use crate::ws_events::event::{Event, EventKind, encode_event};

/// A stretch of the queue, from its front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// Messages that the backend has not taken: what bounds those that have no bytes. Queue: `uplink`.
pub(super) const PENDING_MESSAGES_MAX: usize = 4096;

/// What the client has said and the backend has not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Uplink {
    /// Bound: [`PENDING_MESSAGES_MAX`], and `pending_bytes_max` of the limits.
    queue: VecDeque<(EventKind, Vec<u8>)>,
    bytes: usize,
    /// The backend was shown this much and has left it lying.
    offered: Extent,
}

impl Uplink {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn messages(&self) -> usize {
        self.queue.len()
    }

    /// What a backend that has left something lying finds at the front again.
    pub(super) const fn left_bytes(&self) -> usize {
        self.offered.bytes
    }

    pub(super) fn push(&mut self, kind: EventKind, content: Vec<u8>) {
        self.bytes += content.len();
        self.queue.push_back((kind, content));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether there is something that the backend was not shown yet.
    pub(super) fn has_news(&self) -> bool {
        self.queue.len() > self.offered.messages || self.bytes > self.offered.bytes
    }

    /// Whether a stretch reaches to the end.
    pub(super) fn is_all(&self, extent: Extent) -> bool {
        extent.messages == self.queue.len()
    }

    /// Writes at most so many messages from the front as events, and says how far that went.
    pub(super) fn write(&self, messages_max: usize, out: &mut Vec<u8>) -> Extent {
        let mut extent = Extent::default();
        for (kind, content) in self.queue.iter().take(messages_max) {
            // A ping or pong that says nothing has no length on the wire.
            let is_bare = matches!(kind, EventKind::Ping | EventKind::Pong) && content.is_empty();
            let content = (!is_bare).then_some(content.as_slice());
            encode_event(
                Event {
                    kind: *kind,
                    content,
                },
                out,
            );
            extent.messages += 1;
            extent.bytes += content.map_or(0, <[u8]>::len);
        }
        extent
    }

    /// The backend was shown `shown` and took `taken` bytes of it: these go, with every message
    /// that they cover whole. False if nothing went, which brings a conversation no further.
    pub(super) fn take(&mut self, shown: Extent, taken: usize) -> bool {
        let mut left = Extent {
            messages: shown.messages,
            bytes: shown.bytes - taken,
        };
        let mut surplus = taken;
        while left.messages > 0
            && let Some((_, content)) = self.queue.front_mut()
        {
            if content.len() > surplus {
                content.drain(..surplus);
                break;
            }
            surplus -= content.len();
            self.queue.pop_front();
            left.messages -= 1;
        }
        self.bytes -= taken;
        self.offered = left;
        taken > 0 || left.messages < shown.messages
    }
}
