//! Many publications in one request, on three shards: order, more than fits, and the end of the
//! server.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, Signal, Wire};

const KEPT: &str = "[[namespace]]\nname = \"kept\"\nhistory_size = 10000\nhistory_ttl = \"5m\"\n";
/// Channels, so many that each shard is home to some.
const CHANNELS: usize = 16;

fn server() -> Server {
    Setup::new(KEPT).shards(3).start()
}

fn commands(name: &str, count: usize) -> Value {
    let one = |n: usize| {
        let channel = format!("kept:{name}{}", n % CHANNELS);
        json!({"publish": {"channel": channel, "data": n}})
    };
    json!({"commands": (0..count).map(one).collect::<Vec<_>>()})
}

fn request(target: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Each command has an answer; those that were accepted have their places in their channels.
/// Gives how many were.
#[track_caller]
fn check(told: &str, count: usize) -> usize {
    let told: Value = serde_json::from_str(told).expect("JSON");
    let replies = told["replies"].as_array().expect("replies");
    assert_eq!(replies.len(), count);
    let mut tops = [0; CHANNELS];
    let mut accepted = 0;
    for (n, reply) in replies.iter().enumerate() {
        match reply["publish"]["offset"].as_u64() {
            Some(offset) => {
                accepted += 1;
                tops[n % CHANNELS] += 1;
                assert_eq!(offset, tops[n % CHANNELS], "{n}");
            }
            // A queue was full.
            None => assert_eq!(reply["error"]["code"], 100, "{n}: {reply}"),
        }
    }
    accepted
}

#[test]
fn a_batch_and_a_broadcast_are_answered_in_order_and_whole() {
    let server = server();
    let told = server.ask("POST", "/api/batch", &commands("a", 5000).to_string());
    assert_eq!(check(&told.body, 5000), 5000);
    let before = server.metric("throng_mail_total");
    let channels: Vec<String> = (0..3000).map(|n| format!("kept:b{n}")).collect();
    let told = server.call("broadcast", &json!({"channels": channels, "data": 1}));
    let responses = told["result"]["responses"].as_array().expect("one each");
    assert_eq!(responses.len(), 3000);
    assert!({ responses.iter() }.all(|one| one["result"]["offset"] == 1));
    // To each other shard and back, and what else shards have to say meanwhile.
    let messages = server.metric("throng_mail_total") - before;
    assert!((4..100).contains(&messages), "{messages}");
    server.stop();
}

#[test]
fn batches_that_meet_full_queues_are_answered_one_for_one() {
    let server = server();
    let count = 10_000;
    let threads: Vec<_> = (0..12)
        .map(|n| {
            let body = commands(&format!("{n}."), count).to_string();
            let mut wire = Wire::connect(server.api_address());
            std::thread::spawn(move || {
                wire.send(&request("/api/batch", &body));
                check(&wire.response("POST").body, count)
            })
        })
        .collect();
    let accepted: usize = { threads.into_iter() }
        .map(|thread| thread.join().expect("a good answer"))
        .sum();
    assert!(accepted > 0);
    let told = server.metric("throng_publications_total{source=\"api\"}");
    assert_eq!(
        told,
        12 * count as u64,
        "those that were refused were tried"
    );
    server.stop();
}

#[test]
fn a_server_that_stops_answers_batches_that_it_has_begun() {
    let mut server = server();
    let body = commands("a", 10_000).to_string();
    let mut wires: Vec<Wire> = (0..4)
        .map(|_| Wire::connect(server.api_address()))
        .collect();
    for wire in &mut wires {
        // The first is sure to be begun; the others may be cut off whole.
        wire.send(&request("/api/publish", r#"{"channel":"kept:x","data":0}"#));
        assert_eq!(wire.response("POST").status, 200);
        wire.send(&request("/api/batch", &body));
    }
    server.signal(Signal::TERM);
    for wire in &mut wires {
        let told = wire.rest();
        if let Some((head, told)) = told.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let told: Value = serde_json::from_str(told).expect("a whole answer");
            assert_eq!(told["replies"].as_array().map(Vec::len), Some(10_000));
        }
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn items_of_grip_and_commands_of_a_socket_go_to_three_shards_in_order() {
    let config = "[grip]\nhttp_publish = \"127.0.0.1:0\"\n[[grip.route]]\npath = \"/\"\norigin = \
                  [\"http://127.0.0.1:9\"]\n";
    let server = Setup::new(config).shards(3).start();
    let item = |n: usize| {
        let formats = json!({"http-stream": {"content": format!("{n}\n")}});
        json!({"channel": format!("c{n}"), "formats": formats})
    };
    let items: Vec<Value> = (0..500).map(item).collect();
    let body = json!({ "items": items }).to_string();
    let mut wire = Wire::connect(server.grip("http_publish"));
    // Two requests at once: the second one waits for the first, and is answered behind it.
    wire.send(&request("/publish/", &body).repeat(2));
    for _ in 0..2 {
        let response = wire.response("POST");
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.body.trim_end(), "Published");
    }
    assert_eq!(
        server.metric("throng_publications_total{source=\"grip\"}"),
        1000
    );
    server.stop();
}
