//! The one client of every server: thousands of subscribers and a few publishers on one epoll
//! thread.
//!
//! A subscriber costs it a socket and a frame decoder, and every frame is read, checked and
//! counted. It is the same for each peer, so what it costs itself cancels out of comparisons.
//!
//! It is not `throng bench`, which is an open loop: that one publishes when a publication is due,
//! whatever became of those before. Most figures here come from closed loops (a publication leaves
//! when the one before has been read by all; connections come as fast as the server takes them),
//! and they stay comparable from version to version. The wire is read by the same `throng_client`.

mod dialect;
mod flow;
mod link;
mod payload;
mod publisher;
mod reactor;
mod subscriber;

pub(crate) use dialect::Dialect;
pub(crate) use flow::{Flow, Load, Names, Pace};
pub(crate) use payload::PAYLOAD_BYTES;
pub(crate) use reactor::Client;

const PUBLISHERS_MAX: usize = 8;

/// Descriptors that a process needs beside those of its subscribers: publishers, listeners, logs,
/// libraries. Generous, because servers differ.
pub(crate) const DESCRIPTORS_BESIDE: u64 = 100;
