//! What is left in Redis and in NATS of names that clients made up.

use serde_json::{Value, json};
use throng_testkit::{NatsServer, Proxy, RedisServer, Server, until};

use crate::broker::Kind;
use crate::nodes::{Publisher, node, patient_node, subscriber, up};

/// The channels whose positions Redis keeps for more than seconds.
fn lasting(redis: &RedisServer) -> Vec<String> {
    let keys = redis.ask("KEYS throng:{*}:meta");
    let lasts = |key: &&str| {
        let left_ms: i64 = redis.ask(&format!("PTTL {key}")).parse().expect("a number");
        left_ms == -1 || left_ms > 10_000
    };
    keys.lines().filter(lasts).map(str::to_owned).collect()
}

/// Names that clients subscribed to or asked the history of, and in which nothing was published.
#[test]
fn names_without_publications_leave_nothing() {
    let redis = RedisServer::start();
    let nodes = [(); 2].map(|()| node(Kind::Redis, redis.address()));
    let proxy = Proxy::new(nodes[0].clients());
    let mut client = subscriber(proxy.address(), "kept:0");
    for n in 1..5 {
        client.subscribe(&format!("kept:{n}"));
        let history = json!({ "channel": format!("kept:asked{n}"), "limit": 10 });
        let page = nodes[1].call("history", &history);
        assert!(page["error"].is_null(), "{page}");
    }
    // While a subscriber is there, its position lasts.
    assert_eq!(lasting(&redis).len(), 5);
    let other = subscriber(nodes[1].clients(), "kept:0");
    for n in 1..5 {
        let channel = json!({ "channel": format!("kept:{n}") });
        client.order("unsubscribe", &channel);
        client.event("unsubscribed", &channel);
    }
    until("names that nobody needs to be forgotten", || {
        lasting(&redis) == ["throng:{kept:0}:meta"]
    });
    // The other one still has the place that both had.
    proxy.cut();
    client.event("connecting", &json!({}));
    let mut publisher = Publisher::new("kept:0");
    publisher.publish(&[&nodes[1]], 3);
    proxy.mend();
    let back = client.event(
        "subscribed",
        &json!({ "channel": "kept:0", "was_recovering": true }),
    );
    assert_eq!(back["recovered"], true, "{back}");
    for client in [&client, &other] {
        publisher.heard_by(client, 0);
    }
    assert_eq!(lasting(&redis), ["throng:{kept:0}:meta"]);
}

/// The messages that NATS keeps of channels.
fn kept(nats: &NatsServer) -> u64 {
    let info = { nats.ask("$JS.API.STREAM.INFO.throng_kept_kept") }.expect("an answer");
    let info: Value = serde_json::from_str(&info).expect("JSON");
    info["state"]["messages"].as_u64().expect("a number")
}

/// Names that were asked for by a hundred at once: 3,000 on one node, and as many on the other one.
#[test]
fn thousands_of_names_leave_nothing_in_nats() {
    let nats = NatsServer::start();
    let nodes = [(); 2].map(|()| patient_node(Kind::Nats, nats.address()));
    let pages = |node: &Server, from: usize| {
        let commands: Vec<Value> = (from..from + 100)
            .map(|n| json!({ "history": { "channel": format!("kept:asked{n}"), "limit": 10 } }))
            .collect();
        let answer = node.call("batch", &json!({ "commands": commands, "parallel": true }));
        let replies = answer["replies"].as_array().expect("replies").clone();
        assert_eq!(replies.len(), 100, "{answer}");
        { replies.iter() }
            .map(|reply| reply["history"]["epoch"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    for from in (0..3000).step_by(100) {
        let epochs = pages(&nodes[0], from);
        assert!(epochs.iter().all(Option::is_some), "{epochs:?}");
        assert_eq!(pages(&nodes[1], from), epochs, "each node gives the same");
    }
    let mut client = subscriber(nodes[0].clients(), "kept:0");
    for n in 1..100 {
        client.subscribe(&format!("kept:{n}"));
    }
    // The one that all epochs are made of.
    assert_eq!(kept(&nats), 1);
    // An operator's command with nothing to forget.
    let removed = nodes[1].call("history_remove", &json!({ "channel": "kept:none" }));
    assert!(removed["error"].is_null(), "{removed}");
    assert_eq!(kept(&nats), 1);
}

/// A client of an empty channel on one node comes back on another one, and misses nothing.
#[test]
fn the_place_in_an_empty_channel_is_good_on_every_node() {
    let mut nats = NatsServer::durable();
    let nodes = [(); 3].map(|()| node(Kind::Nats, nats.address()));
    let proxy = Proxy::new(nodes[0].clients());
    let client = subscriber(proxy.address(), "kept:0");
    let other = subscriber(nodes[1].clients(), "kept:0");
    proxy.cut();
    client.event("connecting", &json!({}));
    // NATS begins again twice, with nothing of the channel.
    for _ in 0..2 {
        nats.go_away();
        nodes.iter().for_each(|node| up(node, false));
        nats.come_back();
        nodes.iter().for_each(|node| up(node, true));
        let page = nodes[2].call("history", &json!({ "channel": "kept:0" }));
        assert!(page["error"].is_null(), "{page}");
    }
    let mut publisher = Publisher::new("kept:0");
    publisher.publish(&[&nodes[1]], 3);
    proxy.lead_to(nodes[2].clients());
    proxy.mend();
    let back = client.event(
        "subscribed",
        &json!({ "channel": "kept:0", "was_recovering": true }),
    );
    assert_eq!(back["recovered"], true, "{back}");
    for client in [&client, &other] {
        publisher.heard_by(client, 0);
    }
}
