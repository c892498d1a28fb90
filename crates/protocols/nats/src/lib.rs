//! The NATS client protocol (docs.nats.io, "NATS Protocol"; headers: ADR-4).
//!
//! [`decode`] reads what a server says, [`mod@write`] has what a client says, [`Delivery`] what
//! JetStream says of a message beside it. Never: sockets, requests to JetStream, what a message
//! means.

mod decode;
mod delivery;
pub mod write;

pub use decode::{DecodeError, Headers, Limits, Op, decode};
pub use delivery::Delivery;
