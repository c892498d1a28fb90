//! A connection to Redis for every peer that speaks to one: where it is, who we are there, and
//! what it says.
//!
//! Bytes of an answer are bounded, whatever Redis claims. That is why the reader of answers is our
//! own: the parser of the crate `redis` (1.8.1) bounds nothing but depth. Of a text of 2 GiB that a
//! server announces it keeps what comes: 1,051 MB after 1,024 MiB. Here the same answer is refused
//! by its first line. Values and single lines are still that crate's.

mod answers;
mod link;
mod place;
pub mod value;

pub use answers::{Answers, command};
pub use link::{ANSWER_BYTES_MAX, RedisLink, RedisSource};
pub use place::{Place, RedisUrlError, Servers};
