//! Nodes whose clocks do not agree.

use serde_json::json;
use throng_testkit::{Proxy, Server, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{Publisher, event_source, lines, members, setup, subscriber, up};

/// A node on this broker whose clock is so many seconds ahead.
#[track_caller]
fn node(kind: Kind, broker: &Broker, ahead_s: i32) -> Server {
    let node = setup(&lines(kind, broker.address())).clock(ahead_s).start();
    up(&node, true);
    node
}

/// Ten seconds are more than a lease is renewed in, and less than any history.
pub(crate) fn clocks_apart_by_ten_seconds_change_nothing(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes = [0, 10, -10].map(|ahead_s| node(kind, &broker, ahead_s));
    let proxy = Proxy::new(nodes[0].clients());
    let client = subscriber(proxy.address(), "kept:a");
    let source = event_source(nodes[1].clients(), "kept:a");
    let present = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "room:a"));
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 30);
    publisher.heard_by(&client, 0);
    publisher.heard_by(&source, 0);
    proxy.cut();
    client.event("connecting", &json!({}));
    publisher.publish(&nodes.each_ref(), 30);
    proxy.lead_to(nodes[2].clients());
    proxy.mend();
    let back = client.event("subscribed", &json!({}));
    assert_eq!(back["recovered"], true, "{back}");
    publisher.heard_by(&client, 30);
    publisher.heard_by(&source, 30);
    let pages = nodes.each_ref().map(|node| {
        node.call("history", &json!({ "channel": "kept:a", "limit": 100 }))["result"].clone()
    });
    assert_eq!(pages[0]["publications"].as_array().map(Vec::len), Some(60));
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
    // Repeated with its key on a node with another clock, it is there once.
    publisher.repeat_last(&nodes[1]);
    publisher.repeat_last(&nodes[2]);
    assert_eq!(client.left("publication") + source.left("publication"), 0);
    for node in &nodes {
        until("three members", || members(node, "room:a") == 3);
    }
    drop(present);
}
