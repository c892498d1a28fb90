//! What a store is opened with.

use std::path::PathBuf;
use std::sync::Arc;

use throng_broker::Namespaces;
use throng_metrics::Counters;

/// What a store is opened with.
pub struct Options {
    /// The folder.
    pub path: PathBuf,
    /// After how many milliseconds at most what was written is on the disk; 0 for each time.
    pub sync_ms: u64,
    /// Publications are refused while they cannot be written.
    pub refuses: bool,
    /// How many shards there are.
    pub shards: u8,
    /// A number that no process has had, for epochs after a crash.
    pub nonce: u32,
    /// Seeds the hash of channel names.
    pub hash_seed: u64,
    /// Unix time, in milliseconds.
    pub unix_ms: u64,
    /// What channels keep.
    pub namespaces: Arc<Namespaces>,
    /// The writer's own.
    pub counters: Arc<Counters>,
}
