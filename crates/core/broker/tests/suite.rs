//! The broker in memory keeps the contract, also with late replies.

use throng_broker::{Budget, MemoryBroker, MemoryOptions};
use throng_broker_suite::{Cluster, Late, Parts, Setup};
use throng_types::ShardId;

fn memory(setup: Setup) -> Box<dyn Cluster> {
    let home = MemoryOptions {
        nonce: 0xabcd,
        hash_seed: 1,
        history: Budget::new(setup.history_bytes_max, setup.shards),
        streams_max: 1000,
        reply: setup.reply,
        namespaces: setup.namespaces,
    };
    let part = |shard| MemoryBroker::new(ShardId(shard), setup.shards, home.clone());
    Box::new(Parts::new((0..setup.shards).map(part).collect()))
}

mod at_once {
    throng_broker_suite::tests!(super::memory);
}

mod late {
    use super::*;

    fn late(setup: Setup) -> Box<dyn Cluster> {
        let shards = setup.shards;
        Box::new(Late::new(memory(setup), shards))
    }

    throng_broker_suite::tests!(late);
}
