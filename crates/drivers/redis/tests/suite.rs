//! The broker on Redis keeps the contract: every property of the suite, with the shards spread over
//! up to three nodes and a real `redis-server`.

use throng_redis::RedisOptions;
use throng_remote_suite::{Cluster, Setup, nodes};
use throng_testkit::RedisServer;

thread_local! {
    /// One for each test, which ends with its thread.
    static SERVER: RedisServer = RedisServer::start();
}

fn on_redis(setup: Setup) -> Box<dyn Cluster> {
    nodes(&setup, true, |remote, rings| {
        let url = SERVER.with(RedisServer::url);
        let options = RedisOptions { url, remote };
        throng_redis::start(vec![options], rings)
            .expect("a driver")
            .0
    })
}

throng_remote_suite::tests!(on_redis);
