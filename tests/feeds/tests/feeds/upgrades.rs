//! A node is upgraded while its feeds read.

use std::thread;

use throng_testkit::PostgresServer;

use crate::nodes::{healthy, hears, node, subscriber};
use crate::{kafka, postgres};

#[test]
fn events_come_once_and_in_order_over_upgrades() {
    let postgres = PostgresServer::start();
    postgres.sql(postgres::OUTBOX);
    let shared = kafka::shared();
    shared.kafka.ask("create moved 1");
    let rows = postgres::feed(&postgres, "");
    let records = kafka::feed(&shared.kafka.url(), "moved", "");
    let both = format!("{rows}\n[[feed]]\nname = \"records\"\n{records}");
    let node = node(&both, None);
    let clients = ["kept:rows", "kept:records"].map(|it| subscriber(node.clients(), it));
    let producer = shared.kafka.client();
    thread::scope(|scope| {
        scope.spawn(|| producer.ask("send moved 0 1 9000 lz4 kept:records"));
        postgres::insert(&postgres, "kept:rows", 1, 9000);
        for n in 0..3 {
            for client in &clients {
                hears(client, n * 500 + 1..=n * 500 + 500);
            }
            node.upgrade_well();
        }
    });
    for client in &clients {
        hears(client, 1501..=9000);
    }
    postgres::empty(&postgres);
    kafka::done(&shared.kafka, "moved", 1);
    for client in &clients {
        assert_eq!(client.left("publication"), 0);
        assert_eq!(client.left("disconnected"), 0);
    }
    healthy(&node, "ok");
}
