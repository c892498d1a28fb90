//! Commands that wait for Redis, and what the answer of each is for.

use throng_broker::Ticket;
use throng_remote::{Purpose, Wanted};
use throng_types::ChannelName;

/// Purpose of an answer.
#[derive(Debug)]
pub(crate) enum Flight {
    Publish {
        lane: u8,
        ticket: Ticket,
    },
    Look(Purpose, ChannelName),
    /// Proof that the subscription of a channel without history was taken.
    Settle(Wanted),
    Forget {
        lane: u8,
        ticket: Ticket,
    },
    Present {
        lane: u8,
        ticket: Ticket,
        with_members: bool,
    },
    /// Number of nodes that got a question.
    Asked(u8, u32),
    /// Whether there is a node of this name, and the question for it.
    Find(u8, u32, Box<str>, Vec<u8>),
    /// Whether the node of this name got a question.
    AskedOne(u8, u32, Box<str>),
    /// Whether the lease is renewed.
    Leased,
    /// A member's row was written or removed.
    Row,
    /// Names of all incarnations.
    Nodes,
    /// Whether an incarnation lives.
    Lives(String),
    /// Whether this node sweeps after an incarnation.
    MaySweep(String),
    /// Channels to sweep after an incarnation.
    Places(String),
    /// The server's line of replication.
    Line,
    /// Nothing follows its answer.
    Nothing,
}

/// A command without an answer.
pub(crate) struct Pending {
    pub(crate) flight: Flight,
    pub(crate) bytes: usize,
    pub(crate) since_ms: u64,
}
