//! The Protobuf form of the client protocol.
//!
//! Owns: framing, the encoding of what the server says, the decoding of what a client says.
//! Written by hand, because requests borrow from their frame and one publication is encoded
//! straight into the frame that all subscribers share.
//!
//! Facts come from the protocol's public schema (`client.proto`) and from "Encoding" in Protobuf's
//! documentation. Every message, also a single one, stands behind its length; several share a
//! frame. The server's ping, and the answer to it, is an empty message: one byte `00`.
//!
//! Invariants
//! - A length is compared with what has arrived; nothing is reserved for it.
//! - Fields that hold their default are left out; fields that are not known are passed over.

mod command;
mod reply;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use command::{emulation, next};
pub(crate) use reply::{append_push, append_reply};

/// The server's ping, and the client's answer to it.
pub(crate) const PING: &[u8] = &[0];
