//! The Maven package centrifuge-java, which speaks Protobuf alone: it recovers, publishes, reads
//! history, sees who is there, and is refused by code.

use serde_json::json;
use throng_testkit::{Sdk, Setup};

use crate::story;
use crate::support::{SECRET, data, signed_in};

const CONFIG: &str = r#"
[[namespace]]
name = "chat"
subscribe = true
publish = true
history_size = 1000
history_ttl = "5m"
recovery = true
presence = true
join_leave = true
force_push_join_leave = true
allow_presence_for_subscriber = true
"#;

#[test]
fn centrifuge_java_recovers_what_it_missed() {
    let server = Setup::new(crate::support::RECOVERY).shards(3).start();
    let channels: Vec<String> = (0..4).map(|n| format!("chat:java-{n}")).collect();
    story::tell("centrifuge-java", Sdk::java, &server, &channels);
    server.stop();
}

#[test]
fn centrifuge_java_speaks_to_others_and_sees_them() {
    let config = format!("[auth]\nhmac_secret = \"{SECRET}\"\n{CONFIG}");
    let server = Setup::new(&config).shards(2).start();
    let (mut ann, ann_id) = signed_in(Sdk::java, &server, "ann");
    let (mut bob, bob_id) = signed_in(Sdk::javascript, &server, "bob");
    let of = json!({ "channel": "chat:room" });
    ann.subscribe("chat:room");
    ann.event("join", &json!({ "client": ann_id }));
    bob.subscribe("chat:room");
    ann.event("join", &json!({ "client": bob_id, "user": "bob" }));
    let said = data("said", 5);
    for (n, data) in said.iter().enumerate() {
        let speaker = if n % 2 == 0 { &mut ann } else { &mut bob };
        let publish = json!({ "channel": "chat:room", "data": data });
        assert_eq!(speaker.result("publish", &publish)["event"], "done");
    }
    assert_eq!(ann.publications("chat:room", 5), said);
    assert_eq!(bob.publications("chat:room", 5), said);
    let page = ann.result("history", &json!({ "channel": "chat:room", "limit": 10 }));
    assert_eq!((&page["data"], &page["offset"]), (&json!(said), &json!(5)));
    let there = ann.result("presence", &of);
    assert_eq!(there["users"], json!(["ann", "bob"]));
    assert_eq!(ann.result("presence_stats", &of)["num_clients"], 2);
    drop(bob);
    ann.event("leave", &json!({ "client": bob_id }));
    let elsewhere = json!({ "channel": "un:known", "data": 1 });
    assert_eq!(ann.failure("publish", &elsewhere), 102);
    assert_eq!(
        ann.failure("rpc", &json!({ "method": "m", "data": 1 })),
        108
    );
    ann.order("unsubscribe", &of);
    ann.event("unsubscribed", &of);
    ann.order("disconnect", &json!({}));
    ann.event("disconnected", &json!({}));
    server.stop();
}
