//! A Redis that answers and refuses writes: full, or without enough replicas.

use serde_json::{Value, json};
use throng_testkit::{RedisServer, Server, until};

use crate::broker::Kind;
use crate::nodes::{health, members, node, subscriber, up};

/// Full, and without a replica: how to bring each about, and how to end it.
const REFUSALS: [[&str; 2]; 2] = [
    ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
    [
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0",
    ],
];

/// Number of warnings in the log that contain this text.
fn said(node: &Server, words: &str) -> usize {
    let lines = node.log();
    let has = |line: &&Value| line.to_string().contains(words) && line["level"] == "WARN";
    lines.iter().filter(has).count()
}

/// A publication that is refused as not done is not delivered, and its repeat is delivered once.
#[test]
fn what_a_full_redis_refuses_was_not_published() {
    let redis = RedisServer::start();
    let node = node(Kind::Redis, redis.address());
    let cases = [("plain", false), ("kept:a", true), ("kept:b", false)];
    let clients = cases.map(|(channel, _)| subscriber(node.clients(), channel));
    for (n, [refuse, accept]) in REFUSALS.iter().enumerate() {
        redis.ask(refuse);
        let publish = |(channel, skip): (&str, bool)| {
            let body = json!({
                "channel": channel,
                "data": n,
                "skip_history": skip,
                "idempotency_key": format!("{n}"),
            });
            node.call("publish", &body)
        };
        for _ in 0..3 {
            for case in cases {
                let answer = publish(case);
                let why = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(why.contains("nothing was done"), "{case:?}: {answer}");
            }
        }
        redis.ask(accept);
        for case in cases {
            let answer = publish(case);
            assert!(answer["error"].is_null(), "{case:?}: {answer}");
        }
    }
    for client in &clients {
        for n in 0..REFUSALS.len() {
            client.event("publication", &json!({ "data": n }));
        }
        assert_eq!(client.left("publication"), 0, "each was delivered once");
    }
}

/// An error behind the first effect of a script is not reported as if nothing had been done.
#[test]
fn an_error_after_an_effect_is_told_as_a_doubt() {
    let redis = RedisServer::start();
    let node = node(Kind::Redis, redis.address());
    // It may write the history, and may not publish it.
    redis.ask("ACL SETUSER default resetchannels &throng:n*");
    let body = json!({ "channel": "kept:a", "data": 1 });
    let answer = node.call("publish", &body);
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("may have published"), "{answer}");
}

/// One warning a change, not one a command; and the node's health shows it.
#[test]
fn a_redis_that_refuses_writes_is_told_once_and_seen() {
    let redis = RedisServer::start();
    let node = node(Kind::Redis, redis.address());
    let refusing = "throng_broker_refusing_writes";
    for (round, [refuse, accept]) in (1..).zip(REFUSALS) {
        node.counts(refusing, 0);
        redis.ask(refuse);
        for n in 0..10 {
            let body = json!({ "channel": "kept:a", "data": n });
            let answer = node.call("publish", &body);
            assert!(!answer["error"].is_null(), "{answer}");
        }
        health(&node, "degraded: the broker refuses writes");
        node.counts(refusing, 1);
        redis.ask(accept);
        up(&node, true);
        assert_eq!(said(&node, "refuses"), round);
    }
    // Also where nothing is published: a node writes now and then by itself.
    redis.ask(REFUSALS[0][0]);
    health(&node, "degraded: the broker refuses writes");
}

/// Members who come and leave while nothing can be written are listed rightly afterwards.
#[test]
fn members_are_right_when_writes_are_taken_again() {
    let redis = RedisServer::start();
    let nodes = [(); 2].map(|()| node(Kind::Redis, redis.address()));
    let [left, stays] = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "crowd:a"));
    redis.ask(REFUSALS[0][0]);
    for node in &nodes {
        health(node, "degraded: the broker refuses writes");
    }
    // Two come and one leaves; more than a lease's time goes by.
    let came = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "crowd:a"));
    drop(left);
    until("the leases' end", || {
        redis.ask("KEYS throng:lease:*").is_empty()
    });
    redis.ask(REFUSALS[0][1]);
    nodes.iter().for_each(|node| up(node, true));
    for node in &nodes {
        until("three members", || members(node, "crowd:a") == 3);
        let answer = node.call("presence", &json!({ "channel": "crowd:a" }));
        let members = answer["result"]["presence"].as_object().map(|it| it.len());
        assert_eq!(members, Some(3), "{answer}");
    }
    drop((stays, came));
}
