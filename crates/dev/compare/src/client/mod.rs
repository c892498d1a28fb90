//! The one client of every server: thousands of subscribers and a few publishers on one epoll
//! thread.
//!
//! A subscriber costs it a socket and a frame decoder, and every frame is read, checked and
//! counted. It is the same for each peer, so what it costs itself cancels out of comparisons.

mod acks;
mod connect;
mod dialect;
mod events;
mod flow;
mod payload;
mod publisher;
mod reactor;
mod subscriber;
mod tally;
mod timer;

pub(crate) use dialect::Dialect;
pub(crate) use flow::{Flow, Load, Names, Pace};
pub(crate) use payload::PAYLOAD_BYTES;
pub(crate) use reactor::Client;

/// Publishing connections at the most.
const PUBLISHERS_MAX: usize = 8;

/// Descriptors that a process needs beside those of its subscribers: publishers, listeners, logs,
/// libraries. Generous, because servers differ.
pub(crate) const DESCRIPTORS_BESIDE: u64 = 100;
