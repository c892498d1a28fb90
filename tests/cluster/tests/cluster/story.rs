//! Several nodes are one server: published on any, received on any, recovered on another.

use serde_json::json;
use throng_testkit::{Proxy, Sdk, Signal, request};

use crate::broker::{Broker, Kind};
use crate::nodes::{Publisher, event_source, node, stream, subscriber, url};

pub(crate) fn what_is_published_on_any_node_is_heard_on_all_in_one_order(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 3].map(|()| node(kind, broker.address()));
    let clients = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "kept:a"));
    let sources = nodes
        .each_ref()
        .map(|node| event_source(node.clients(), "kept:a"));
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 30);
    for client in clients.iter().chain(&sources) {
        publisher.heard_by(client, 0);
    }
    // Channels without history, too.
    let plain = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "plain"));
    let mut publisher = Publisher::new("plain");
    publisher.publish(&nodes.each_ref(), 9);
    for client in &plain {
        publisher.heard_by(client, 0);
    }
    // Every node has the same history, and the same positions.
    let pages = nodes.each_ref().map(|node| {
        node.call("history", &json!({ "channel": "kept:a", "limit": 100 }))["result"].clone()
    });
    assert_eq!(pages[0]["publications"].as_array().map(Vec::len), Some(30));
    assert_eq!(pages[0]["offset"], json!(30));
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
}

/// A client that comes back on another node, from its place.
pub(crate) fn what_was_missed_is_recovered_on_another_node(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let proxy = Proxy::new(nodes[0].clients());
    let client = subscriber(proxy.address(), "kept:a");
    let mut source = event_source(nodes[0].clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 5);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    proxy.cut();
    client.event("connecting", &json!({}));
    let before = publisher.published();
    publisher.publish(&nodes.each_ref(), 50);
    proxy.lead_to(nodes[1].clients());
    proxy.mend();
    let back = client.event("subscribed", &json!({}));
    assert_eq!(back["recovered"], true, "{back}");
    publisher.heard_by(&client, before);
    publisher.heard_by(&source, before);
    // A page that is given another server has nothing twice, either.
    source.say(&format!("to {}", stream(nodes[1].clients(), "kept:a")));
    let back = source.event("subscribed", &json!({}));
    assert_eq!(back["told"]["recovered"], true, "{back}");
    let before = publisher.published();
    publisher.publish(&nodes.each_ref(), 5);
    publisher.heard_by(&client, before);
    publisher.heard_by(&source, before);
}

/// A node that dies takes nothing with it.
pub(crate) fn clients_of_a_node_that_is_killed_are_whole_on_another(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 2].map(|()| node(kind, broker.address()));
    let [mut dies, lives] = nodes;
    let proxy = Proxy::new(dies.clients());
    let clients = [(); 4].map(|()| subscriber(proxy.address(), "kept:a"));
    let witness = subscriber(lives.clients(), "kept:a");
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&[&dies, &lives], 10);
    dies.signal(Signal::KILL);
    let _ = dies.wait();
    proxy.cut();
    publisher.publish(&[&lives], 20);
    proxy.lead_to(lives.clients());
    proxy.mend();
    for client in &clients {
        client.event("subscribed", &json!({ "recovered": true }));
    }
    publisher.publish(&[&lives], 5);
    for client in &clients {
        publisher.heard_by(client, 0);
    }
    publisher.heard_by(&witness, 0);
}

/// Clients of emulated transports whose requests a balancer leads to another node than their
/// stream.
pub(crate) fn commands_that_come_to_another_node_are_carried_out(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [(); 3].map(|()| node(kind, broker.address()));
    let starts = [
        Sdk::javascript_stream,
        Sdk::javascript_protobuf_stream,
        Sdk::javascript_events,
    ];
    for (n, start) in starts.into_iter().enumerate() {
        let mut client = start();
        let mut order = url(nodes[n].clients());
        order["emulation"] = url(nodes[(n + 1) % 3].clients())["url"].clone();
        client.connect(&order);
        let channel = format!("kept:{n}");
        client.subscribe(&channel);
        for number in 0..5 {
            client.result("publish", &json!({ "channel": channel, "data": number }));
        }
        let heard = client.publications(&channel, 5);
        assert_eq!(heard, [0, 1, 2, 3, 4].map(|number| json!(number)));
    }
    // A node that is not there, by any node's word.
    let body = json!({ "session": "s", "node": "0123456789abcdef", "data": "{}" });
    let to = nodes[0].clients();
    let answer = request(to, "POST", "/emulation", &[], &body.to_string());
    assert_eq!(answer.status, 404);
}
