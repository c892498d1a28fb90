//! Costs of clients' requests for other nodes, and what counts as a node.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use throng_testkit::{RedisServer, Server, request};

use crate::broker::Kind;
use crate::nodes::node;

const REQUESTS: u64 = 16;
const BYTES: u64 = 60_000;

/// Bytes that Redis has read and written.
fn traffic(redis: &RedisServer) -> [u64; 2] {
    let info = redis.ask("INFO stats");
    ["total_net_input_bytes:", "total_net_output_bytes:"].map(|name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a figure").trim().parse().expect("a number")
    })
}

/// Sends commands for a session of a node to another one; gives how many times their bytes went
/// into Redis and out of it.
#[track_caller]
fn sent(redis: &RedisServer, to: &Server, node: &str, status: u16) -> [u64; 2] {
    let data = "x".repeat(BYTES as usize);
    let body = json!({ "session": "s", "node": node, "data": data }).to_string();
    let before = traffic(redis);
    for _ in 0..REQUESTS {
        let answer = request(to.clients(), "POST", "/emulation", &[], &body);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let after = traffic(redis);
    // The nodes' own messages are far less than half of it.
    [0, 1].map(|at| (after[at] - before[at] + REQUESTS * BYTES / 2) / (REQUESTS * BYTES))
}

/// The name of a node: it is the first in its own answer.
fn name(node: &Server) -> String {
    let info = node.call("info", &json!({}));
    let uid = info["result"]["nodes"][0]["uid"].as_str();
    uid.expect("a name").to_owned()
}

#[test]
fn commands_for_another_node_go_to_that_one_alone() {
    let redis = RedisServer::start();
    let nodes = [(); 3].map(|()| node(Kind::Redis, redis.address()));
    assert_eq!(sent(&redis, &nodes[0], &name(&nodes[1]), 204), [1, 1]);
    // A name that no node has.
    assert_eq!(sent(&redis, &nodes[0], "0123456789abcdef", 404), [0, 0]);
}

/// A client that listens to everything by a pattern is no node, and is not waited for.
#[test]
fn who_listens_by_a_pattern_is_no_node() {
    let redis = RedisServer::start();
    let nodes = [(); 2].map(|()| node(Kind::Redis, redis.address()));
    let mut foreign = TcpStream::connect(redis.address()).expect("it listens");
    foreign.write_all(b"PSUBSCRIBE *\r\n").expect("it reads");
    let mut confirmed = [0; 4];
    foreign.read_exact(&mut confirmed).expect("an answer");
    let info = nodes[0].call("info", &json!({}));
    let count = info["result"]["nodes"].as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{info}");
    let answer = nodes[1].call("disconnect", &json!({ "user": "nobody" }));
    assert!(answer["error"].is_null(), "{answer}");
    assert_eq!(sent(&redis, &nodes[0], "0123456789abcdef", 404), [0, 0]);
}

/// A call that may have been carried out is not reported as one that was not.
#[test]
fn a_call_without_all_answers_is_told_as_a_doubt() {
    let redis = RedisServer::start();
    let node = node(Kind::Redis, redis.address());
    // It receives the nodes' requests, and never answers.
    let mut foreign = TcpStream::connect(redis.address()).expect("it listens");
    foreign
        .write_all(b"SUBSCRIBE throng:nodes:all\r\n")
        .expect("it reads");
    let mut confirmed = [0; 4];
    foreign.read_exact(&mut confirmed).expect("an answer");
    let answer = node.call("disconnect", &json!({ "user": "nobody" }));
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(answer["error"]["code"], 100, "{answer}");
    assert!(why.contains("may have been done"), "{answer}");
}
