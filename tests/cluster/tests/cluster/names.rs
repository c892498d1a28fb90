//! What is left in NATS of names that clients made up.

use serde_json::{Value, json};
use throng_testkit::{NatsServer, Server};

use crate::nodes::{PATIENT, node, subscriber};

/// The messages that NATS keeps of channels.
fn kept(nats: &NatsServer) -> u64 {
    let info = { nats.ask("$JS.API.STREAM.INFO.throng_kept_kept") }.expect("an answer");
    let info: Value = serde_json::from_str(&info).expect("JSON");
    info["state"]["messages"].as_u64().expect("a number")
}

/// Names that were asked for by a hundred at once: 3,000 on one node, and as many on the other one.
#[test]
fn thousands_of_names_leave_nothing_in_nats() {
    let nats = NatsServer::start();
    let broker = format!("kind = \"nats\"\nurl = \"{}\"", nats.url());
    let nodes = [(); 2].map(|()| node(&broker, PATIENT));
    let pages = |node: &Server, from: usize| {
        let commands: Vec<Value> = (from..from + 100)
            .map(|n| json!({ "history": { "channel": format!("kept:asked{n}"), "limit": 10 } }))
            .collect();
        let answer = node.call("batch", &json!({ "commands": commands, "parallel": true }));
        let replies = answer["replies"].as_array().expect("replies").clone();
        assert_eq!(replies.len(), 100, "{answer}");
        { replies.iter() }
            .map(|reply| reply["history"]["epoch"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    for from in (0..3000).step_by(100) {
        let epochs = pages(&nodes[0], from);
        assert!(epochs.iter().all(Option::is_some), "{epochs:?}");
        assert_eq!(pages(&nodes[1], from), epochs, "each node gives the same");
    }
    let mut client = subscriber(nodes[0].clients(), "kept:0");
    for n in 1..100 {
        client.subscribe(&format!("kept:{n}"));
    }
    // The one that all epochs are made of.
    assert_eq!(kept(&nats), 1);
    // An operator's command with nothing to forget.
    let removed = nodes[1].call("history_remove", &json!({ "channel": "kept:none" }));
    assert!(removed["error"].is_null(), "{removed}");
    assert_eq!(kept(&nats), 1);
}
