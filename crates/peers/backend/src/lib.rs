//! Backends by HTTP and gRPC: what GRIP's and Centrifugo's proxies ask, where keys are fetched, and
//! accounts looked up.
//!
//! A [`Backend`] is a peer: [`Call`]s come in, [`Reply`]s go out, and an exchange is a small state
//! machine over a link. How many exchanges there may be is for the caller to count; each holds the
//! caller's token until it ends. Calls of gRPC share links, and are in `grpc.rs`.
//!
//! Bounds and rules for "full"
//! - An answer whose bytes were not granted: its link is not read. Queue: `from a peer`.
//! - Bytes behind a request, [`UPLINK_PIECES_MAX`] pieces: the exchange fails.
//! - The head of an answer, [`BackendLimits::head_bytes_max`]: the exchange fails.
//! - Idle links, [`BackendLimits::idle_max`] and `idle_all_max`: the oldest are closed.
//!
//! Requests and answers are written and read by this house's own HTTP/1, and not by hyper:
//! - Field lines go through as they were sent, in their order and with their spelling, since a
//!   client may depend on both. hyper keeps them in a `HeaderMap`, which promises no order.
//! - Clients and backends are read by one parser. Two parsers that read a message differently are
//!   how requests are smuggled, and this one is fuzzed.

mod call;
mod client;
mod exchange;
mod grpc;
mod peer;
mod place;
mod pool;
mod test_target;
#[cfg(test)]
mod tests;
mod uplink;
mod wire;

pub use call::{AnswerTo, AskLimits, BackendLimits, Call, Reply, TicketId, WholeAnswer};
pub use client::{Client, ClientPeer, Requests};
pub use peer::Backend;
pub use place::Address;
pub use uplink::UPLINK_PIECES_MAX;
