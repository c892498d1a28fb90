//! Many publications in one request, on three shards: order, and more than fits.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, Wire, post};

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
fn batches_that_meet_full_queues_are_answered_one_for_one() {
    let server = server();
    let count = 10_000;
    let threads: Vec<_> = (0..12)
        .map(|n| {
            let body = commands(&format!("{n}."), count).to_string();
            let mut wire = Wire::connect(server.api_address());
            std::thread::spawn(move || {
                wire.send(&post("/api/batch", &body));
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
    wire.send(&post("/publish/", &body).repeat(2));
    for _ in 0..2 {
        let response = wire.response("POST");
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.body.trim_end(), "Published");
    }
    server.counts("throng_publications_total{source=\"grip\"}", 1000);
    server.stop();
}
