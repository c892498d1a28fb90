//! Peers that fail the handshake, or stop in the middle: they are closed, counted and logged, and
//! no other client notices.

use serde_json::json;
use throng_testkit::{Setup, Wire, until};

use super::{Scene, subscribed};
use crate::support::{data, publish};

/// The start of a handshake: a record of 512 bytes, of which some are there.
fn half_a_hello() -> Vec<u8> {
    let mut hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
    hello.extend([7; 100]);
    hello
}

#[test]
fn bad_handshakes_bother_nobody() {
    let scene = Scene::default();
    let config = scene.config("handshake_timeout = \"1s\"\n[limits]\naddress_work_max = \"0s\"\n");
    let server = Setup::new(&config).shards(1).tls_clients().start();
    let at = server.clients();
    let ws = scene.script("ws.mjs", &[&format!("wss://{at}/ws?channel=news")]);
    ws.event("open", &json!({}));
    subscribed(&server, 1);
    let mut kept = Vec::new();
    for n in 0..40 {
        // A client without TLS is told so, and closed: by a response if it speaks HTTP.
        let mut plain = Wire::get(at, "/ws");
        let answer = plain.response("GET");
        assert_eq!(answer.status, 400);
        assert_eq!(
            answer.body,
            "This port speaks TLS: use https:// or wss://.\n"
        );
        plain.until_closed();
        let mut other = Wire::connect(at);
        other.send("\0 is no TLS");
        assert_eq!(other.exactly(1), [0x15]);
        other.until_closed();
        // A client that sends half of it, or a record for each byte, or too much, is given up.
        let mut half = Wire::connect(at);
        half.send_bytes(&half_a_hello()[..10 + n]);
        kept.push(half);
        let mut tiny = Wire::connect(at);
        tiny.send_bytes(b"\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x01\x00");
        kept.push(tiny);
        let mut long = Wire::connect(at);
        long.send_bytes(b"\x16\x03\x01\xff\xff\x01");
        long.until_closed();
        // A client that goes away early is not worth a line.
        let mut early = Wire::connect(at);
        early.send_bytes(&half_a_hello());
        drop(early);
    }
    let sent = data("meanwhile", 50);
    publish(&server, "news", &sent);
    for data in sent {
        ws.event("message", &json!({ "data": data.to_string() }));
    }
    for mut half in kept {
        half.until_closed();
    }
    let count = |result: &str| {
        server.metric(&format!(
            "throng_tls_handshakes_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!(
        (count("full"), count("refused"), count("timed_out")),
        (1, 120, 80)
    );
    until("those that went are counted", || count("gone") == 40);
    server.counts("throng_connections{transport=\"websocket\"}", 1);
    let log = server.log();
    let told: Vec<_> = log.iter().filter(|line| line["what"] == "tls").collect();
    // There are more faults than log lines.
    assert!((20..200).contains(&told.len()), "{}", told.len());
    for why in [
        "received plain HTTP on a TLS port",
        "the bytes received are not TLS",
        "the handshake took too long",
    ] {
        let line = told.iter().find(|line| line["why"] == why);
        assert!(
            line.is_some_and(|line| line["address"] == "127.0.0.1"),
            "{why}: {told:?}"
        );
    }
    server.stop();
}

/// A client that speaks TLS to a plain port is told why it does not work.
#[test]
fn tls_on_a_plain_port_is_named() {
    let server = Setup::new("").shards(1).start();
    for port in [server.clients(), server.api_address()] {
        let mut wire = Wire::connect(port);
        wire.send_bytes(&half_a_hello());
        let answer = wire.response("GET");
        assert_eq!(answer.status, 400);
        let why = "This is TLS, and the port speaks plain HTTP: use http:// or ws://.";
        assert_eq!(answer.body.trim_end(), why);
        wire.until_closed();
        // The line is written before the connection is closed, and read on another way.
        let told = until("a line about it", || {
            let log = server.log().into_iter();
            let told: Vec<_> = log.filter(|line| line["what"] == "tls").collect();
            (!told.is_empty()).then_some(told)
        });
        assert!(told.iter().all(|line| line["why"] == why), "{told:?}");
    }
    server.counts("throng_bad_requests_total", 2);
    server.stop();
}

/// Handshakes cost more than anything else that a stranger may ask for: each address has its
/// allowance.
#[test]
fn an_address_has_no_more_handshakes_than_it_may() {
    let scene = Scene::default();
    let more = "[listen]\ntrusted_proxies = [\"192.0.2.1\"]\n[limits]\naddress_work_max = \
                \"1ms\"\n";
    let server = scene.start(more);
    let url = format!("https://{}/healthz", server.clients());
    let refused = "throng_connections_refused_total{reason=\"handshakes\"}";
    until("one too many", || {
        let _ = scene.curl(&[&url]);
        server.metric(refused) > 0
    });
    server.stop();
}
