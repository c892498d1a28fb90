//! The server: shards, sessions and hubs put together, and the handle that starts,
//! observes and ends them.
//!
//! Who knows whom: the engine calls the shard's app, which hands events to
//! sessions, carries their orders to its hub, and the hub's deliveries back to the
//! engine. Shards meet only through mailboxes. Nothing here parses a byte.

mod appwrite;
mod assembly;
mod broker;
mod build;
mod drain;
mod gather;
mod grip;
mod handle;
mod listeners;
mod observe;
mod pages;
mod peers;
mod shard;
mod sink;
mod stats;
mod tell;

pub use assembly::Assembly;
pub use build::{Options, StartError, start};
pub use handle::{Handle, ServeError};
pub use shard::{Mail, ShardApp};
pub use stats::Capacity;
