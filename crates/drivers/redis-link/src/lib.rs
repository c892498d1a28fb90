//! Where a Redis is, for every driver that speaks to one.
//!
//! Never: a connection that lasts.

mod source;

pub use source::{RedisUrlError, Source};
