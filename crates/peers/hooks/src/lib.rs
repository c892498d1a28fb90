//! Webhooks: tells HTTP servers what happens in channels.
//!
//! [`HooksClient`] sends its requests through a [`throng_backend::ClientPeer`]. For each webhook it
//! has a table of states (whether a channel is occupied, a user is there) with what the receiver
//! was told, and a queue of events in the order in which they are sent: in batches, one under way
//! at a time.
//!
//! Invariants
//! - `told` of a state is what the receiver knows once it has the whole queue, or unknown.
//! - A state that differs from `told` has a time at which it is due. If it still differs then, it
//!   is queued.
//! - With a [`throng_broker::HookJournal`] every change of queue and `told` is written before a
//!   request carries it. The next process goes on from there: a state that was told and does not
//!   come again within the time to settle is ended.
//!
//! So a receiver that answers is told every state that lasts, and of each state last what is true.
//! A batch without an answer is sent again, so events may come twice.
//!
//! With other nodes one of them tells the states of all, see `nodes.rs`; the others know what
//! holds, and as far as they hear it, what was told. What nobody knows is told again.
//!
//! Connections are no states, for a node has too many to tell all others: the node that has one
//! tells its begin and its end, and that it lives itself is a state. Who is connected to a node
//! that does not live any more is not connected.
//!
//! Bounds and rules for "full"
//! - Queue of a receiver, and all events on their way here, [`QUEUE_BYTES_MAX`] each: states wait
//!   in the table and are always let in; other events are left out and counted. Queue: `webhooks`.
//! - Table: the states that hold on any node, and those that were told.
//! - Events that are no states, nor of connections, and older than [`AGE_MAX_MS`] are left out at a
//!   failure, and counted.
//!
//! Never: files, sockets, clocks.

mod batch;
mod client;
mod nodes;
mod options;
mod receiver;
#[cfg(test)]
mod tests;

pub use client::{HookCall, HookIntake, HookVoice, HooksClient, backend_limits};
pub use nodes::HookNode;
pub use options::{HookFilter, HookScope, StandardKey, Webhook};
pub use receiver::{AGE_MAX_MS, QUEUE_BYTES_MAX};
