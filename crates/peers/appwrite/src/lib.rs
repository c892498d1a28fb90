//! Appwrite as a peer: events of its Redis, and its HTTP API, which says who a user is and keeps
//! presences.
//!
//! Owns: the order of events, which question comes next and how many are asked at the same time,
//! the requests of one question and the meaning of their answers, the cache. Never: sockets, HTTP,
//! clocks, threads.
//!
//! [`AppwritePeer`] is the peer: [`Call`]s come in, [`Reply`]s go out. Its task hears the events,
//! its `EventFeed` numbers them. `Directory` queues look-ups; an `Inquiry` is one of them under
//! way, which asks and gets answers until it has `Outcome`. `Known` remembers answers, and who
//! has changed since. `Presences` queues calls that write and delete presences.

mod api;
mod cache;
mod changes;
mod client;
mod directory;
mod feed;
mod identify;
mod peer;
mod presences;
mod sampled;
mod subscriber;

pub use client::ApiOptions;
pub use directory::DirectoryOptions;
pub use feed::{Call, Offers, Reply, Stood};
pub use peer::{AppwriteOptions, AppwritePeer};
pub use throng_backend::Address;
pub use throng_redis_link::{RedisSource, RedisUrlError};
