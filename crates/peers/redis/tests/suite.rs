//! The broker on Redis keeps the contract: every property of the suite, with the shards spread over
//! up to three nodes and a real `redis-server`; once more with two that share the channels, and
//! once more with a cluster of three.

use throng_redis::RedisOptions;
use throng_remote_suite::{Cluster, On, Setup, nodes};
use throng_testkit::{RedisCluster, RedisServer};

thread_local! {
    /// Those of each test, which end with its thread.
    static SERVERS: [RedisServer; 2] = [(); 2].map(|()| RedisServer::start());
    static CLUSTER: RedisCluster = RedisCluster::start();
}

fn on_redis(setup: &Setup, urls: &str) -> Box<dyn Cluster> {
    let urls = throng_redis::servers(urls);
    let on = On {
        servers: urls.len(),
        orders_all: true,
    };
    nodes(setup, on, |remote| {
        let each = urls.iter().map(|url| RedisOptions {
            url: url.clone(),
            remote: remote.clone(),
        });
        throng_redis::nodes(each.collect()).expect("good URLs")
    })
}

mod one {
    use super::*;

    fn on_one(setup: Setup) -> Box<dyn Cluster> {
        on_redis(&setup, &SERVERS.with(|[one, _]| one.url()))
    }

    throng_remote_suite::tests!(on_one);
}

mod several {
    use super::*;

    fn on_two(setup: Setup) -> Box<dyn Cluster> {
        let urls = SERVERS.with(|them| them.each_ref().map(RedisServer::url));
        on_redis(&setup, &urls.join(","))
    }

    throng_remote_suite::tests!(on_two);
}

mod cluster {
    use super::*;

    fn on_cluster(setup: Setup) -> Box<dyn Cluster> {
        on_redis(&setup, &CLUSTER.with(RedisCluster::url))
    }

    throng_remote_suite::tests!(on_cluster);
}
