//! The graceful end: every client is told in the way of its protocol, and the process ends in time.

use std::net::SocketAddr;

use serde_json::{Value, json};
use throng_testkit::{Deadline, Setup, Signal, Wire, escaped, post, until};

use crate::support::{sdks, subscribed, ws};

#[test]
fn everybody_is_told_to_come_back() {
    let config = "[drain]\ntimeout = \"1m\"\njitter = \"3s\"\n";
    let mut server = Setup::new(config).shards(2).start();
    let address = server.clients();
    let mut sse = server.get("/sse?channel=news");
    sse.through("subscribed");
    let mut lines = server.stream("/stream?channel=news");
    lines.chunk();
    let subs = escaped(r#"{"subs":{"news":{}}}"#);
    let mut uni = server.get(&format!("/connection/uni_sse?cf_connect={subs}"));
    uni.through("connect");
    let plain = ws(&server, "/ws?channel=news");
    let mut raw = ws(&server, "/connection/websocket");
    raw.say(r#"send {"id":1,"connect":{}}"#);
    raw.event("message", &json!({}));
    let sdks = sdks().map(|(_, start)| {
        let client = subscribed(start, address, "news");
        client.forget("connecting");
        client
    });
    let mut half = Wire::connect(address);
    half.send("GET /sse");
    until("the half request", || {
        server.metric("throng_connections{transport=\"http\"}") >= 2
    });
    let mut api = Wire::get(server.api_address(), "/healthz");
    api.response("GET");

    server.signal(Signal::TERM);
    let told = sse.rest();
    let retry = told
        .split("retry: ")
        .nth(1)
        .and_then(|rest| rest.split('\n').next());
    let retry: u64 = retry
        .and_then(|ms| ms.parse().ok())
        .unwrap_or_else(|| panic!("{told}"));
    assert!(retry <= 3000, "{told}");
    assert!(
        told.contains("event: disconnect") && told.contains("\"code\":3001"),
        "{told}"
    );
    // On a busy machine signs of life may come first.
    let mut chunks = std::iter::repeat_with(|| lines.chunk());
    let last = chunks
        .find(|chunk| chunk.trim_end() != "{}")
        .expect("a last word");
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["disconnect"]["code"], 3001);
    assert!(
        last["disconnect"]["reconnect_ms"]
            .as_u64()
            .is_some_and(|ms| ms <= 3000),
        "{last}"
    );
    assert_eq!(lines.chunk(), "", "the answer ends as chunked answers do");
    assert!(uni.rest().contains("\"disconnect\":{\"code\":3001"));
    plain.event("close", &json!({ "code": 1012 }));
    raw.event("close", &json!({ "code": 3001 }));
    for client in &sdks {
        client.event("connecting", &json!({ "code": 3001 }));
    }
    half.until_closed();
    api.until_closed();
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.logged("stopping") > 0, "{:?}", server.log());
}

/// Results of the calls of one publisher.
#[derive(Default)]
struct Calls {
    answered: u64,
    /// The connection ended without a byte of an answer.
    refused: u64,
}

/// Publishes on connections that stay, until the listener is gone.
fn publish_on(address: SocketAddr, is_slow: bool) -> Calls {
    let call = post("/pub?channel=news", "1");
    let mut calls = Calls::default();
    while let Some(mut wire) = Wire::try_connect(address) {
        loop {
            wire.send(&call);
            let Some(head) = wire.try_head() else {
                calls.refused += 1;
                break;
            };
            assert_eq!(head.status, 200);
            let length: usize = head.header("content-length").unwrap().parse().unwrap();
            wire.exactly(length);
            calls.answered += 1;
            if head.header("connection") == Some("close") {
                break;
            }
            if is_slow {
                std::thread::yield_now();
            }
        }
    }
    calls
}

/// Publishers on connections that stay are served until the last client has gone, and do not keep
/// the process alive.
#[test]
fn publishers_are_answered_to_the_end_and_do_not_delay_it() {
    let config = "[drain]\ntimeout = \"1d\"\njitter = \"0s\"\n";
    let mut server = Setup::new(config).shards(2).start();
    let api = server.api_address();
    let mut last = server.get("/sse?channel=news");
    last.through("subscribed");
    let mut idle = Wire::get(api, "/healthz");
    idle.response("GET");
    let mut half = Wire::connect(api);
    half.send("GET /healthz HTTP/1.1\r\nHost");
    let publishers: Vec<_> = (0..4)
        .map(|number| std::thread::spawn(move || publish_on(api, number % 2 == 0)))
        .collect();
    until("publications", || {
        let came = "throng_publications_total{source=\"api\"}";
        server.metric(came) > 100
    });
    server.signal(Signal::TERM);
    assert!(last.rest().contains("event: disconnect"));
    drop(last);
    half.send(": localhost\r\n\r\n");
    let told = half.response("GET");
    assert_eq!((told.status, &*told.body), (503, "draining\n"));
    idle.until_closed();
    assert_eq!(server.wait().code(), Some(0));
    let calls: Vec<Calls> = publishers
        .into_iter()
        .map(|one| one.join().unwrap())
        .collect();
    for calls in calls {
        assert!(calls.answered > 0);
        // What was on its way when its connection, or a shard's listener, was closed at the end.
        assert!(calls.refused <= 3, "{}", calls.refused);
    }
}

/// A client that takes nothing keeps its server from leaving, up to the time limit.
#[test]
fn the_time_limit_ends_it_whoever_is_left() {
    let config = "[drain]\ntimeout = \"1s\"\n[channel]\nslow_consumer = \"drop-oldest\"\n";
    let mut server = Setup::new(config).shards(1).start();
    let mut stuck = server.get("/sse?channel=news");
    stuck.through("subscribed");
    // More than the kernel holds for a connection that is not read.
    let large = "x".repeat(900_000);
    let deadline = Deadline::default();
    while server.metric("throng_dropped_total{policy=\"drop-oldest\"}") == 0 {
        deadline.check("a publication that is dropped");
        server.publish("news", &large);
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
}
