//! Webhooks: tells HTTP servers what happens in channels.
//!
//! [`HooksClient`] asks through a [`throng_backend::ClientPeer`]. For each receiver it has a table
//! of states (whether a channel is occupied, a user is there) with what the receiver was told, and
//! a queue of events in the order in which they are told, in batches, one under way at a time.
//!
//! Invariants
//! - `told` of a state is what a receiver knows that has the whole queue.
//! - A state that differs from `told` is due; once it is due and still differs, it is queued.
//! - With a [`throng_broker::HookJournal`] every change of queue and `told` is written before a
//!   request has it. Whoever reads that goes on from there: a state that was told and does not
//!   come again is ended.
//!
//! So a receiver that answers gets every state that lasts and, behind all others, the one that
//! holds; a batch without an answer comes again, so events may come twice.
//!
//! Bounds and rules for "full"
//! - Queue of a receiver, [`QUEUE_BYTES_MAX`]: states wait in the table, other events are left
//!   out and counted. Queue: `webhooks`.
//! - Table: the states that hold, and those that were told.
//! - Events that are no states and older than [`AGE_MAX_MS`] are left out at a failure, and
//!   counted.
//!
//! Never: files, sockets, clocks.

mod batch;
mod client;
mod options;
mod receiver;
#[cfg(test)]
mod tests;

pub use client::{HookCall, HookIntake, HooksClient, backend_limits};
pub use options::{HookFilter, HookScope, StandardKey, Webhook};
pub use receiver::{AGE_MAX_MS, QUEUE_BYTES_MAX};
