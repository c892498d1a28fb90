//! What is asked of one channel's stream, and how far that is. See `streams.rs`.

use std::collections::VecDeque;

use throng_broker::{Draft, Ticket};
use throng_remote::{Purpose, Query};

use crate::batch::{Known, Told};
use crate::record::{Record, State};
use crate::walk::Walk;

/// What is asked of a stream.
#[derive(Debug)]
pub(crate) enum Op {
    Publish(u8, Ticket, Box<Draft>),
    Look(Purpose, Query),
    Forget(u8, Ticket),
}

pub(crate) enum Stage {
    /// The newest message is on its way.
    Last,
    /// The seeds of its stream are on their way: the channel has no message.
    Seeds,
    /// A message that only says where the stream stands is being stored. What is already known of
    /// the stream's history comes with it.
    Open(State, Option<Record>),
    /// The key of the turn's publication is being claimed.
    Claim,
    /// What an earlier publication with that key has left is on its way.
    KeyRow,
    /// The first message behind this sequence is on its way.
    After(u64),
    /// Publications are being stored.
    Store(State, Vec<Told>),
    Walk(Box<Walk>),
}

pub(crate) struct Turn {
    pub(crate) ops: Vec<Op>,
    pub(crate) stage: Stage,
    pub(crate) tries: u32,
    pub(crate) key: Claimed,
}

/// How far a publication with an idempotency key is. See `keys.rs`.
#[derive(Default)]
pub(crate) struct Claimed {
    /// The newest row of the key that this turn has written or read; 0 without one.
    pub(crate) row: u64,
    /// The row says from where this turn's publication is to be stored.
    pub(crate) is_ours: bool,
    /// Somebody else had claimed it before, and may have published.
    pub(crate) is_second: bool,
}

/// What is asked of a channel's stream.
#[derive(Default)]
pub(crate) struct Stream {
    /// Bound: the requests of the lanes.
    pub(crate) queue: VecDeque<Op>,
    pub(crate) turn: Option<Turn>,
    pub(crate) known: Option<Known>,
    pub(crate) is_idle: bool,
    pub(crate) used_at_ms: u64,
}
