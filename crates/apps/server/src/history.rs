//! Configuration of history on disk, and each shard's part of it.

use std::sync::Arc;
use std::time::Instant;

use throng_broker::{MemoryBroker, MemoryOptions, Restored, Store};
use throng_config::{BrokerKind, Config, OnDiskFailure};
use throng_history::{Journal, OpenedStore, Options, ShardWaker, await_takeover, open};
use throng_metrics::Counters;
use throng_sys::clock;
use throng_types::{Millis, Now};

use crate::options::StartError;

/// A shard's end of the store, and what its home has to begin with.
pub(crate) struct Kept {
    store: Box<dyn Store>,
    restored: Option<Restored>,
    /// The zero of the shard's clock.
    started: Instant,
}

impl Kept {
    /// Lets a shard's broker go on where the store was.
    pub(crate) fn restore(self, broker: MemoryBroker) -> MemoryBroker {
        let mono = Millis(self.started.elapsed().as_millis() as u64);
        let now = Now {
            mono,
            unix_ms: clock::unix_ms(),
        };
        broker.with_store(self.store, self.restored, now)
    }
}

/// The folder of the history, if it is kept on disk here.
pub(crate) fn folder(config: &Config) -> Option<&String> {
    let path = config.history.path.as_ref();
    path.filter(|_| config.broker.kind == BrokerKind::Memory)
}

/// The store before it is written, if one is configured. With a predecessor nothing is read: it
/// hands over what there is, and lets go of the folder then.
pub(crate) fn prepare(
    config: &Config,
    (home, shards): (&MemoryOptions, u8),
    counters: Arc<Counters>,
    has_predecessor: bool,
) -> Result<Option<OpenedStore>, StartError> {
    let Some(path) = folder(config) else {
        return Ok(None);
    };
    let options = Options {
        path: path.into(),
        sync_ms: config.history.sync_ms,
        refuses: config.history.on_failure == OnDiskFailure::Refuse,
        shards,
        nonce: home.nonce,
        hash_seed: home.hash_seed,
        unix_ms: clock::unix_ms(),
        namespaces: home.namespaces.clone(),
        counters,
    };
    if has_predecessor {
        return Ok(Some(await_takeover(options)));
    }
    let opened = open(options).map_err(|error| StartError::History(error.to_string()))?;
    Ok(Some(opened))
}

/// Starts the writer. Each ring wakes a shard; gives each shard's part.
pub(crate) fn begin(
    opened: Option<OpenedStore>,
    rings: Vec<ShardWaker>,
    started: Instant,
) -> Result<(Vec<Option<Kept>>, Option<Journal>), StartError> {
    let Some(mut opened) = opened else {
        return Ok((rings.iter().map(|_| None).collect(), None));
    };
    let restored = std::mem::take(&mut opened.restored);
    let started_writer = opened.start(rings);
    let (stores, journal) =
        started_writer.map_err(|error| StartError::History(error.to_string()))?;
    let parts = stores.into_iter().zip(restored).map(|(store, restored)| {
        Some(Kept {
            store,
            restored,
            started,
        })
    });
    Ok((parts.collect(), Some(journal)))
}
