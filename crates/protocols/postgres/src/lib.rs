//! PostgreSQL's protocol 3.0, as far as a client needs it that asks simple queries and hears
//! notifications.
//!
//! Source: PostgreSQL's documentation, chapter "Frontend/Backend Protocol". Owns the bytes of
//! messages. Never: sockets, passwords, the meaning of rows.
//!
//! Why it is our own: `postgres-protocol` 0.6.12 brings 28 packages, and no feature leaves out
//! `sha2` and `hmac`, which `deny.toml` bans because aws-lc-rs is the one crypto provider, or
//! `rand`, which a pure crate may not have. Five bytes that announce a row make its parser reserve
//! a gigabyte. Its SCRAM has SHA-256 alone, and Kafka's users have SHA-512 too.

mod decode;
pub mod write;

pub use decode::{Auth, Decoder, Message, MessageError, ServerError};
