//! A connection to Redis for every driver that speaks to one: where it is, who we are there, and
//! what it says.
//!
//! Bytes of an answer are bounded, whatever Redis claims.

mod answers;
mod command;
mod link;
mod place;
mod source;

pub use answers::Answers;
pub use command::command;
pub use link::{ANSWER_BYTES_MAX, Link};
pub use place::Place;
pub use source::{RedisUrlError, Source};
