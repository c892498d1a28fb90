//! State of a shard for statistics beyond its book, and mail between shards.

use std::sync::Arc;

use throng_types::{ConnId, Millis};

use super::collector::Collector;
use super::news::News;

/// About statistics, from another shard.
#[derive(Debug)]
pub enum StatsMail {
    /// News from a shard, for the collector.
    News(Vec<News>),
    /// Whether it has readers.
    Reads(bool),
    /// Packets for its readers.
    Packets(Arc<Vec<Vec<u8>>>),
}

/// One shard's part in statistics.
#[derive(Default)]
pub(crate) struct Statistics {
    /// On the first shard, if statistics are configured.
    pub(crate) collector: Option<Collector>,
    /// Bound: the connections to this shard's socket.
    pub(crate) readers: Vec<ConnId>,
    /// On the first shard: the shards that have readers, as bits.
    pub(crate) read_on: u64,
}

impl Statistics {
    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.collector.as_ref()?.deadline()
    }
}
