//! A connection to NATS, for broker and feed: the handshake, requests to JetStream and their
//! replies, messages as they come.
//!
//! Owns: a link, the bytes of it that were read and not taken, pings and their pongs. Never: the
//! meaning of a subject or a message, streams and consumers; sockets, clocks, files.

mod connect;
mod link;

pub use connect::{CredentialsFile, Door};
pub use link::{ASKED_MAX, Link};
pub use throng_nats_protocol::{NatsUrlError, Target, targets};
