//! History on disk: one folder, one log in segments for all shards, one thread that writes it.
//!
//! Owns the folder's files, the thread, and the queues to it. What records say, and which positions
//! hold after a crash, is argued at the head of `core/broker/src/store.rs`.
//!
//! Never: blocks a shard; reads a segment after the start; writes to a file again that the kernel
//! once refused to write or sync.
//!
//! Invariants
//! - Before a process gives a position, the head of a segment of its own is on the disk.
//! - A segment goes only when a later copy of everything is on the disk.
//! - One process at a time has the folder: it holds a lock on the file `lock`.

mod files;
mod journal;
mod lane;
mod open;
mod options;
mod place;
mod rounds;
mod writer;

pub use journal::Journal;
pub use open::{OpenError, Opened, await_takeover, open};
pub use options::Options;

/// Callback that wakes one shard.
pub type Ring = Box<dyn Fn() + Send + Sync>;
