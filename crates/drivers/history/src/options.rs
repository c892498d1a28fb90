//! Options with which a store is opened.

use std::path::PathBuf;
use std::sync::Arc;

use throng_broker::Namespaces;
use throng_metrics::Counters;

/// Options with which a store is opened.
pub struct Options {
    pub path: PathBuf,
    /// After how many milliseconds at most what was written is on the disk; 0 for each time.
    pub sync_ms: u64,
    /// Publications are refused while they cannot be written.
    pub refuses: bool,
    /// Number of shards of this server.
    pub shards: u8,
    /// A number that no process has had, for epochs after a crash.
    pub nonce: u32,
    /// Seeds the hash of channel names.
    pub hash_seed: u64,
    /// Unix time, in milliseconds.
    pub unix_ms: u64,
    /// Namespaces, which decide what channels retain.
    pub namespaces: Arc<Namespaces>,
    /// Counters of the writer thread.
    pub counters: Arc<Counters>,
}
