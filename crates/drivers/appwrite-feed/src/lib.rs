//! What comes from Appwrite: events from its Redis, and who a client is from its HTTP API.
//!
//! Owns: the threads that wait for those two, the order of events, the cache of answers. Never:
//! connections of clients, or what an event means.
//!
//! [`Feed`] numbers events and hands them to every shard through its [`Inlet`]; [`Subscriber`]
//! fills it from Redis, [`Feed::offer`] from the server API. [`Directory`] answers
//! [`Lookup`](throng_gateway_appwrite::Lookup)s through the same inlets, and [`Presences`] has
//! presences written. All threads end when the
//! shards have.

mod account;
mod cache;
mod changes;
mod directory;
mod feed;
mod known;
mod meter;
mod presences;
mod question;
mod sampled;
mod standstill;
mod subscriber;
mod work;

pub use account::{AccountApi, ApiError, UrlError};
pub use directory::{Directory, DirectoryOptions};
pub use feed::{Feed, Inlet, Offered};
pub use meter::Meter;
pub use presences::Presences;
pub use subscriber::Subscriber;
pub use throng_redis_link::RedisUrlError;
