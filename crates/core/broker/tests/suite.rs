//! The broker in memory keeps the contract, also with late replies.

use throng_broker::{
    Acknowledge, Budget, Lineage, LogEntry, MemoryBroker, MemoryOptions, Reached, Store,
};
use throng_broker_suite::{Cluster, Late, Parts, Setup};
use throng_types::{Now, ShardId};

fn parts(setup: &Setup) -> Vec<MemoryBroker> {
    let home = MemoryOptions {
        nonce: 0xabcd,
        hash_seed: 1,
        history: Budget::new(setup.history_bytes_max, setup.shards),
        streams_max: 1000,
        reply: setup.reply,
        namespaces: setup.namespaces.clone(),
    };
    let part = |shard| MemoryBroker::new(ShardId(shard), setup.shards, home.clone());
    (0..setup.shards).map(part).collect()
}

fn memory(setup: Setup) -> Box<dyn Cluster> {
    Box::new(Parts::new(parts(&setup)))
}

/// A store that always wants another copy, and has no room at every third look.
struct Busy(u64);

impl Store for Busy {
    fn append(&mut self, record: &[u8]) {
        assert!(LogEntry::of_record(record).is_some());
    }

    fn takes(&mut self, _: usize) -> bool {
        true
    }

    fn newest(&self) -> u64 {
        0
    }

    fn hurry(&mut self, _: Acknowledge) {}

    fn reached(&self) -> Reached {
        Reached::default()
    }

    fn refuses(&self) -> bool {
        false
    }

    fn round(&self) -> u64 {
        self.0 / 7
    }

    fn has_room(&mut self) -> bool {
        self.0 += 1;
        !self.0.is_multiple_of(3)
    }

    fn copied(&mut self, _: u64) {}

    fn live(&mut self, _: usize) {
        self.0 += 1;
    }

    fn lineage(&mut self, _: &Lineage) {}
}

mod durable {
    use super::*;

    fn durable(setup: Setup) -> Box<dyn Cluster> {
        let now = Now::default();
        let part = |part: MemoryBroker| part.with_store(Box::new(Busy(7)), None, now);
        Box::new(Parts::new(parts(&setup).into_iter().map(part).collect()))
    }

    throng_broker_suite::tests!(durable);
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
