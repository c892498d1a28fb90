//! Common parts of these tests: a configuration, an SDK's address, fifty publications.

use serde_json::{Value, json};
use throng_testkit::{Sdk, Server, sign, unix_s};

/// Signs the tokens of tests.
pub(crate) const SECRET: &str = "a secret that is long enough for HS256";

/// A namespace that keeps enough for everything that a test misses.
pub(crate) const RECOVERY: &str = r#"
[[namespace]]
name = "chat"
history_size = 1000
history_ttl = "5m"
recovery = true
"#;

/// Function that starts a client.
pub(crate) type Start = fn() -> Sdk;

/// Both official SDKs in both forms of the protocol, each with its name.
pub(crate) fn sdks() -> [(&'static str, Start); 4] {
    [
        ("centrifuge-js", Sdk::javascript),
        ("centrifuge-python", Sdk::python),
        ("centrifuge-js-protobuf", Sdk::javascript_protobuf),
        ("centrifuge-python-protobuf", Sdk::python_protobuf),
    ]
}

/// centrifuge-js without a WebSocket: a stream downwards, a request for each command upwards.
pub(crate) fn emulated() -> [(&'static str, Start); 3] {
    [
        ("http_stream", Sdk::javascript_stream),
        ("http_stream-protobuf", Sdk::javascript_protobuf_stream),
        ("sse", Sdk::javascript_events),
    ]
}

/// Where an SDK connects.
pub(crate) fn url(address: std::net::SocketAddr) -> Value {
    json!({ "url": format!("ws://{address}/connection/websocket") })
}

/// Data that contains its number.
pub(crate) fn data(round: &str, count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| json!({ "round": round, "n": n }))
        .collect()
}

/// Publishes all of it in order.
#[track_caller]
pub(crate) fn publish(server: &Server, channel: &str, data: &[Value]) {
    for data in data {
        server.publish(channel, &data.to_string());
    }
}

/// A connection token that is good for so many seconds from now.
pub(crate) fn token(user: &str, seconds: i64) -> String {
    sign(
        &json!({ "sub": user, "exp": unix_s().saturating_add_signed(seconds) }),
        SECRET,
    )
}

/// A subscription token that is good for so many seconds from now.
pub(crate) fn channel_token(user: &str, channel: &str, seconds: i64) -> String {
    let exp = unix_s().saturating_add_signed(seconds);
    sign(
        &json!({ "sub": user, "channel": channel, "exp": exp }),
        SECRET,
    )
}

/// Writes another configuration, and asks for a reload: the status, and the answer.
#[track_caller]
pub(crate) fn reload(server: &Server, text: &str) -> (u16, Value) {
    server.configure(text);
    let answer = server.ask("POST", "/api/reload", "");
    let told = serde_json::from_str(&answer.body);
    (answer.status, told.unwrap_or_else(|_| panic!("{answer:?}")))
}
