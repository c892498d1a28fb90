//! NATS as a cluster of three servers that each keep every message, of each version that can be
//! had.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use throng_testkit::{NatsServer, Server, until};

use crate::nodes::{Publisher, event_source, node_of, subscriber, up};
use crate::presence::members_are_right_after;

/// Versions of NATS that are good for replicas.
const VERSIONS: [&str; 2] = ["2.10.29", "2.12.1"];
/// Publications by each node in [`several_nodes_publish_at_once`].
const EACH: u64 = 60;

#[track_caller]
fn node_on(servers: &[NatsServer; 3]) -> Server {
    let urls = servers.each_ref().map(NatsServer::url).join(",");
    node_of(&format!("kind = \"nats\"\nurl = \"{urls}\"\nreplicas = 3"))
}

#[track_caller]
fn node(servers: &[NatsServer; 3]) -> Server {
    let node = node_on(servers);
    up(&node, true);
    node
}

/// Returns the cluster state of a stream, by its servers.
fn keepers(servers: &[NatsServer; 3], stream: &str) -> Option<Value> {
    let info = servers[0].ask(&format!("$JS.API.STREAM.INFO.{stream}"))?;
    let mut info: Value = serde_json::from_str(&info).ok()?;
    Some(info["cluster"].take())
}

/// The number of the server that leads a stream.
fn leader(keepers: &Value) -> Option<usize> {
    keepers["leader"].as_str()?[1..].parse().ok()
}

/// The number of the server that leads the stream of the channels `kept:`.
#[track_caller]
fn followed_leader(servers: &[NatsServer; 3]) -> usize {
    until("a stream with a leader and two that follow it", || {
        let keepers = keepers(servers, "throng_kept_kept")?;
        let replicas = keepers["replicas"].as_array()?;
        let follows = |it: &Value| it["current"] == true && it["offline"] != true;
        let is_whole = replicas.len() == 2 && replicas.iter().all(follows);
        leader(&keepers).filter(|_| is_whole)
    })
}

/// Acknowledged publications are on the other servers; all others are refused or in doubt, and are
/// repeated with their key.
#[test]
fn the_leader_is_killed_and_nothing_is_lost_or_doubled() {
    VERSIONS
        .iter()
        .for_each(|version| leader_is_killed(version));
}

fn leader_is_killed(version: &str) {
    let mut servers = NatsServer::cluster(Some(version));
    let nodes = [(); 3].map(|()| node(&servers));
    let clients = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "kept:a"));
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 30);
    let leader = followed_leader(&servers);
    servers[leader].go_away();
    publisher.publish(&nodes.each_ref(), 60);
    for client in clients.iter().chain([&source]) {
        publisher.heard_by(client, 0);
    }
    for client in &clients {
        assert_eq!(client.left("connecting") + client.left("disconnected"), 0);
    }
    // It comes back and follows.
    servers[leader].come_back();
    nodes.iter().for_each(|node| up(node, true));
    publisher.publish(&nodes.each_ref(), 30);
    for client in clients.iter().chain([&source]) {
        publisher.heard_by(client, 90);
    }
    let late = subscriber(nodes[2].clients(), "kept:a");
    publisher.publish(&nodes.each_ref(), 3);
    publisher.heard_by(&late, 120);
}

/// Members leave while all servers are away, and while the one is that leads their stream.
#[test]
fn members_are_right_after_servers_were_away() {
    for version in VERSIONS {
        let mut servers = NatsServer::cluster(Some(version));
        let nodes = [(); 2].map(|()| node(&servers));
        members_are_right_after(&nodes, |is_there| {
            for server in &mut servers {
                if is_there {
                    server.come_back();
                } else {
                    server.go_away();
                }
            }
            nodes.iter().for_each(|node| up(node, is_there));
        });
        let led = until("a leader", || leader(&keepers(&servers, "throng_members")?));
        members_are_right_after(&nodes, |is_there| {
            if is_there {
                servers[led].come_back();
            } else {
                servers[led].go_away();
            }
        });
    }
}

/// A version that would lose acknowledged publications is refused, and the log gives the remedy.
#[test]
fn an_old_version_is_refused_with_replicas() {
    let servers = NatsServer::cluster(None);
    let node = node_on(&servers);
    let is_told = |line: &Value| {
        let line = line.to_string();
        line.contains("2.9.25") && line.contains("broker.replicas")
    };
    until("the reason in the log", || node.log().iter().any(is_told));
    up(&node, false);
}

/// Publications with keys, by all nodes at once in one channel: every one that is acknowledged has
/// a position of its own, and is heard there by the clients of every node.
#[test]
fn several_nodes_publish_at_once() {
    VERSIONS.iter().for_each(|version| publish_at_once(version));
}

fn publish_at_once(version: &str) {
    let servers = NatsServer::cluster(Some(version));
    let nodes = [(); 3].map(|()| node(&servers));
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
