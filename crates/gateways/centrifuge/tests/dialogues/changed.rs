//! Subscriptions with delta compression: publications as differences.

use serde_json::{Value, json};
use throng_ws::Opcode;

use crate::protobuf::{command, connected};
use crate::scene::{Scene, channel_on};

const LONG: &str = r#"{"symbol":"ABC","price":101.25,"volume":120000,"day":"2026-11-22","n":"é"}"#;
const NEXT: &str = r#"{"symbol":"ABC","price":101.75,"volume":120000,"day":"2026-11-22","n":"é"}"#;

/// Publication of a push, as JSON.
fn publication(push: &[u8]) -> Value {
    let push: Value = serde_json::from_slice(push).expect("JSON");
    push["push"]["pub"].clone()
}

#[test]
fn publications_come_as_differences_if_both_sides_want_it() {
    for shard in 0..3 {
        let mut scene = Scene::ann();
        let (open, changed) = (channel_on(shard, "open:"), channel_on(shard, "changed:"));
        let subscribe = |id, channel: &str| {
            json!({ "id": id, "subscribe": { "channel": channel, "delta": "fossil" } }).to_string()
        };
        let told = scene.say(&subscribe(2, &open));
        assert!(!told[0].contains("delta"), "{told:?}");
        let told = scene.say(&subscribe(3, &changed));
        assert!(told[0].contains(r#""delta":true"#), "{told:?}");
        // The first one is whole, and a text.
        let first = publication(&scene.publish(&changed, LONG)[0].1);
        assert_eq!(first, json!({ "data": LONG, "offset": 1 }));
        let second = publication(&scene.publish(&changed, NEXT)[0].1);
        assert_eq!(second["delta"], json!(true));
        let delta = second["data"].as_str().expect("a text").as_bytes();
        let made = throng_fossil::apply(LONG.as_bytes(), delta, 1000);
        assert_eq!(made.as_deref(), Ok(NEXT.as_bytes()));
        // Data without common parts is sent whole.
        let third = publication(&scene.publish(&changed, "[1]")[0].1);
        assert_eq!(third, json!({ "data": "[1]", "offset": 3 }));
    }
}

#[test]
fn what_was_missed_is_whole_and_the_next_one_is_a_difference() {
    let mut scene = Scene::ann();
    let channel = channel_on(0, "changed:");
    scene.publish_text(&channel, LONG);
    let subscribe = json!({ "id": 2, "subscribe": {
        "channel": channel, "delta": "fossil", "recover": true,
    } });
    let told: Value = serde_json::from_str(&scene.say(&subscribe.to_string())[0]).expect("JSON");
    let result = &told["subscribe"];
    assert_eq!(result["recovered"], json!(true), "{told}");
    assert_eq!(
        result["publications"],
        json!([{ "data": LONG, "offset": 1 }])
    );
    let next = publication(&scene.publish(&channel, NEXT)[0].1);
    assert_eq!(next["delta"], json!(true), "{next}");
}

#[test]
fn protobuf_has_the_bytes_as_they_are() {
    let mut scene = connected("/connection/websocket?cf_protocol=protobuf", "");
    let channel = channel_on(0, "changed:");
    let subscribe = [(1, channel.as_bytes()), (12, b"fossil")];
    scene.exchange(Opcode::Binary, &command(2, 5, &subscribe));
    let first = scene.publish(&channel, LONG);
    let has = |frame: &[u8], part: &[u8]| frame.windows(part.len()).any(|window| window == part);
    assert!(has(&first[0].1, LONG.as_bytes()));
    let second = scene.publish(&channel, NEXT);
    let delta = throng_fossil::encode(
        LONG.as_bytes(),
        NEXT.as_bytes(),
        throng_fossil::DeltaUnit::Char,
    );
    assert!(has(&second[0].1, &delta.expect("a delta")));
    assert!(second[0].1.ends_with(&[8 << 3, 1]), "field 8 says so");
}
