//! Publications with idempotency keys on NATS, whose node goes between the row of the key and the
//! publication, or between that and its answer. A repeated publication exists once, at every moment
//! of the failure.

use std::thread;

use serde_json::{Value, json};
use throng_testkit::{NatsServer, Proxy, Sdk, Server, Signal, until};

use crate::broker::Kind;
use crate::nodes::{node, patient_node, subscriber};

/// First bytes of a publication in `kept:a` on its way to NATS.
const PUBLICATION: &str = "HPUB throng.in.kept_kept.kept=3aa ";

fn publish(node: &Server, data: &str) -> Value {
    let body = json!({ "channel": "kept:a", "data": data, "idempotency_key": data });
    node.call("publish", &body)
}

/// Publishes, and gives the offset.
#[track_caller]
fn publishes(node: &Server, data: &str) -> Value {
    let answer = publish(node, data);
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"]["offset"].clone()
}

#[track_caller]
fn hears(client: &Sdk, publications: &[&str]) {
    for (offset, data) in (1..).zip(publications) {
        let heard = client.event("publication", &json!({}));
        let heard = (&heard["data"], &heard["offset"]);
        assert_eq!(heard, (&json!(data), &json!(offset)));
    }
    assert_eq!(client.left("publication"), 0);
}

/// The publisher is told that the result is unknown; a repeat is the publication.
#[test]
fn a_publication_that_is_lost_behind_the_row_of_its_key_is_in_doubt() {
    let nats = NatsServer::start();
    let network = Proxy::new(nats.address());
    let [first, second] = [network.address(), nats.address()].map(|it| node(Kind::Nats, it));
    let clients = [&first, &second].map(|node| subscriber(node.clients(), "kept:a"));
    assert_eq!(publishes(&first, "one"), 1);
    network.lose(PUBLICATION, 1);
    let answer = publish(&first, "two");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("may have published"), "{answer}");
    assert_eq!(network.to_lose(), 0);
    assert_eq!(publishes(&second, "two"), 2);
    assert_eq!(publishes(&second, "two"), 2);
    assert_eq!(publishes(&second, "three"), 3);
    for client in &clients {
        hears(client, &["one", "two", "three"]);
    }
}

/// Neither the publication nor an answer comes from a node that is killed.
#[test]
fn a_node_is_killed_between_the_row_of_a_key_and_the_publication() {
    let nats = NatsServer::start();
    let network = Proxy::new(nats.address());
    let first = patient_node(Kind::Nats, network.address());
    let second = node(Kind::Nats, nats.address());
    let client = subscriber(second.clients(), "kept:a");
    assert_eq!(publishes(&first, "one"), 1);
    network.lose(PUBLICATION, 1);
    thread::scope(|scope| {
        let asked = scope.spawn(|| publish(&first, "two"));
        until("a publication that is lost", || network.to_lose() == 0);
        first.signal(Signal::KILL);
        assert!(asked.join().is_err(), "a dead node answers");
    });
    assert_eq!(publishes(&second, "two"), 2);
    assert_eq!(publishes(&second, "three"), 3);
    hears(&client, &["one", "two", "three"]);
}

/// The publication is on its way when its node gives up, and comes behind the repeat: NATS does not
/// take it.
#[test]
fn a_publication_that_comes_behind_its_repeat_is_not_taken() {
    let nats = NatsServer::start();
    let network = Proxy::new(nats.address());
    let [first, second] = [network.address(), nats.address()].map(|it| node(Kind::Nats, it));
    let clients = [&first, &second].map(|node| subscriber(node.clients(), "kept:a"));
    assert_eq!(publishes(&first, "one"), 1);
    network.hold(PUBLICATION);
    let answer = publish(&first, "two");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("may have published"), "{answer}");
    assert!(network.is_holding());
    assert_eq!(publishes(&second, "two"), 2);
    network.release();
    assert_eq!(publishes(&second, "three"), 3);
    for client in &clients {
        hears(client, &["one", "two", "three"]);
    }
}

/// The repeat has looked, and finds the publication only when its own is not taken.
#[test]
fn a_publication_that_comes_while_it_is_repeated_is_the_only_one() {
    let nats = NatsServer::start();
    let networks = [(); 2].map(|()| Proxy::new(nats.address()));
    let nodes = { networks.each_ref() }.map(|it| patient_node(Kind::Nats, it.address()));
    let clients = { nodes.each_ref() }.map(|node| subscriber(node.clients(), "kept:a"));
    assert_eq!(publishes(&nodes[0], "one"), 1);
    thread::scope(|scope| {
        let asked = [0, 1].map(|n: usize| {
            networks[n].hold(PUBLICATION);
            let node = &nodes[n];
            let asked = scope.spawn(move || publishes(node, "two"));
            until("a publication that is held", || networks[n].is_holding());
            asked
        });
        networks.iter().for_each(Proxy::release);
        for asked in asked {
            assert_eq!(asked.join().expect("a publisher"), 2);
        }
    });
    assert_eq!(publishes(&nodes[1], "three"), 3);
    for client in &clients {
        hears(client, &["one", "two", "three"]);
    }
}

/// The publication has happened, and its node reports it to no client: the repeat has its place.
#[test]
fn a_node_is_killed_before_it_hears_that_a_publication_is_taken() {
    let nats = NatsServer::start();
    let network = Proxy::new(nats.address());
    let [first, second] = [network.address(), nats.address()].map(|it| node(Kind::Nats, it));
    let client = subscriber(second.clients(), "kept:a");
    assert_eq!(publishes(&first, "one"), 1);
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
    assert_eq!(publishes(&second, "two"), 2);
    assert_eq!(publishes(&second, "three"), 3);
    hears(&client, &["one", "two", "three"]);
}
