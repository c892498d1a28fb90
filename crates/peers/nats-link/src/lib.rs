//! A connection to NATS, for broker and feed: the handshake, requests to JetStream and their
//! replies, messages as they come.
//!
//! Owns: a link, the bytes of it that were read and not taken, pings and their pongs. Never: the
//! meaning of a subject or a message, streams and consumers; sockets, clocks, files.

mod link;

pub use link::{ASKED_MAX, NatsLink};
pub use link::{CredentialsFile, Handshake};
pub use throng_nats_protocol::{NatsUrlError, ServerAddress, targets};
