//! The broker on Redis keeps the contract: every property of the suite, with the shards spread over
//! up to three nodes, on a real `redis-server` and on two of them that share the channels.

use std::sync::Arc;

use throng_metrics::Counters;
use throng_redis::RedisOptions;
use throng_remote::RemoteOptions;
use throng_remote_suite::{Cluster, Setup, nodes};
use throng_testkit::RedisServer;

thread_local! {
    /// For each test, which ends with its thread.
    static SERVERS: [RedisServer; 2] = [RedisServer::start(), RedisServer::start()];
}

fn on(servers: usize, setup: &Setup) -> Box<dyn Cluster> {
    nodes(setup, true, |remote, rings| {
        let options = |number: usize| RedisOptions {
            url: SERVERS.with(|servers| servers[number].url()),
            remote: RemoteOptions {
                seed: remote.seed << 4 | number as u64,
                counters: Arc::new(Counters::new()),
                ..remote.clone()
            },
        };
        let options = (0..servers).map(options).collect();
        throng_redis::start(options, rings).expect("drivers").0
    })
}

mod one {
    throng_remote_suite::tests!(|setup| crate::on(1, &setup));
}

mod two {
    throng_remote_suite::tests!(|setup| crate::on(2, &setup));
}
