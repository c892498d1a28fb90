//! Events from Appwrite's Redis, and identities of clients from its HTTP API.
//!
//! Owns: the threads that wait for those two, the order of events. Never: connections of clients,
//! or what an event means.
//!
//! [`Feed`] numbers events and hands them to every shard through its [`Inlet`]; [`Subscriber`]
//! fills it from Redis, [`Feed::offer`] from the server API. [`AppwriteApi`] answers
//! [`Lookup`](throng_gateway_appwrite::Lookup)s through the same inlets, and has presences written.
//! All threads end when the shards have.

mod api;
mod feed;
mod meter;
mod sampled;
mod standstill;
mod subscriber;

pub use api::AppwriteApi;
pub use feed::{Feed, Inlet, Offered};
pub use meter::Meter;
pub use subscriber::Subscriber;
pub use throng_appwrite_api::DirectoryOptions;
pub use throng_backend::Address;
pub use throng_redis_link::RedisUrlError;
