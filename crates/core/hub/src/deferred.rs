//! Commands of a connection for a channel that wait while its subscribe waits for the broker.
//!
//! A client may send subscribe, unsubscribe and subscribe together. The first is answered
//! when the broker has replied; the others must neither overtake nor cancel it, so they
//! wait here and are carried out, in order, after that answer. When the server ends the
//! subscription meanwhile, every subscribe that was sent before ends with it.
//!
//! Rule for "full": a command above the limit is refused as [`Refusal::Busy`].
//!
//! Invariants
//! - Waiting commands were sent after the subscribe that waits for the
//!   broker, and no later one has been carried out.
//! - No command waits for a connection that has gone.

use std::collections::{BTreeMap, VecDeque};

use throng_broker::Refusal;
use throng_types::ConnId;

use crate::{Answer, Command, ReplyTo, Sink};

/// Commands of one connection that may wait behind a subscribe. Queue: `behind a subscribe`.
const DEFERRED_MAX: usize = 16;

/// A command that waits.
struct Later {
    command: Command,
    /// Set for a subscribe that was cancelled while it waited.
    is_cancelled: bool,
}

/// Waiting commands, and those that may go on.
#[derive(Default)]
pub(crate) struct Deferred {
    /// By connection and channel. Bound: as many as there are requests without a reply.
    waiting: BTreeMap<(ConnId, u32), VecDeque<Later>>,
    /// Their subscribe has been answered. Bound: as those that wait; empty between two calls.
    ready: VecDeque<Later>,
}

impl Deferred {
    /// Whether a connection's commands for a channel must wait here.
    pub(crate) fn has(&self, conn: ConnId, channel: u32) -> bool {
        self.waiting.contains_key(&(conn, channel))
    }

    /// Queues a command behind the others of its connection for the channel.
    pub(crate) fn push(
        &mut self,
        conn: ConnId,
        channel: u32,
        command: Command,
        sink: &mut impl Sink,
    ) {
        let behind = self.waiting.entry((conn, channel)).or_default();
        if behind.len() < DEFERRED_MAX {
            behind.push_back(Later {
                command,
                is_cancelled: false,
            });
        } else {
            refuse(command, Refusal::Busy, sink);
        }
    }

    /// Cancels all subscribes of a connection that wait for a channel; true if there are any.
    pub(crate) fn cancel(&mut self, conn: ConnId, channel: u32) -> bool {
        let behind = self.waiting.get_mut(&(conn, channel));
        let mut any = false;
        for later in behind.into_iter().flatten() {
            if matches!(later.command, Command::Subscribe { .. }) {
                any |= !later.is_cancelled;
                later.is_cancelled = true;
            }
        }
        any
    }

    /// Makes commands wait for a cancelled subscribe: its refusal is still to come, and the
    /// connection's later commands for the channel wait for that.
    pub(crate) fn hold(&mut self, conn: ConnId, channel: u32) {
        self.waiting.entry((conn, channel)).or_default();
    }

    /// Makes waiting commands ready after their subscribe was answered.
    pub(crate) fn answered(&mut self, conn: ConnId, channel: u32) {
        if !self.waiting.is_empty() {
            let behind = self.waiting.remove(&(conn, channel));
            self.ready.extend(behind.into_iter().flatten());
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next ready command. Refuses those that were cancelled.
    pub(crate) fn next_ready(&mut self, sink: &mut impl Sink) -> Option<Command> {
        loop {
            let later = self.ready.pop_front()?;
            if !later.is_cancelled {
                return Some(later.command);
            }
            refuse(later.command, Refusal::Cancelled, sink);
        }
    }

    /// Drops the commands of a connection that has gone.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|(waiting, _), _| *waiting != conn);
        }
    }
}

fn refuse(command: Command, refusal: Refusal, sink: &mut impl Sink) {
    match command {
        Command::Subscribe {
            reply_to, channel, ..
        } => {
            let result = Err(refusal);
            sink.answer(reply_to, Answer::Subscribed { channel, result });
        }
        Command::Unsubscribe {
            conn,
            channel,
            token: Some(token),
        } => {
            let result = Err(refusal);
            let answer = Answer::Unsubscribed { channel, result };
            sink.answer(ReplyTo::new(conn, token), answer);
        }
        _ => debug_assert!(false, "no other command waits"),
    }
}
