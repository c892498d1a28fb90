//! Two Redis that share the channels: one of them goes away, and the channels of the other go on.

use serde_json::json;
use throng_testkit::{RedisServer, Sdk, Server};

use crate::nodes::{Publisher, event_source, health, node_of, subscriber};

#[track_caller]
fn node(servers: &[RedisServer; 2]) -> Server {
    let [a, b] = servers.each_ref().map(RedisServer::url);
    let node = node_of(&format!("kind = \"redis\"\nurl = [\"{a}\", \"{b}\"]"));
    health(&node, "ok");
    node
}

/// The first channel with this beginning that each of them has; `node` publishes nothing there.
#[track_caller]
fn channels(servers: &[RedisServer; 2], node: &Server) -> [String; 2] {
    let names: Vec<String> = (0..32).map(|n| format!("kept:{n}")).collect();
    for name in &names {
        let page = node.call("history", &json!({ "channel": name, "limit": 0 }));
        assert!(page["error"].is_null(), "{page}");
    }
    servers.each_ref().map(|server| {
        let has = |name: &&String| server.ask(&format!("EXISTS throng:{{{name}}}:meta")) == "1";
        let theirs: Vec<&String> = names.iter().filter(has).collect();
        assert!((4..=28).contains(&theirs.len()), "{theirs:?}");
        theirs[0].clone()
    })
}

#[test]
fn one_of_two_redis_goes_away_and_the_channels_of_the_other_go_on() {
    let mut servers = [(); 2].map(|()| RedisServer::durable());
    let nodes = [(); 2].map(|()| node(&servers));
    assert_eq!(nodes[0].metric("throng_broker_up"), 2);
    let [lost, goes_on] = channels(&servers, &nodes[0]);
    let both = |channel: &str| -> [Sdk; 2] {
        let client = subscriber(nodes[0].clients(), channel);
        [client, event_source(nodes[1].clients(), channel)]
    };
    let (losers, others) = (both(&lost), both(&goes_on));
    let mut of_lost = Publisher::new(&lost);
    let mut of_other = Publisher::new(&goes_on);
    of_lost.publish(&nodes.each_ref(), 10);
    of_other.publish(&nodes.each_ref(), 10);
    servers[0].go_away();
    for node in &nodes {
        health(node, "degraded: a server of the broker is unavailable");
        node.counts("throng_broker_up", 1);
        let why = of_lost.try_one(node).expect_err("its Redis is away");
        assert!(why.contains("nothing was done"), "{why}");
    }
    // Not one of these is refused, and calls to all nodes still are answered.
    for n in 0..20 {
        of_other.try_one(&nodes[n % 2]).expect("its Redis is there");
    }
    let info = nodes[0].call("info", &json!({}));
    let count = info["result"]["nodes"].as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{info}");
    servers[0].come_back();
    nodes.iter().for_each(|node| health(node, "ok"));
    of_lost.publish(&nodes.each_ref(), 10);
    for (clients, publisher) in [(&losers, &of_lost), (&others, &of_other)] {
        for client in clients {
            publisher.heard_by(client, 0);
        }
    }
    assert_eq!(others[0].left("subscribing"), 0, "its Redis was there");
}
