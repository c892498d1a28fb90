//! A connection to NATS: where it is, who we are there, and what it says.
//!
//! Owns: URLs and credentials, the first words on a connection, the bytes that were read of it.
//! Never: subscriptions, JetStream, what a message means; threads.

mod address;
mod connect;
mod credentials;
mod incoming;

pub use address::{NatsUrlError, Target, targets};
pub use connect::{Door, ServerInfo};
pub use incoming::{Incoming, Unread};
