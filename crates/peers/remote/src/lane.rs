//! The queues between one shard and the peer.
//!
//! Rule for "full": a shard has at most [`REQUESTS_MAX`] requests and [`REQUEST_BYTES_MAX`] of
//! drafts without an answer; one more is refused as busy. While [`REPLIES_MAX`] or
//! [`REPLY_BYTES_MAX`] wait for a shard, the peer takes nothing more from the broker.
//!
//! Never: waits. A lock is held for as long as it takes to push or to swap a queue.

#![expect(
    clippy::disallowed_types,
    reason = "shards and the peer have threads of their own"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use throng_broker::{Moving, Reply, Request};

use crate::nodes::{NodeEvent, QUESTIONS_MAX, ToNodes};

/// Requests of one shard without an answer. Queue: `to the broker`.
pub const REQUESTS_MAX: usize = 8192;
/// Bytes of their drafts. Queue: `to the broker`.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;
/// Replies and deliveries that may wait for one shard. Queue: `from the broker`.
pub const REPLIES_MAX: usize = 32_768;
/// Their bytes. Queue: `from the broker`.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

/// Wakes a shard, so that it looks around.
pub type Ring = Box<dyn Fn() + Send + Sync>;

/// Calls a [`crate::BrokerPeer`], so that it looks into its lanes. The peer ends with it.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Wish of a shard for the peer.
pub(crate) enum Wish {
    /// Something of the broker.
    Request(Request),
    /// To know what becomes of it where one process hands over to another.
    Move(Moving),
}

/// News of the peer for a shard.
pub(crate) enum Left {
    Reply(Reply),
    /// The cut of this number was made here among the deliveries.
    Cut(u64),
}

#[derive(Default)]
struct Replies {
    /// Queue: `from the broker`.
    queue: VecDeque<Left>,
    bytes: usize,
}

/// The queues between one shard and the peer.
pub(crate) struct Lane {
    /// Bound: [`REQUESTS_MAX`]; a leave or a quit has room, of which there is one for each
    /// subscribe, and so has what is handed over, of which there are two for each channel.
    requests: Mutex<VecDeque<Wish>>,
    replies: Mutex<Replies>,
    /// Bound: [`QUESTIONS_MAX`] questions, and an answer to each of others'.
    to_nodes: Mutex<VecDeque<ToNodes>>,
    /// Bound: [`QUESTIONS_MAX`] questions of others, and an answer to each of ours.
    from_nodes: Mutex<VecDeque<NodeEvent>>,
    is_open: AtomicBool,
    ring: Arc<dyn Fn() + Send + Sync>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a reply keeps.
fn cost(reply: &Reply) -> usize {
    let more = match reply {
        Reply::Delivery(publication) => publication.cost_bytes(),
        _ => 0,
    };
    size_of::<Reply>() + more
}

impl Lane {
    pub(crate) fn new(ring: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            requests: Mutex::default(),
            replies: Mutex::default(),
            to_nodes: Mutex::default(),
            from_nodes: Mutex::default(),
            is_open: AtomicBool::new(true),
            ring,
        }
    }

    pub(crate) fn push(&self, wish: Wish) {
        lock(&self.requests).push_back(wish);
    }

    /// Requests that the peer has not taken.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.requests).len()
    }

    /// Takes all that the peer has left. True if it had no room for more.
    pub(crate) fn take(&self, into: &mut VecDeque<Left>) -> bool {
        let mut replies = lock(&self.replies);
        let was_full = replies.queue.len() >= REPLIES_MAX || replies.bytes >= REPLY_BYTES_MAX;
        replies.bytes = 0;
        std::mem::swap(into, &mut replies.queue);
        was_full
    }

    /// The shard has ended.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Takes up to so many requests, in order.
    pub(crate) fn take_requests(&self, most: usize, into: &mut Vec<Wish>) {
        let mut requests = lock(&self.requests);
        let count = most.min(requests.len());
        into.extend(requests.drain(..count));
    }

    /// Leaves a reply; the shard looks for it when it is rung.
    pub(crate) fn leave(&self, reply: Reply) {
        let mut replies = lock(&self.replies);
        replies.bytes += cost(&reply);
        replies.queue.push_back(Left::Reply(reply));
    }

    /// Marks the place of a cut.
    pub(crate) fn cut(&self, cut: u64) {
        lock(&self.replies).queue.push_back(Left::Cut(cut));
    }

    /// Whether nothing waits for the shard.
    pub(crate) fn is_silent(&self) -> bool {
        lock(&self.replies).queue.is_empty()
    }

    /// Whether the peer may leave more.
    pub(crate) fn has_room(&self) -> bool {
        let replies = lock(&self.replies);
        replies.queue.len() < REPLIES_MAX && replies.bytes < REPLY_BYTES_MAX
    }

    pub(crate) fn tell_nodes(&self, wanted: ToNodes) {
        lock(&self.to_nodes).push_back(wanted);
    }

    pub(crate) fn next_to_nodes(&self) -> Option<ToNodes> {
        lock(&self.to_nodes).pop_front()
    }

    /// Lets the shard know of other nodes. What is one too many is left out: who asked hears
    /// nothing, and knows that.
    pub(crate) fn tell_shard(&self, event: NodeEvent) {
        let mut events = lock(&self.from_nodes);
        if events.len() < QUESTIONS_MAX || matches!(event, NodeEvent::Answered(..)) {
            events.push_back(event);
        }
    }

    pub(crate) fn next_from_nodes(&self) -> Option<NodeEvent> {
        lock(&self.from_nodes).pop_front()
    }

    pub(crate) fn ring(&self) {
        (self.ring)();
    }
}
