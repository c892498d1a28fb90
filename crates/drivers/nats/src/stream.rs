//! What is asked of one channel's stream, and how far that is. See `streams.rs`.

use std::collections::VecDeque;

use throng_broker::{Draft, Ticket};

use crate::batch::{Known, Told};
use crate::flight::Wanted;
use crate::record::{Record, State};
use crate::walk::{Query, Walk};

/// Who looks.
#[derive(Debug)]
pub(crate) enum Purpose {
    Subscribe(Wanted),
    /// What a channel missed; the number tells it from a channel of that name before.
    Refill(u64),
    /// Whether it missed anything.
    Audit(u64),
    History(u8, Ticket),
}

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
    /// A message that only says where the stream stands is being stored. What is already known of
    /// the stream's history comes with it.
    Open(State, Option<Record>),
    /// Publications are being stored.
    Store(Option<State>, Vec<Told>),
    /// The first publication with the same key is on its way.
    Original,
    Walk(Box<Walk>),
}

pub(crate) struct Turn {
    pub(crate) ops: Vec<Op>,
    pub(crate) stage: Stage,
    pub(crate) tries: u32,
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
