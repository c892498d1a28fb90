//! The broker goes away and comes back: publishers get errors, subscribers stay, and every gap is
//! filled or reported.

use serde_json::json;
use throng_testkit::{Proxy, Sdk, Server, script, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{Publisher, after_losing_three, event_source, node, subscriber, up};

/// Attempts of each node to reach a paused broker, while the test waits.
const RECONNECTS: usize = 3;

/// Publishes until it is refused; gives the reason.
#[track_caller]
fn refused(publisher: &mut Publisher, node: &Server) -> String {
    until("a refusal", || publisher.try_one(node).err())
}

/// No client was disconnected.
#[track_caller]
fn stayed(clients: &[&Sdk]) {
    for client in clients {
        assert_eq!(client.left("connecting") + client.left("disconnected"), 0);
    }
}

/// Data that the server keeps across its restart is there for clients that come back.
pub(crate) fn the_broker_restarts_with_its_data(kind: Kind) {
    let mut broker = Broker::durable(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    broker.go_away();
    let why = refused(&mut publisher, &nodes[0]);
    assert!(why.contains("broker"), "{why}");
    nodes.iter().for_each(|node| up(node, false));
    stayed(&[&client]);
    broker.come_back();
    nodes.iter().for_each(|node| up(node, true));
    // Another server process might have lost the newest, so everybody comes from its place.
    client.event("subscribing", &json!({ "code": 2500 }));
    client.event("subscribed", &json!({ "recovered": true }));
    let back = source.event("subscribed", &json!({}));
    assert_eq!(back["told"]["recovered"], true, "{back}");
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 10);
    publisher.heard_by(&source, 10);
    stayed(&[&client]);
    for node in &nodes {
        assert_eq!(node.logged("no connection to the broker"), 1);
        assert_eq!(
            node.logged(&format!("the broker on {} is back", kind.name())),
            1
        );
    }
}

/// An offset is not used twice: clients that have seen what the older copy lacks are told, and the
/// others are whole.
pub(crate) fn the_broker_restarts_with_an_older_copy_of_its_data(kind: Kind) {
    let mut broker = Broker::start(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let proxy = Proxy::new(nodes[0].clients());
    let behind = subscriber(proxy.address(), "kept:a");
    let ahead = subscriber(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 5);
    publisher.heard_by(&behind, 0);
    proxy.cut();
    behind.event("connecting", &json!({}));
    publisher.publish(&nodes.each_ref(), 2);
    broker.save();
    publisher.publish(&nodes.each_ref(), 3);
    publisher.heard_by(&ahead, 0);
    broker.go_away();
    refused(&mut publisher, &nodes[0]);
    nodes.iter().for_each(|node| up(node, false));
    broker.come_back();
    nodes.iter().for_each(|node| up(node, true));
    after_losing_three(&mut publisher, &nodes.each_ref(), &proxy, [&ahead, &behind]);
}

/// Clients that lost something are told, and the others are not.
pub(crate) fn the_broker_restarts_without_its_data(kind: Kind) {
    let mut broker = Broker::start(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let plain = subscriber(nodes[1].clients(), "plain");
    let socket = format!("ws://{}/ws?channel=kept:a", nodes[1].clients());
    let socket = script("ws.mjs", &[&socket]);
    socket.event("open", &json!({}));
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    broker.go_away();
    refused(&mut publisher, &nodes[1]);
    nodes.iter().for_each(|node| up(node, false));
    broker.come_back();
    nodes.iter().for_each(|node| up(node, true));
    client.event("subscribing", &json!({ "code": 2500 }));
    let back = client.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], false, "{back}");
    // One that cannot be told of a subscription's end is told to come again.
    let told = json!({ "code": 3010, "reason": "insufficient state" });
    socket.event("close", &told);
    let back = source.event("subscribed", &json!({}));
    assert_eq!(back["told"]["recovered"], false, "{back}");
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 10);
    publisher.heard_by(&source, 10);
    let mut others = Publisher::new("plain");
    others.publish(&nodes.each_ref(), 3);
    others.heard_by(&plain, 0);
    stayed(&[&client, &plain]);
    assert_eq!(plain.left("subscribing"), 0, "it lost nothing that is kept");
}

