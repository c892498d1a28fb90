//! The HTTP client to GRIP backends, on threads of its own.
//!
//! A shard hands in requests through a [`Client`] and gets a [`Ticket`] for each; what the
//! origin does comes back through the function that [`Origin::start`] was given. The ticket is
//! the shard's hand on the exchange: it grants bytes of the answer as the client takes them,
//! what follows a request goes through it, and dropping it ends the exchange.
//!
//! Bounds and what happens at them: requests that wait or run ([`OriginOptions::requests_max`]):
//! refused, with the request handed back. Bytes of an answer that were not granted: the origin is
//! not read. Heads of answers: refused as garbage. Idle connections: the oldest are closed.
//!
//! tokio carries the bytes; requests and answers are written and read by this house's own HTTP/1.
//! hyper was considered in its place, and these are the reasons against it:
//! - Field lines go through as they were sent, in their order and with their spelling, since a
//!   client may depend on both. hyper keeps them in a `HeaderMap`, which promises no order.
//! - Clients and origins are read by one parser. Two parsers that read a message differently are
//!   how requests are smuggled, and this one is fuzzed.
//! - An answer is read only as far as its client has granted bytes, and what follows a request or
//!   an upgrade shares that connection. That logic (`exchange`, `relay`, `uplink`), the pool and
//!   TLS would stay; hyper would replace little more than `wire`.

mod ask;
mod client;
mod connect;
mod credit;
mod exchange;
mod place;
mod pool;
mod relay;
mod shared;
mod test_target;
#[cfg(test)]
mod tests;
mod tls;
mod uplink;
mod wire;

pub use ask::{AskLimits, WholeAnswer};
pub use client::{Client, Origin, Ticket};
pub use place::Address;
pub use shared::{Deliver, OriginOptions};
