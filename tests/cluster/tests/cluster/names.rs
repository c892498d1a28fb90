//! What is left in Redis of names that clients made up.

use serde_json::json;
use throng_testkit::{Proxy, RedisServer, until};

use crate::broker::Kind;
use crate::nodes::{Publisher, node, subscriber};

/// The channels whose positions Redis keeps for more than seconds.
fn lasting(redis: &RedisServer) -> Vec<String> {
    let keys = redis.ask("KEYS throng:{*}:meta");
    let lasts = |key: &&str| {
        let left_ms: i64 = redis.ask(&format!("PTTL {key}")).parse().expect("a number");
        left_ms == -1 || left_ms > 10_000
    };
    keys.lines().filter(lasts).map(str::to_owned).collect()
}

/// Names that somebody subscribed to or asked the history of, and in which nobody published.
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
    // While somebody is there, its position lasts.
    assert_eq!(lasting(&redis).len(), 5);
    let other = subscriber(nodes[1].clients(), "kept:0");
    for n in 1..5 {
        let channel = json!({ "channel": format!("kept:{n}") });
        client.order("unsubscribe", &channel);
        client.event("unsubscribed", &channel);
    }
    until("names that nobody needs to be forgotten", || {
        (lasting(&redis) == ["throng:{kept:0}:meta"]).then_some(())
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
