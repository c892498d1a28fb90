//! The NATS client protocol (docs.nats.io, "NATS Protocol"; headers: ADR-4), for every driver that
//! speaks to NATS.
//!
//! [`Decoder`] gives what a server says, [`mod@write`] has what a client says. [`targets`] reads
//! where servers are, [`ServerInfo`] what a server says first, and [`introduce()`] answers it with
//! who we are. [`answer()`] reads what JetStream answers, [`MessageMetadata`] what it says of a
//! message beside it. Never: sockets, time, files, requests to JetStream, what a message means.

mod address;
mod credentials;
mod decode;
mod introduce;
mod jetstream;
pub mod write;

pub use address::{NatsUrlError, ServerAddress, targets};
pub use credentials::Credentials;
pub use decode::{DecodeError, Decoder, Headers, Limits, Message, Op};
pub use introduce::{ServerInfo, introduce};
pub use jetstream::{ApiError, MessageMetadata, answer};
