//! The queues between one shard and the peer. Questions and answers between nodes are bytes that
//! only those who ask understand.
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
use std::sync::{Arc, Mutex};

use throng_broker::{Moving, Reply, Request, Ticket};
use throng_types::{ChannelName, Publication, lock};

/// Requests of one shard without an answer. Queue: `to the broker`.
pub const REQUESTS_MAX: usize = 8192;
/// Bytes of their drafts. Queue: `to the broker`.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;
/// Replies and deliveries that may wait for one shard. Queue: `from the broker`.
pub const REPLIES_MAX: usize = 32_768;
/// Their bytes. Queue: `from the broker`.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

/// Questions without all of their answers. Queue: `questions to nodes`.
pub const QUESTIONS_MAX: usize = 1024;

/// Those of them that clients have caused, so that operators' questions always have places. Queue:
/// `questions to nodes`.
pub const CLIENTS_QUESTIONS_MAX: usize = 64;

/// The asking side on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCaller {
    /// Node, shard and ticket of the asker.
    pub(crate) who: Box<str>,
    /// Number of the peer by which the question came.
    pub(crate) way: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Another node asks; [`crate::Nodes::answer`] is to follow.
    Asked(NodeCaller, Vec<u8>),
    /// Every node that was asked has answered the question with this ticket; `None` if one has not,
    /// or could not be asked.
    Answered(u32, Option<Vec<Vec<u8>>>),
    /// Word of some node to all, this one included. It may be lost.
    Told(Vec<u8>),
}

/// Command of a shard for other nodes.
pub enum ToNodes {
    /// The name of this node, by which others ask it alone.
    Named(Box<str>),
    /// Question to all nodes, with a ticket of the shard's.
    Ask(u32, Vec<u8>),
    /// Question to the node of this name for a client. No answer comes if there is none.
    AskOne(u32, Box<str>, Vec<u8>),
    Answer(NodeCaller, Vec<u8>),
    /// Word to all nodes, this one included; lost without a connection.
    Tell(Vec<u8>),
}

/// Wakes a shard, so that it looks around.
pub type WakeShard = Box<dyn Fn() + Send + Sync>;

/// Calls a [`crate::BrokerPeer`], so that it looks into its queues. The peer ends with it.
pub type WakePeer = Arc<dyn Fn() + Send + Sync>;

/// Names a request of a shard, which gets the reply.
#[derive(Clone, Copy, Debug)]
pub struct RequestId {
    pub shard: u8,
    pub ticket: Ticket,
}

/// Command of a shard for the peer.
pub(crate) enum ShardCommand {
    Request(Request),
    /// To know what becomes of it where one process hands over to another.
    Move(Moving),
}

/// Message of the peer to a shard; all of them have one order.
#[derive(Debug)]
pub(crate) enum ForShard {
    Reply(Reply),
    Delivery(Arc<Publication>),
    Broken(ChannelName),
    /// The cut of this number was made here among the deliveries.
    Cut(u64),
}

#[derive(Default)]
struct Replies {
    /// Queue: `from the broker`.
    queue: VecDeque<ForShard>,
    bytes: usize,
}

/// The queues between one shard and the peer.
pub(crate) struct ShardQueues {
    /// Bound: [`REQUESTS_MAX`]; a leave or a quit has room, of which there is one for each
    /// subscribe, and so has what is handed over, of which there are two for each channel.
    requests: Mutex<VecDeque<ShardCommand>>,
    replies: Mutex<Replies>,
    /// Bound: [`QUESTIONS_MAX`] questions, an answer to each of others', and the words of a tenth
    /// of a second.
    to_nodes: Mutex<VecDeque<ToNodes>>,
    /// Bound: [`QUESTIONS_MAX`] questions of others, and an answer to each of ours.
    from_nodes: Mutex<VecDeque<NodeEvent>>,
    is_open: AtomicBool,
    ring: Arc<dyn Fn() + Send + Sync>,
}

fn cost(item: &ForShard) -> usize {
    let more = match item {
        ForShard::Delivery(publication) => publication.cost_bytes(),
        _ => 0,
    };
    size_of::<ForShard>() + more
}

impl ShardQueues {
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

    pub(crate) fn push(&self, command: ShardCommand) {
        lock(&self.requests).push_back(command);
    }

    /// Requests that the peer has not taken.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.requests).len()
    }

    /// Takes all that the peer has left. True if it had no room for more.
    pub(crate) fn take(&self, into: &mut VecDeque<ForShard>) -> bool {
        let mut replies = lock(&self.replies);
        let was_full = replies.queue.len() >= REPLIES_MAX || replies.bytes >= REPLY_BYTES_MAX;
        replies.bytes = 0;
        std::mem::swap(into, &mut replies.queue);
        was_full
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Takes up to so many requests, in order.
    pub(crate) fn take_requests(&self, most: usize, into: &mut Vec<ShardCommand>) {
        let mut requests = lock(&self.requests);
        let count = most.min(requests.len());
        into.extend(requests.drain(..count));
    }

    /// Leaves something; the shard looks for it when it is woken.
    pub(crate) fn leave(&self, item: ForShard) {
        let mut replies = lock(&self.replies);
        replies.bytes += cost(&item);
        replies.queue.push_back(item);
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
