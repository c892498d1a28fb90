//! What the configuration says about the broker: in memory, or on Redis.

use std::sync::Arc;

use throng_broker::{Budget, LiveOptions, MemoryOptions, Remote};
use throng_config::{BrokerKind, Config};
use throng_metrics::Counters;
use throng_redis::{Peers, RedisOptions};
use throng_types::Rng;

/// A shard's part of a broker elsewhere.
pub(crate) struct RemotePart {
    pub(crate) broker: Box<dyn Remote>,
    pub(crate) nodes: Peers,
}

/// The same, if there is one.
pub(crate) type Part = Option<RemotePart>;

/// The options of every shard's part; they share one budget for history.
pub(crate) fn home_options(
    config: &Config,
    live: &LiveOptions,
    shards: u8,
    random: &mut Rng,
) -> MemoryOptions {
    let limits = &config.limits;
    MemoryOptions {
        // Never zero, so that no epoch of ours is the one that stands for "unknown".
        nonce: (random.next_u64() as u32).max(1),
        hash_seed: random.next_u64(),
        history: Budget::new(limits.history_bytes_max as usize, shards),
        streams_max: live.streams_max,
        reply: live.reply,
        namespaces: live.namespaces.clone(),
    }
}

/// The options of the driver, if the broker is on Redis.
pub(crate) fn redis_options(
    config: &Config,
    home: &MemoryOptions,
    counters: Arc<Counters>,
    seed: u64,
) -> Option<RedisOptions> {
    let broker = &config.broker;
    let url = { broker.url.as_ref() }.filter(|_| broker.kind == BrokerKind::Redis)?;
    Some(RedisOptions {
        url: url.expose().to_owned(),
        prefix: broker.prefix.clone(),
        namespaces: home.namespaces.clone(),
        reply: home.reply,
        position_ttl_ms: broker.position_ttl_ms,
        timeout_ms: broker.timeout_ms,
        seed,
        counters,
        clock_ms: Arc::default(),
    })
}
