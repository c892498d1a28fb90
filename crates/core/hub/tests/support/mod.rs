//! Hubs for small tests.

use std::sync::Arc;

use throng_broker::{Budget, ChannelOptions, MemoryBroker, MemoryOptions, Namespaces, ReplyLimit};
use throng_hub::{Hub, HubOptions};
use throng_types::ShardId;

/// The hub of one of so many shards, over memory, with these namespaces and the plain options for
/// other channels.
pub(crate) fn hub(shard: u8, shards: u8, named: Vec<(Box<str>, ChannelOptions)>) -> Hub {
    let namespaces = Arc::new(Namespaces::new(ChannelOptions::default(), named));
    let home = MemoryOptions {
        nonce: 1,
        hash_seed: 1,
        history: Budget::new(1 << 20, shards),
        streams_max: 100,
        reply: ReplyLimit {
            publications_max: 100,
            members_max: 100,
            bytes_max: 1 << 20,
        },
        namespaces: namespaces.clone(),
    };
    let options = HubOptions {
        subscriptions_max: 10,
        hash_seed: 1,
        namespaces,
    };
    Hub::new(options, MemoryBroker::new(ShardId(shard), shards, home))
}
