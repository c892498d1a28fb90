//! A connection to NATS for every driver that speaks to one: its first words, questions to
//! JetStream and their answers, messages as they come.
//!
//! Owns: a connection, the bytes of it that were read and not taken, pings and their answers.
//! Never: what a subject or a message means, streams and consumers; threads.

mod connect;
mod link;

pub use connect::Door;
pub use link::{ASKED_MAX, Incoming, Link};
pub use throng_nats_protocol::{NatsUrlError, Target, targets};
