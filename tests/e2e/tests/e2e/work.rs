//! What one client may make the server do: the bytes that got past the limits before, and what
//! honest clients send.

use serde_json::{Value, json};
use throng_testkit::{Backend, HANDSHAKE, Server, Setup, Wire, post, sign, until};

use crate::support::SECRET;

/// A connect, and commands up to this number, in one frame.
fn commands(end: u32, command: impl Fn(u32) -> Value) -> String {
    let connect = r#"{"id":1,"connect":{}}"#.to_owned();
    let others = (2..end).map(|id| {
        let mut command = command(id);
        command["id"] = json!(id);
        format!("\n{command}")
    });
    [connect].into_iter().chain(others).collect()
}

/// The code of the close frame at the end.
fn end(wire: &mut Wire) -> u16 {
    let rest = wire.rest_bytes();
    let at = rest
        .windows(2)
        .rposition(|pair| pair[0] == 0x88)
        .expect("a close frame");
    u16::from_be_bytes([rest[at + 2], rest[at + 3]])
}

fn overspent(server: &Server, allowance: &str) -> u64 {
    server.metric(&format!(
        "throng_overspent_total{{allowance=\"{allowance}\"}}"
    ))
}

#[test]
fn a_limit_counts_commands_and_not_frames() {
    let server = Setup::new("[limits]\nmessages_per_second_max = 1\n")
        .shards(1)
        .start();
    let mut wire = server.websocket("/connection/websocket");
    let commands = commands(
        1_419,
        |_| json!({ "publish": { "channel": "a", "data": 1 } }),
    );
    assert!(commands.len() <= 64 << 10, "{}", commands.len());
    wire.say(&commands);
    assert_eq!(end(&mut wire), 3013);
    // Twice the limit at once: the connect and one publish.
    let published = server.metric("throng_publications_total{source=\"client\"}");
    assert!(published <= 1, "{published}");
    assert_eq!(overspent(&server, "connection"), 1);
    server.counts(
        "throng_connections_closed_total{reason=\"too_many_requests\"}",
        1,
    );
    server.stop();
}

/// Commands that wait for a backend's answer are charged to the client that sent them, and not to
/// the one served last before the answer came.
#[test]
fn what_a_backend_s_answer_sets_free_is_paid_by_its_client() {
    let backend = Backend::start(r#"/connect => held {"result":{"user":"ann"}}"#);
    let address = backend.address();
    let server = Setup::new(&format!(
        "[listen]\ntrusted_proxies = [\"127.0.0.1\"]\n[limits]\naddress_work_max = \"1ms\"\n\
         messages_per_second_max = 0\n[auth]\nhmac_secret = \"{SECRET}\"\n[channel]\n\
         subscribe = true\n[proxy]\nconnect = \"http://{address}/connect\"\n"
    ));
    let server = server.shards(1).start();
    let open = |path: &str, address: &str| {
        let mut wire = Wire::connect(server.clients());
        wire.ask(path, &format!("X-Forwarded-For: {address}\r\n{HANDSHAKE}"));
        (wire.head().status, wire)
    };
    let (_, mut ann) = open("/connection/websocket", "192.0.2.1");
    // More than two seconds' worth.
    ann.say(&commands(2_000, |_| json!({ "ping": {} })));
    until("a question", || backend.count("/connect", &json!({})) == 1);
    // No backend is asked about a token.
    let path = format!(
        "/ws?channel=a&token={}",
        sign(&json!({ "sub": "bob" }), SECRET)
    );
    let (status, _other) = open(&path, "192.0.2.2");
    assert_eq!(status, 101);
    backend.release();
    assert_eq!(end(&mut ann), 3013);
    // Not asked: whether the first address is still refused, since its debt melts as time passes.
    assert_eq!(open(&path, "192.0.2.2").0, 101, "another client");
    server.stop();
}

#[test]
fn a_page_may_subscribe_to_all_its_channels_in_one_frame() {
    let server = Setup::new("[limits]\nchannels_per_connection = 500\n")
        .shards(1)
        .start();
    let mut wire = server.websocket("/connection/websocket");
    wire.say(&commands(
        502,
        |id| json!({ "subscribe": { "channel": format!("c{id}") } }),
    ));
    wire.through("\"id\":501");
    wire.say("{\"id\":600,\"publish\":{\"channel\":\"c2\",\"data\":1}}");
    wire.through("\"id\":600");
    server.stop();
}

#[test]
fn requests_of_one_connection_are_limited_and_calls_of_the_api_are_not() {
    let server = Setup::new("[limits]\nrequests_per_second_max = 50\n")
        .shards(1)
        .start();
    let mut wire = Wire::connect(server.clients());
    wire.send(&"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000));
    let mut served = 0;
    let refused = loop {
        let answer = wire.response("GET");
        if answer.status != 200 {
            break answer;
        }
        served += 1;
    };
    assert!((100..300).contains(&served), "{served}");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("2"));
    wire.until_closed();
    // A publisher that pipelines.
    let mut api = Wire::connect(server.api_address());
    let publish = post("/pub?channel=a", "1");
    for _ in 0..20 {
        api.send(&publish.repeat(128));
        for _ in 0..128 {
            assert_eq!(api.response("POST").status, 200);
        }
    }
    server.stop();
}
