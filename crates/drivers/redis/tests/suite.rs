//! The broker on Redis keeps the contract: every property of the suite, with the shards spread over
//! up to three nodes and a real `redis-server`; and once more with two that share the channels.

use throng_redis::RedisOptions;
use throng_remote_suite::{Cluster, On, Setup, nodes};
use throng_testkit::RedisServer;

thread_local! {
    /// Those of each test, which end with its thread.
    static SERVERS: [RedisServer; 2] = [(); 2].map(|()| RedisServer::start());
}

fn on_redis(setup: &Setup, servers: usize) -> Box<dyn Cluster> {
    let on = On {
        servers,
        orders_all: true,
    };
    let urls = SERVERS.with(|them| them.each_ref().map(RedisServer::url));
    nodes(setup, on, |remote, rings| {
        let each = urls[..servers].iter().map(|url| RedisOptions {
            url: url.clone(),
            remote: remote.clone(),
        });
        throng_redis::start(each.collect(), rings)
            .expect("a driver")
            .0
    })
}

mod one {
    use super::*;

    fn on_one(setup: Setup) -> Box<dyn Cluster> {
        on_redis(&setup, 1)
    }

    throng_remote_suite::tests!(on_one);
}

mod several {
    use super::*;

    fn on_two(setup: Setup) -> Box<dyn Cluster> {
        on_redis(&setup, 2)
    }

    throng_remote_suite::tests!(on_two);
}
