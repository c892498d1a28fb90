//! Answers of a broker that a network changes on their way: a position, or whom they are for.

use serde_json::json;
use throng_testkit::{Proxy, Server, Signal, until};

use crate::nodes::{Broker, TIMEOUT, subscriber};

/// Makes the delivery of the third publication one of the second position.
fn edit(is_redis: bool, bytes: &mut [u8]) {
    let find = |word: &[u8], before: usize| {
        let mut windows = bytes[..before].windows(word.len());
        windows.rposition(|it| it == word)
    };
    let Some(end) = find(b"\"third\"", bytes.len()) else {
        return;
    };
    let offset = match is_redis {
        true => find(b" 3 ", end).map(|at| at + 1),
        // Behind the form, the time and the epoch.
        false => find(b"\r\n\r\n", end).map(|at| at + 4 + 1 + 6 + 8),
    };
    match offset.map(|at| &mut bytes[at]) {
        Some(byte @ b'3') => *byte = b'2',
        Some(byte @ 3) => *byte = 2,
        _ => {}
    }
}

/// A corrupted position is counted and logged, `/healthz` reports it, and clients are told of the
/// gap.
pub(crate) fn two_contents_for_one_position_are_told(broker: Broker) {
    let is_redis = matches!(broker, Broker::Redis(_));
    let network = Proxy::new(broker.address());
    let mut edited = false;
    network.edit(move |bytes| {
        if !edited {
            let before = bytes.to_vec();
            edit(is_redis, bytes);
            edited = bytes != before;
        }
    });
    let doubts = broker.node(network.address(), TIMEOUT);
    let other = broker.node(broker.address(), TIMEOUT);
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

/// A publication with a key has happened on NATS, and its node reports it to no client before it is
/// killed: the repeat has its place.
#[test]
fn a_node_is_killed_before_it_hears_that_a_publication_is_taken() {
    let nats = Broker::nats();
    let network = Proxy::new(nats.address());
    let [first, second] = [network.address(), nats.address()].map(|it| nats.node(it, TIMEOUT));
    let client = subscriber(second.clients(), "kept:a");
    let publish = |node: &Server, data: &str| {
        let body = json!({ "channel": "kept:a", "data": data, "idempotency_key": data });
        node.call("publish", &body)
    };
    assert_eq!(publish(&first, "one")["result"]["offset"], 1);
    let taken = b"{\"stream\":\"throng_kept_kept\"";
    network.edit(move |bytes| {
        // Such an answer is for no request.
        for at in 0..bytes.len().saturating_sub(taken.len()) {
            if bytes[at..].starts_with(taken) {
                let line = bytes[..at].iter().rposition(|byte| *byte == b'.');
                let number = &mut bytes[line.expect("a subject") + 1..at];
                let digits = number.iter_mut().take_while(|byte| byte.is_ascii_digit());
                digits.for_each(|byte| *byte = b'0');
            }
        }
    });
    let answer = publish(&first, "two");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("may have published"), "{answer}");
    first.signal(Signal::KILL);
    for (offset, data) in [(2, "two"), (3, "three")] {
        assert_eq!(publish(&second, data)["result"]["offset"], offset);
    }
    for (offset, data) in (1..).zip(["one", "two", "three"]) {
        client.event("publication", &json!({ "data": data, "offset": offset }));
    }
    assert_eq!(client.left("publication"), 0);
}
