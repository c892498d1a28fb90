//! Public keys for tokens, fetched from their issuer (JWKS, RFC 7517).
//!
//! Owns: one thread for each address, and the keys that came last. Never: decides when to fetch or
//! what a key is good for; `throng-auth` does, without a clock.
//!
//! A shard reads the keys when it checks a token, and may say that one is missing: it never waits.
//!
//! Invariants
//! - An answer that is late, too long, not a set, or has no usable key changes nothing: the keys
//!   from before stay, however long that lasts.
//! - The thread ends with the last who could use the keys.

mod fetch;
mod keys;

pub use keys::{Fetched, JwksOptions};
