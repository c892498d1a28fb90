//! HPACK (RFC 7541): blocks of fields to fields, and back.
//!
//! What we write has no state: fields of the static table and literals that enter no table, so a
//! block is the same bytes on every connection. What we read has a table only until the peer has
//! heard that we want none.

mod decode;
mod encode;
mod fixed;
mod huffman;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Decoder, ENTRY_BYTES, NotHpack};
pub(crate) use encode::{NO_TABLE, encode_indexed, is_of_connection};
pub use encode::{encode_field, encode_status};
