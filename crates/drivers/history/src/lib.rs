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
mod hooks;
mod lane;
mod open;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use throng_broker::NamespaceOptions;
use throng_metrics::Counters;

pub use hooks::HookFile;
pub use open::{OpenError, OpenedStore, await_takeover, open};
pub use writer::Journal;

pub type ShardWaker = Box<dyn Fn() + Send + Sync>;

pub struct Options {
    pub path: PathBuf,
    /// After how many milliseconds at most what was written is on the disk; 0 for each time.
    pub sync_ms: u64,
    /// Publications are refused while they cannot be written.
    pub refuses: bool,
    pub shards: u8,
    /// A number that no process has had, for epochs after a crash.
    pub nonce: u32,
    /// Seeds the hash of channel names.
    pub hash_seed: u64,
    pub unix_ms: u64,
    /// Namespaces, which decide what channels retain.
    pub namespaces: Arc<NamespaceOptions>,
    pub counters: Arc<Counters>,
}
