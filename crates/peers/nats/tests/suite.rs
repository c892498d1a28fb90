//! The broker on NATS keeps the contract: every property of the suite, with the shards spread over
//! up to three nodes and a real `nats-server`.

use throng_nats::NatsOptions;
use throng_remote_suite::{Cluster, On, Setup, nodes};
use throng_testkit::NatsServer;

thread_local! {
    /// One for each test, which ends with its thread.
    static SERVER: NatsServer = NatsServer::start();
}

fn on_nats(setup: Setup) -> Box<dyn Cluster> {
    // A server passes on what several connections publish as it comes to each subscriber.
    let on = On {
        servers: 1,
        orders_all: false,
    };
    nodes(&setup, on, |remote| {
        let url = SERVER.with(NatsServer::url);
        let replicas = 1;
        let options = NatsOptions {
            url,
            credentials: None,
            replicas,
            remote,
        };
        vec![throng_nats::node(options).expect("a URL")]
    })
}

throng_remote_suite::tests!(on_nats);
