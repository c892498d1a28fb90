//! What the configuration says about the broker in memory.

use std::sync::Arc;

use throng_broker::{Budget, MemoryOptions, Namespaces, ReplyLimit};
use throng_config::Config;
use throng_types::Rng;

/// The options of every shard's part; they share one budget for history.
pub(crate) fn home_options(
    config: &Config,
    namespaces: Arc<Namespaces>,
    shards: u8,
    random: &mut Rng,
) -> MemoryOptions {
    let limits = &config.limits;
    MemoryOptions {
        // Never zero, so that no epoch of ours is the one that stands for "unknown".
        nonce: (random.next_u64() as u32).max(1),
        hash_seed: random.next_u64(),
        history: Budget::new(limits.history_bytes_max as usize, shards),
        streams_max: (limits.streams_max as usize).div_ceil(usize::from(shards)),
        reply: ReplyLimit {
            publications_max: limits.history_reply_max as usize,
            members_max: limits.presence_reply_max as usize,
            bytes_max: limits.history_reply_bytes_max as usize,
        },
        namespaces,
    }
}
