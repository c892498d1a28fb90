//! Several nodes publish at once to NATS as a cluster of three servers, each with every message.

use std::collections::BTreeMap;

use serde_json::json;
use throng_testkit::{NatsServer, until};

use crate::nodes::{TIMEOUT, node, subscriber};

/// Versions of NATS that are good for replicas.
const VERSIONS: [&str; 2] = ["2.10.29", "2.12.1"];
/// Publications by each node in [`several_nodes_publish_at_once`].
const EACH: u64 = 60;

/// Publications with keys, by all nodes at once in one channel: every one that is acknowledged has
/// a position of its own, and is heard there by the clients of every node.
#[test]
fn several_nodes_publish_at_once() {
    VERSIONS.iter().for_each(|version| publish_at_once(version));
}

fn publish_at_once(version: &str) {
    let servers = NatsServer::cluster(Some(version));
    let urls = servers.each_ref().map(NatsServer::url).join(",");
    let broker = format!("kind = \"nats\"\nurl = \"{urls}\"\nreplicas = 3");
    let nodes = [(); 3].map(|()| node(&broker, TIMEOUT));
    let clients = { nodes.each_ref() }.map(|node| subscriber(node.clients(), "kept:b"));
    let publish = |by: usize| {
        let one = |n: u64| {
            let data = by as u64 * EACH + n;
            let key = format!("k{data}");
            let body = json!({ "channel": "kept:b", "data": data, "idempotency_key": key });
            let answer = until("a publication that is taken", || {
                let answer = nodes[by].call("publish", &body);
                answer["error"].is_null().then_some(answer)
            });
            let offset = answer["result"]["offset"].as_u64();
            (
                offset.unwrap_or_else(|| panic!("{version}: {answer}")),
                data,
            )
        };
        (0..EACH).map(one).collect::<Vec<_>>()
    };
    let taken: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|by| scope.spawn(move || publish(by)));
        { threads.into_iter() }
            .flat_map(|thread| thread.join().expect("a publisher"))
            .collect()
    });
    let by_offset: BTreeMap<u64, u64> = taken.iter().copied().collect();
    assert_eq!(
        by_offset.len() as u64,
        3 * EACH,
        "{version}: one position, two publications"
    );
    for client in &clients {
        for (offset, data) in &by_offset {
            let heard = client.event("publication", &json!({}));
            assert_eq!(
                (&heard["offset"], &heard["data"]),
                (&json!(offset), &json!(data)),
                "{version}"
            );
        }
        assert_eq!(client.left("publication"), 0);
    }
    for node in &nodes {
        assert_eq!(node.ask("GET", "/healthz", "").body.trim(), "ok");
    }
}
