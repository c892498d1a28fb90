//! The server API answers for all nodes, or reports that it cannot.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Server, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{Publisher, node, up, url};

fn sum(nodes: &Value, field: &str) -> u64 {
    let nodes = nodes["result"]["nodes"].as_array().expect("nodes");
    nodes.iter().filter_map(|node| node[field].as_u64()).sum()
}

fn num_clients(node: &Server, channel: &str) -> Option<u64> {
    let channels = node.call("channels", &json!({ "pattern": "kept:*" }));
    channels["result"]["channels"][channel]["num_clients"].as_u64()
}

pub(crate) fn calls_concern_all_nodes_whichever_is_asked(kind: Kind) {
    let mut broker = Broker::start(kind);
    let nodes = [(); 3].map(|()| node(kind, broker.address()));
    let mut clients = nodes.each_ref().map(|node| (Sdk::javascript(), node));
    let ids = clients.each_mut().map(|(client, node)| {
        let id = client.connect(&url(node.clients()))["client"].clone();
        client.subscribe("kept:a");
        id
    });
    let clients = clients.map(|(client, _)| client);
    for node in &nodes {
        let info = node.call("info", &json!({}));
        assert_eq!(
            info["result"]["nodes"].as_array().map(Vec::len),
            Some(3),
            "{info}"
        );
        assert_eq!(
            (sum(&info, "num_clients"), sum(&info, "num_subs")),
            (3, 3),
            "{info}"
        );
        assert_eq!(num_clients(node, "kept:a"), Some(3));
    }
    let mut publisher = Publisher::new("kept:a");
    publisher.publish(&nodes.each_ref(), 3);
    // What is on its way to a client when it is unsubscribed does not reach it any more.
    for client in &clients {
        publisher.heard_by(client, 0);
    }
    // Each by its id, which another node than its own is given.
    for (n, (client, id)) in clients.iter().zip(&ids).enumerate() {
        let other = &nodes[(n + 1) % nodes.len()];
        let who = json!({ "user": "", "client": id, "channel": "kept:a" });
        let answer = other.call("unsubscribe", &who);
        assert!(answer["error"].is_null(), "{answer}");
        client.event(
            "unsubscribed",
            &json!({ "channel": "kept:a", "code": 2000 }),
        );
    }
    let left = || num_clients(&nodes[0], "kept:a").is_none();
    until("no subscriber", left);
    for (n, (client, id)) in clients.iter().zip(&ids).enumerate() {
        let other = &nodes[(n + 2) % nodes.len()];
        let answer = other.call("disconnect", &json!({ "user": "", "client": id }));
        assert!(answer["error"].is_null(), "{answer}");
        client.event("disconnected", &json!({ "code": 3503 }));
    }
    let removed = nodes[1].call("history_remove", &json!({ "channel": "kept:a" }));
    assert!(removed["error"].is_null(), "{removed}");
    let page = nodes[2].call("history", &json!({ "channel": "kept:a", "limit": 10 }));
    assert_eq!(page["result"]["publications"], json!([]), "{page}");
    // Not half of an answer.
    broker.go_away();
    up(&nodes[0], false);
    let answer = nodes[0].call("channels", &json!({}));
    assert_eq!(answer["error"]["code"], 100, "{answer}");
}