/// A request that got no answer may have been carried out; repeating it is safe.
pub(crate) fn the_broker_is_paused_until_nodes_have_reconnected_in_vain(kind: Kind) {
    let broker = Broker::start(kind);
    let networks = [(); 2].map(|()| Proxy::new(broker.address()));
    let nodes = networks
        .each_ref()
        .map(|network| node(kind, network.address()));
    let client = subscriber(nodes[0].clients(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 10);
    broker.pause();
    let why = publisher
        .try_one(&nodes[0])
        .expect_err("the broker is paused");
    // On NATS the row of the publication's key comes first; without its answer nothing is sent.
    let told = match kind {
        Kind::Redis => "may have published",
        Kind::Nats => "nothing was done",
    };
    assert!(why.contains(told), "{why}");
    nodes.iter().for_each(|node| up(node, false));
    let why = publisher
        .try_one(&nodes[1])
        .expect_err("the broker is down");
    assert!(why.contains("nothing was done"), "{why}");
    // The kernel accepts connections for a stopped process, so each attempt waits for its answer.
    for network in &networks {
        let before = network.connections();
        until("attempts to reconnect", || {
            network.connections() >= before + RECONNECTS
        });
    }
    nodes.iter().for_each(|node| up(node, false));
    broker.resume();
    publisher.publish(&nodes.each_ref(), 10);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    stayed(&[&client]);
    assert_eq!(client.left("subscribing"), 0, "it is the same server");
}

/// A node that missed publications fills them in, without a word to its clients.
pub(crate) fn the_network_between_a_node_and_the_broker_is_cut(kind: Kind) {
    let broker = Broker::start(kind);
    let proxy = Proxy::new(broker.address());
    let (apart, other) = (node(kind, proxy.address()), node(kind, broker.address()));
    let clients = [(); 3].map(|()| subscriber(apart.clients(), "kept:a"));
    let source = event_source(apart.clients(), "kept:a");
    let witness = subscriber(other.clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&[&apart, &other], 10);
    for _ in 0..3 {
        proxy.cut();
        up(&apart, false);
        publisher.publish(&[&other], 50);
        let why = publisher.try_one(&apart).expect_err("no connection");
        assert!(why.contains("broker unavailable"), "{why}");
        proxy.mend();
        up(&apart, true);
        publisher.publish(&[&apart, &other], 10);
    }
    for client in clients.iter().chain([&source, &witness]) {
        publisher.heard_by(client, 0);
    }
    stayed(&clients.each_ref());
    for client in &clients {
        assert_eq!(client.left("subscribing"), 0, "the gap was filled");
    }
    assert_eq!(source.left("subscribed") + source.left("error"), 0);
    apart.counts("throng_broker_losses_total", 3);
    apart.counts("throng_broker_broken_total", 0);
    assert!(apart.metric("throng_broker_refilled_total") >= 3);
}

/// A network that lets little through: answers come late, perhaps too late for their node. What is
/// repeated is there once, and what comes late is in order.
pub(crate) fn the_network_between_a_node_and_the_broker_is_slow(kind: Kind) {
    let broker = Broker::start(kind);
    let proxy = Proxy::new(broker.address());
    let (apart, other) = (node(kind, proxy.address()), node(kind, broker.address()));
    let clients = [&apart, &other].map(|node| subscriber(node.clients(), "kept:a"));
    let sources = [&apart, &other].map(|node| event_source(node.clients(), "kept:a"));
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&[&apart, &other], 10);
    proxy.slow(true);
    publisher.publish(&[&other], 40);
    publisher.publish(&[&apart, &other], 6);
    proxy.slow(false);
    up(&apart, true);
    publisher.publish(&[&apart, &other], 10);
    for client in clients.iter().chain(&sources) {
        publisher.heard_by(client, 0);
    }
    stayed(&clients.each_ref());
    for client in &clients {
        assert_eq!(client.left("subscribing"), 0, "the gap was filled");
    }
}

/// The broker begins anew several times while a client is away, each time with all that it had.
pub(crate) fn a_client_that_was_away_for_several_restarts_is_whole(kind: Kind) {
    const RESTARTS: u64 = 8;
    let mut broker = Broker::durable(kind);
    let node = node(kind, broker.address());
    let proxy = Proxy::new(node.clients());
    let client = subscriber(proxy.address(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&[&node], 1);
    publisher.heard_by(&client, 0);
    proxy.cut();
    client.event("connecting", &json!({}));
    for _ in 0..RESTARTS {
        broker.go_away();
        up(&node, false);
        broker.come_back();
        up(&node, true);
        publisher.publish(&[&node], 1);
    }
    proxy.mend();
    let back = client.event("subscribed", &json!({}));
    assert_eq!(back["recovered"], true, "{back}");
    publisher.heard_by(&client, 1);
}
