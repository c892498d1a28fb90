//! A publisher's WebSocket, by the npm package `ws`, on three shards.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, script};

const KEPT: &str = "[[namespace]]\nname = \"kept\"\nhistory_size = 10000\nhistory_ttl = \"5m\"\n";

fn server() -> Server {
    Setup::new(KEPT).shards(3).api_key("sesame").start()
}

fn url(server: &Server) -> String {
    format!("ws://{}/pub", server.api_address())
}

/// The texts of a channel's history.
fn kept(server: &Server, channel: &str) -> Vec<Value> {
    let told = server.call("history", &json!({"channel": channel, "limit": -1}));
    let publications = told["result"]["publications"].as_array();
    { publications.map_or(&[][..], Vec::as_slice).iter() }
        .map(|one| one["data"].clone())
        .collect()
}

#[test]
fn messages_are_published_in_order_and_acknowledged() {
    const COUNT: u64 = 600;
    let server = server();
    let stranger = script("ws.mjs", &[&url(&server), "protocol=throng-publish"]);
    let refused = "Unexpected server response: 401";
    stranger.event("error", &json!({ "message": refused }));
    let mut client = script(
        "ws.mjs",
        &[&url(&server), "protocol=throng-publish", "key=sesame"],
    );
    client.event("open", &json!({}));
    for n in 1..=COUNT {
        let text = format!("kept:{}\n{n}", n % 8);
        client.say(&format!("json {}", json!(text)));
    }
    client.event("message", &json!({"data": format!("{{\"ack\":{COUNT}}}")}));
    for channel in 0..8 {
        let expected = (1..=COUNT).filter(|n| n % 8 == channel).map(Value::from);
        let found = kept(&server, &format!("kept:{channel}"));
        assert!(found.into_iter().eq(expected), "{channel}");
    }
    // A key makes a repetition harmless; a faulty publication is reported with its number.
    for text in [
        "kept:k\tkey\n\"one\"",
        "kept:k\tkey\n\"one\"",
        "no:where\n1",
        "no line",
    ] {
        client.say(&format!("json {}", json!(text)));
    }
    let refused = r#"{"n":603,"status":404,"error":"the channel's namespace is not configured"}"#;
    client.event("message", &json!({ "data": refused }));
    let refused = r#"{"n":604,"status":400,"error":"the message has no line with its channel"}"#;
    client.event("message", &json!({ "data": refused }));
    client.event("message", &json!({"data": "{\"ack\":604}"}));
    assert_eq!(kept(&server, "kept:k"), [json!("one")]);
    client.say("close");
    client.event("close", &json!({"code": 1000}));
    server.stop();
}
