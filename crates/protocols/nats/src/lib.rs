//! The NATS client protocol (docs.nats.io, "NATS Protocol"; headers: ADR-4).
//!
//! [`decode`] reads what a server says, [`mod@write`] has what a client says. Never: sockets,
//! JetStream, what a message means.

mod decode;
pub mod write;

pub use decode::{DecodeError, Headers, Limits, Op, decode};
