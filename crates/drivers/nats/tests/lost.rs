//! A network that loses what the driver asks, in front of a real server.

use throng_nats::NatsOptions;
use throng_remote_suite::{On, Setup, nodes};
use throng_testkit::{NatsServer, Proxy};

#[test]
fn what_jetstream_never_heard_is_asked_again() {
    let server = NatsServer::start();
    let network = Proxy::new(server.address());
    network.lose("$JS.API.STREAM.CREATE", 1);
    let url = format!("nats://{}", network.address());
    // This ends once the node is connected: a connection that has waited for its whole time would
    // come too late for that.
    let on = On {
        servers: 1,
        orders_all: false,
    };
    let cluster = nodes(&Setup::new(1), on, |remote, rings| {
        let options = NatsOptions {
            url: url.clone(),
            credentials: None,
            replicas: 1,
            remote,
        };
        throng_nats::start(options, rings).expect("a driver").0
    });
    drop(cluster);
    assert_eq!((network.to_lose(), network.connections()), (0, 1));
}
