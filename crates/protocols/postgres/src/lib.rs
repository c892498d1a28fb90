//! PostgreSQL's protocol 3.0, as far as a client needs it that asks simple queries and hears
//! notifications.
//!
//! Source: PostgreSQL's documentation, chapter "Frontend/Backend Protocol". Owns the bytes of
//! messages. Never: sockets, passwords, the meaning of rows.

mod decode;
pub mod write;

pub use decode::{Auth, Decoder, Fault, Message, ServerError};
