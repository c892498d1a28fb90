//! Presence, by SDKs and by the server API, on any shard, until clients have gone.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, until};

use crate::support::{SECRET, emulated, sdks, signed_in};

const CHANNELS: &str = r#"
[[namespace]]
name = "room"
subscribe = true
presence = true
join_leave = true
force_push_join_leave = true
allow_presence_for_subscriber = true

[[namespace]]
name = "quiet"
subscribe = true
"#;

/// Numbers of clients and users by the server API.
fn numbers(server: &Server, channel: &str) -> Value {
    server.call("presence_stats", &json!({ "channel": channel }))["result"].clone()
}

#[test]
fn those_present_are_listed_and_their_coming_and_going_is_told() {
    let config = format!("[auth]\nhmac_secret = \"{SECRET}\"\n{CHANNELS}");
    let server = Setup::new(&config).shards(3).start();
    for (name, start) in sdks().into_iter().chain(emulated()) {
        let channel = format!("room:{name}");
        let (mut ann, ann_id) = signed_in(start, &server, "ann");
        let (mut bob, bob_id) = signed_in(start, &server, "bob");
        let of = json!({ "channel": channel });
        assert_eq!(bob.failure("presence", &of), 103, "{name}: not subscribed");
        ann.subscribe(&channel);
        ann.event("join", &json!({ "client": ann_id, "user": "ann" }));
        bob.subscribe(&channel);
        ann.event("join", &json!({ "client": bob_id, "user": "bob" }));
        for client in [&mut ann, &mut bob] {
            let there = client.result("presence", &of);
            let mut ids = [ann_id.clone(), bob_id.clone()];
            ids.sort_by_key(Value::to_string);
            assert_eq!(there["clients"], json!(ids), "{name}");
            assert_eq!(there["users"], json!(["ann", "bob"]), "{name}");
            let stats = client.result("presence_stats", &of);
            let stats = (&stats["num_clients"], &stats["num_users"]);
            assert_eq!(stats, (&json!(2), &json!(2)), "{name}");
        }
        let two = json!({ "num_clients": 2, "num_users": 2 });
        assert_eq!(numbers(&server, &channel), two, "{name}");
        bob.order("unsubscribe", &of);
        ann.event("leave", &json!({ "client": bob_id }));
        bob.subscribe(&channel);
        ann.event("join", &json!({ "client": bob_id }));
        // A client that vanishes leaves, too.
        drop(bob);
        ann.event("leave", &json!({ "client": bob_id }));
        let there = ann.result("presence", &of);
        assert_eq!(there["clients"], json!([ann_id]), "{name}");
        assert_eq!(
            ann.failure("presence", &json!({ "channel": "quiet:a" })),
            108
        );
        drop(ann);
        let nobody = json!({ "num_clients": 0, "num_users": 0 });
        until("nobody is there", || numbers(&server, &channel) == nobody);
    }
    server.stop();
}
