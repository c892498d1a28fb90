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
//! The client is written on this house's own HTTP/1 parser, which is fuzzed, keeps field names
//! as they were written, and bounds what it reads; tokio carries the bytes.

mod client;
mod connect;
mod exchange;
mod pool;
mod relay;
#[cfg(test)]
mod tests;
mod tls;
mod uplink;
mod wire;

pub use client::{Client, Deliver, Origin, OriginOptions, Ticket};
