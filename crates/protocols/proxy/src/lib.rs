//! Clients behind proxies, as far as proxies that are trusted tell.
//!
//! The PROXY protocol, versions 1 and 2, in front of a connection's bytes; `X-Forwarded-For` in its
//! requests; blocks of addresses. Owns nothing. Never: decides what an address may do.
//!
//! Invariants
//! - What a header says does not depend on how its bytes were cut.
//! - Nobody is believed who is not in a block of trusted addresses.

mod forwarded;
mod header;

pub use forwarded::{Block, client_of, last_address};
pub use header::{HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, parse};
