//! What is logged of clients that do not get what they ask for, and of calls that change something;
//! and that no secret is.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, Wire, request, until};

use crate::support::{SECRET, token};

const KEY: &str = "the-key-of-the-server-api";
const BAD_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2lnbmF0dXJl";

/// Waits for a line with these fields.
#[track_caller]
fn told(server: &Server, fields: &Value) -> Value {
    until("a line of the log", || {
        let wanted = fields.as_object().unwrap();
        let fits = |line: &Value| wanted.iter().all(|(name, value)| line[name] == *value);
        server.log().into_iter().find(fits)
    })
}

fn start() -> Server {
    Setup::new(&format!("[auth]\nhmac_secret = \"{SECRET}\"\n"))
        .api_key(KEY)
        .shards(1)
        .start()
}

#[test]
fn a_refusal_says_who_and_what_and_why() {
    let server = start();
    let get = |target: &str| request(server.clients(), "GET", target, &[], "").status;
    assert_eq!(get(&format!("/sse?channel=a&token={BAD_TOKEN}")), 401);
    let bad = json!({ "message": "refused", "address": "127.0.0.1", "what": "token" });
    assert!(
        told(&server, &bad)["why"]
            .as_str()
            .unwrap()
            .contains("signature")
    );
    assert_eq!(get("/sse?channel=a"), 401);
    told(
        &server,
        &json!({ "message": "refused", "what": "connect", "why": "no token" }),
    );
    let good = token("jo", 60);
    assert_eq!(get(&format!("/sse?channel=throng:stats&token={good}")), 403);
    told(
        &server,
        &json!({
            "message": "refused", "address": "127.0.0.1", "user": "jo", "what": "subscribe",
            "object": "throng:stats", "why": "no permission",
        }),
    );
    let origin = [("Origin", "https://evil.example")];
    let refused = request(server.clients(), "GET", "/sse?channel=a", &origin, "");
    assert_eq!(refused.status, 403);
    told(&server, &json!({ "what": "request", "object": "/sse" }));
    let wrong = [("X-API-Key", "a wrong key")];
    let refused = request(server.api_address(), "POST", "/api/info", &wrong, "{}");
    assert_eq!(refused.status, 401);
    told(
        &server,
        &json!({ "what": "request", "object": "/api/info" }),
    );
    // Changes and their authors are logged; publications only at `debug`.
    server.call("disconnect", &json!({ "user": "jo" }));
    told(
        &server,
        &json!({
            "message": "API call", "address": "127.0.0.1", "what": "disconnect", "user": "jo",
        }),
    );
    server.call("unsubscribe", &json!({ "user": "jo", "channel": "a" }));
    told(
        &server,
        &json!({ "message": "API call", "what": "unsubscribe", "object": "a" }),
    );
    server.publish("a", "hello");
    for line in server.log() {
        assert_ne!(line["what"], "publish", "{line}");
        let text = line.to_string();
        for secret in [SECRET, KEY, BAD_TOKEN, &good, "a wrong key", "hello"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    server.stop();
}

#[test]
fn a_flood_of_refusals_does_not_flood_the_log() {
    let server = start();
    for _ in 0..100 {
        let mut wire = Wire::connect(server.clients());
        let ask =
            format!("GET /sse?channel=a&token={BAD_TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire.send(&ask.repeat(4));
        wire.until_closed();
    }
    let more = json!({ "message": "more refusals than are logged" });
    assert!(told(&server, &more)["suppressed"].as_u64().unwrap() > 0);
    server.stop();
}
