//! NATS as a cluster of three servers that each keep every message: one of them is killed.

use serde_json::Value;
use throng_testkit::{NatsServer, Server, until};

use crate::nodes::{Publisher, event_source, node_of, subscriber, up};

#[track_caller]
fn node(servers: &[NatsServer; 3]) -> Server {
    let urls = servers.each_ref().map(NatsServer::url).join(",");
    let node = node_of(&format!("kind = \"nats\"\nurl = \"{urls}\"\nreplicas = 3"));
    up(&node, true);
    node
}

/// The number of the server that leads the stream of the channels `kept:`.
#[track_caller]
fn leader(servers: &[NatsServer; 3]) -> usize {
    until("a stream with a leader and two that follow it", || {
        let info = servers[0].ask("$JS.API.STREAM.INFO.throng_kept_kept")?;
        let info: Value = serde_json::from_str(&info).ok()?;
        let replicas = info["cluster"]["replicas"].as_array()?;
        let follows = |it: &Value| it["current"] == true && it["offline"] != true;
        if replicas.len() != 2 || !replicas.iter().all(follows) {
            return None;
        }
        info["cluster"]["leader"].as_str()?[1..].parse().ok()
    })
}

/// What was acknowledged is on the others; what was not is refused or in doubt, and is repeated
/// with its key.
#[test]
fn the_leader_is_killed_and_nothing_is_lost_or_doubled() {
    let mut servers = NatsServer::cluster();
    let nodes = [(); 3].map(|()| node(&servers));
    let clients = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "kept:a"));
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 30);
    let leader = leader(&servers);
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
