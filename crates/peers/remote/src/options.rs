//! Options of a peer, whatever it speaks to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use throng_broker::{ChannelOptions, Namespaces, ReplyLimit};
use throng_metrics::Counters;
use throng_types::ChannelName;

/// Options of a peer, whatever it speaks to.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Begins every name in the broker: nodes with the same one are one cluster.
    pub prefix: String,
    /// The options of channels; the same on every node.
    pub namespaces: Arc<Namespaces>,
    /// Bound of one reply.
    pub reply: ReplyLimit,
    /// Time for which a stream that nobody touches remembers its position, in milliseconds. Nodes
    /// touch those of their subscribers.
    pub position_ttl_ms: u64,
    /// Time for the broker to answer, and to be connected to, in milliseconds. Who
    /// subscribes while there is no connection waits as long.
    pub timeout_ms: u64,
    /// Any number; differs from node to node and from start to start. Epochs follow from it.
    pub seed: u64,
    /// Counters of the peer alone.
    pub counters: Arc<Counters>,
    /// The PEM file of the authorities whose certificates are believed, where TLS is spoken; those
    /// of this machine without one.
    pub authorities: Option<PathBuf>,
    /// The time in Unix milliseconds, in the place of the broker's clock; zero but in tests, in
    /// which time passes faster.
    pub clock_ms: Arc<AtomicU64>,
}

impl RemoteOptions {
    /// Options for tests: a node that is alone, with small bounds.
    #[must_use]
    pub fn for_tests() -> Self {
        Self {
            prefix: "throng".to_owned(),
            namespaces: Arc::default(),
            reply: ReplyLimit {
                members_max: 10,
                publications_max: 10,
                bytes_max: 1000,
            },
            position_ttl_ms: 3_600_000,
            timeout_ms: 5000,
            seed: 1,
            counters: Arc::default(),
            authorities: None,
            clock_ms: Arc::default(),
        }
    }
}

impl RemoteOptions {
    /// The options of a channel, and those of no channel where its namespace is not known.
    #[must_use]
    pub fn of(&self, channel: &ChannelName) -> ChannelOptions {
        self.namespaces.find(channel).copied().unwrap_or_default()
    }

    /// The time that tests give; zero otherwise.
    #[must_use]
    pub fn given_ms(&self) -> u64 {
        self.clock_ms.load(Ordering::Relaxed)
    }
}
