//! A Redis Cluster: a slot moves while publications flow, and a primary dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use throng_testkit::{Proxy, RedisCluster, Sdk, Server, until};

use crate::nodes::{
    Publisher, after_losing_three, event_source, health, members, node_of, subscriber,
};

#[track_caller]
fn node(cluster: &RedisCluster) -> Server {
    let node = node_of(&format!("kind = \"redis\"\nurl = \"{}\"", cluster.url()));
    health(&node, "ok");
    node
}

/// Checks that the client subscribed again with everything recovered, and stayed connected.
#[track_caller]
fn is_recovered(client: &Sdk) {
    let back = client.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], true, "{back}");
    assert_eq!(client.left("connecting"), 0, "it stayed connected");
}

#[test]
fn a_slot_moves_while_publications_flow() {
    let cluster = RedisCluster::start();
    let nodes = [(); 2].map(|()| node(&cluster));
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 10);
    let (from, key) = cluster.find("*{kept:a}:meta");
    let to = (from + 1) % 3;
    let is_moved = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_moved.load(Ordering::Relaxed) {
                publisher.publish(&nodes.each_ref(), 1);
            }
            publisher.publish(&nodes.each_ref(), 20);
        });
        // It flows.
        for number in 1..=30 {
            let heard = client.event("publication", &json!({}));
            assert_eq!(heard["data"], json!(number), "{heard}");
        }
        cluster.open(&key, from, to).close();
        is_recovered(&client);
        is_moved.store(true, Ordering::Relaxed);
    });
    publisher.heard_by(&client, 30);
    publisher.heard_by(&source, 0);
    assert_eq!(cluster.find("*{kept:a}:meta"), (to, key));
    nodes.iter().for_each(|node| health(node, "ok"));
}

/// While the keys of a channel are on two servers nothing is done by halves, and others go on.
#[test]
fn a_slot_that_is_on_its_way_takes_nothing() {
    let cluster = RedisCluster::start();
    let nodes = [(); 2].map(|()| node(&cluster));
    let mut publisher = Publisher::new("kept:a");
    let client = subscriber(nodes[0].clients(), "kept:a");
    publisher.publish(&nodes.each_ref(), 10);
    let (from, key) = cluster.find("*{kept:a}:meta");
    // Another slot, of which that server has some.
    let mut other = (0..).find_map(|number| {
        let channel = format!("kept:{number}");
        let mut other = Publisher::new(&channel);
        other.publish(&[&nodes[0]], 1);
        let (_, there) = cluster.find(&format!("*{{{channel}}}:meta"));
        let part = |key: &str| key.split('}').next().map(str::to_owned);
        (part(&there) != part(&key)).then_some(other)
    });
    let moving = cluster.open(&key, from, (from + 1) % 3);
    assert!(moving.step() && moving.step());
    for node in &nodes {
        let why = publisher.try_one(node).expect_err("it moves");
        assert!(why.contains("nothing was done"), "{why}");
    }
    let other = other.as_mut().expect("another part");
    for _ in 0..20 {
        other.try_one(&nodes[0]).expect("its slot does not move");
    }
    moving.close();
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 0);
    is_recovered(&client);
    nodes.iter().for_each(|node| health(node, "ok"));
}

/// Waits until the replica of a primary has all that this one has.
#[track_caller]
fn in_step(cluster: &RedisCluster, primary: usize) {
    until("a replica in step", || {
        let [there, here] = [primary, primary + 3].map(|at| {
            let info = cluster.servers()[at].ask("INFO replication");
            let mut lines = info
                .lines()
                .filter_map(|it| it.strip_prefix("master_repl_offset:"));
            lines.next().map(str::to_owned)
        });
        there.is_some() && there == here
    });
}

#[test]
fn a_primary_is_killed_and_its_replica_has_everything() {
    let mut cluster = RedisCluster::with_replicas();
    let nodes = [(); 2].map(|()| node(&cluster));
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let present = nodes
        .each_ref()
        .map(|it| subscriber(it.clients(), "crowd:a"));
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 20);
    let (primary, _) = cluster.find("*{kept:a}:meta");
    let replica = primary + 3;
    in_step(&cluster, primary);
    cluster.go_away(primary);
    publisher.publish(&nodes.each_ref(), 20);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    is_recovered(&client);
    assert!(cluster.servers()[replica].ask("ROLE").starts_with("master"));
    nodes.iter().for_each(|node| health(node, "ok"));
    for node in &nodes {
        until("both members", || members(node, "crowd:a") == 2);
    }
    drop(present);
}

/// Clients that have seen what the replica lacks are told; the others are whole.
#[test]
fn a_primary_is_killed_and_its_replica_lacks_the_newest() {
    let mut cluster = RedisCluster::with_replicas();
    let nodes = [(); 2].map(|()| node(&cluster));
    let proxy = Proxy::new(nodes[0].clients());
    let behind = subscriber(proxy.address(), "kept:a");
    let ahead = subscriber(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 5);
    publisher.heard_by(&behind, 0);
    proxy.cut();
    behind.event("connecting", &json!({}));
    publisher.publish(&nodes.each_ref(), 2);
    let (primary, _) = cluster.find("*{kept:a}:meta");
    in_step(&cluster, primary);
    // From now on it receives nothing more.
    cluster.servers()[primary + 3].pause();
    cluster.servers()[primary].ask("CLIENT KILL TYPE replica");
    publisher.publish(&nodes.each_ref(), 3);
    publisher.heard_by(&ahead, 0);
    cluster.go_away(primary);
    cluster.servers()[primary + 3].resume();
    after_losing_three(&mut publisher, &nodes.each_ref(), &proxy, [&ahead, &behind]);
}
