//! A broker with contradictory answers: a network changes a position on its way.

use serde_json::json;
use throng_testkit::{Proxy, until};

use crate::broker::{Broker, Kind};
use crate::nodes::{node, subscriber};

/// Makes the delivery of the third publication one of the second position.
fn edit(kind: Kind, bytes: &mut [u8]) {
    let find = |word: &[u8], before: usize| {
        let mut windows = bytes[..before].windows(word.len());
        windows.rposition(|it| it == word)
    };
    let Some(end) = find(b"\"third\"", bytes.len()) else {
        return;
    };
    let offset = match kind {
        Kind::Redis => find(b" 3 ", end).map(|at| at + 1),
        // Behind the form, the time and the epoch.
        Kind::Nats => find(b"\r\n\r\n", end).map(|at| at + 4 + 1 + 6 + 8),
    };
    match offset.map(|at| &mut bytes[at]) {
        Some(byte @ b'3') => *byte = b'2',
        Some(byte @ 3) => *byte = 2,
        _ => {}
    }
}

/// A corrupted position is counted and logged, `/healthz` reports it, and clients are told of the
/// gap.
pub(crate) fn two_contents_for_one_position_are_told(kind: Kind) {
    let broker = Broker::start(kind);
    let network = Proxy::new(broker.address());
    let mut edited = false;
    network.edit(move |bytes| {
        if !edited {
            let before = bytes.to_vec();
            edit(kind, bytes);
            edited = bytes != before;
        }
    });
    let doubts = node(kind, network.address());
    let other = node(kind, broker.address());
    let clients = [&doubts, &other].map(|node| subscriber(node.clients(), "kept:a"));
    clients
        .iter()
        .for_each(|client| client.forget("subscribed"));
    let publish = |data: &str| {
        let answer = other.call("publish", &json!({ "channel": "kept:a", "data": data }));
        assert!(answer["error"].is_null(), "{answer}");
    };
    // A client that has not got the second yet may recover it, and has no content in doubt.
    for data in ["first", "second"] {
        publish(data);
        let heard = clients[0].event("publication", &json!({}));
        assert_eq!(heard["data"], data);
    }
    publish("third");
    let back = clients[0].event("subscribed", &json!({ "was_recovering": true }));
    let told = (&back["recovered"], &back["offset"]);
    assert_eq!(told, (&json!(false), &json!(3)), "{back}");
    doubts.counts("throng_broker_contradictions_total", 1);
    let health = doubts.ask("GET", "/healthz", "");
    assert_eq!(
        health.body.trim(),
        "degraded: the broker contradicted itself"
    );
    until("a line in the log", || {
        doubts.logged("two contents for one position") > 0
    });
    publish("fourth");
    let heard = clients[0].event("publication", &json!({}));
    assert_eq!(
        (&heard["data"], &heard["offset"]),
        (&json!("fourth"), &json!(4))
    );
    // The other node has seen nothing strange.
    for data in ["first", "second", "third", "fourth"] {
        assert_eq!(clients[1].event("publication", &json!({}))["data"], data);
    }
    assert_eq!(other.ask("GET", "/healthz", "").body.trim(), "ok");
}
