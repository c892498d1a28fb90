//! permessage-deflate, as the SDKs' own WebSockets speak it: agreed to where a namespace asks for
//! it, smaller on the wire, and the same to those who do not offer it.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Server, Setup, script};

use crate::support::{sdks, subscribed, url};

const NEWS: &str = "[[namespace]]\nname = \"news\"\ncompression = true\n\n\
                    [[namespace]]\nname = \"raw\"\n";

const COUNT: usize = 20;

/// About 2 kB of JSON, as a board of orders may look.
fn board(n: usize) -> Value {
    let row = |k| json!({"symbol": "THRG", "side": "buy", "price": n * 100 + k, "quantity": k * 7});
    json!({"n": n, "rows": (0..35).map(row).collect::<Vec<_>>()})
}

fn socket(server: &Server, path: &str, options: &[&str]) -> (Sdk, String) {
    let url = format!("ws://{}{path}", server.clients());
    let client = script("ws.mjs", &[&[&*url], options].concat());
    let extensions = client.event("open", &json!({}))["extensions"].clone();
    (client, extensions.as_str().unwrap_or_default().to_owned())
}

/// Follows all boards, and reports the bytes that the connection has brought.
fn hear(client: &mut Sdk) -> u64 {
    for n in 0..COUNT {
        client.event(
            "message",
            &json!({"data": board(n).to_string(), "binary": false}),
        );
    }
    client.say("bytes");
    client.event("bytes", &json!({}))["read"].as_u64().unwrap()
}

#[test]
fn a_publication_is_compressed_for_those_who_offer_it() {
    let server = Setup::new(NEWS).shards(3).start();
    let (mut small, extensions) = socket(&server, "/ws?channel=news:a", &[]);
    assert!(extensions.starts_with("permessage-deflate"), "{extensions}");
    let (mut whole, extensions) = socket(&server, "/ws?channel=news:a", &["no-deflate"]);
    assert_eq!(extensions, "");
    let (mut raw, extensions) = socket(&server, "/ws?channel=raw:a", &[]);
    assert!(extensions.starts_with("permessage-deflate"), "{extensions}");
    let mut clients = Vec::new();
    for (name, start) in sdks() {
        let client = subscribed(start, server.clients(), "news:a");
        clients.push((name, client));
    }
    for n in 0..COUNT {
        server.publish("news:a", &board(n).to_string());
        server.publish("raw:a", &board(n).to_string());
    }
    let (small, whole, raw) = (hear(&mut small), hear(&mut whole), hear(&mut raw));
    assert!(small * 3 < whole, "{small} of {whole} bytes");
    assert!(raw >= whole, "{raw} and {whole} bytes");
    for (name, client) in &clients {
        let heard = client.publications("news:a", COUNT);
        let expected: Vec<Value> = (0..COUNT).map(board).collect();
        assert_eq!(heard, expected, "{name}");
    }
    server.stop();
}

#[test]
fn what_a_client_compresses_is_read() {
    let server = Setup::new(NEWS).start();
    let (listener, _) = socket(&server, "/ws?channel=news:a", &["no-deflate"]);
    for (n, (name, start)) in sdks().into_iter().enumerate() {
        let mut client = start();
        client.connect(&url(server.clients()));
        client.result("publish", &json!({"channel": "news:a", "data": board(n)}));
        let heard = listener.event("message", &json!({}));
        let heard: Value = serde_json::from_str(heard["data"].as_str().unwrap()).unwrap();
        assert_eq!(heard, board(n), "{name}");
    }
    server.stop();
}

#[test]
fn nothing_is_agreed_to_unless_a_namespace_asks_for_it() {
    let server = Setup::new("").start();
    for path in [
        "/ws?channel=a",
        "/connection/websocket",
        "/connection/uni_websocket",
    ] {
        let (_, extensions) = socket(&server, path, &[]);
        assert_eq!(extensions, "", "{path}");
    }
    server.stop();
}
