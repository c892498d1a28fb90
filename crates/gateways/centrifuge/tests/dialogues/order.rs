//! Several commands in one frame: those of one channel are done and answered in order.

use serde_json::json;

use crate::scene::{Scene, channel_on};

fn subscribe(id: u32, channel: &str) -> String {
    json!({"id": id, "subscribe": {"channel": channel}}).to_string()
}

fn unsubscribe(id: u32, channel: &str) -> String {
    json!({"id": id, "unsubscribe": {"channel": channel}}).to_string()
}

fn error(id: u32, code: u32, message: &str) -> String {
    format!(r#"{{"id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// Wherever the channel lives. On another shard the first reply used to be error 100, behind that
/// of the unsubscribe.
#[test]
fn subscribe_unsubscribe_and_subscribe_in_one_frame() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "open:");
        let mut scene = Scene::ann();
        let frame = [
            subscribe(2, &channel),
            unsubscribe(3, &channel),
            subscribe(4, &channel),
        ];
        let told = scene.say(&frame.join("\n"));
        let expected = [
            r#"{"id":2,"subscribe":{}}"#,
            r#"{"id":3,"unsubscribe":{}}"#,
            r#"{"id":4,"subscribe":{}}"#,
        ];
        assert_eq!(told, expected, "home on shard {shard}");
        assert_eq!(
            scene.publish(&channel, "1").len(),
            1,
            "one subscription stands"
        );
        // And the other way round: none stands.
        let frame = [
            unsubscribe(5, &channel),
            subscribe(6, &channel),
            unsubscribe(7, &channel),
        ];
        let told = scene.say(&frame.join("\n"));
        let expected = [
            r#"{"id":5,"unsubscribe":{}}"#,
            r#"{"id":6,"subscribe":{}}"#,
            r#"{"id":7,"unsubscribe":{}}"#,
        ];
        assert_eq!(told, expected, "home on shard {shard}");
        assert!(scene.publish(&channel, "2").is_empty());
    }
}

#[test]
fn a_second_subscribe_waits_for_the_first() {
    let channel = channel_on(1, "open:");
    let mut scene = Scene::ann();
    let told = scene.say(&[subscribe(2, &channel), subscribe(3, &channel)].join("\n"));
    assert_eq!(
        told,
        [
            r#"{"id":2,"subscribe":{}}"#.to_owned(),
            error(3, 105, "already subscribed")
        ]
    );
}

/// The queue behind a channel's subscribe is bounded; one command too many is refused at once, and
/// the client asks again.
#[test]
fn too_many_behind_a_subscribe_are_refused() {
    let channel = channel_on(1, "open:");
    let mut scene = Scene::ann();
    let mut frame = vec![subscribe(2, &channel)];
    for id in 3..20 {
        frame.push(unsubscribe(id, &channel));
    }
    let told = scene.say(&frame.join("\n"));
    assert_eq!(told.len(), 18);
    let refused =
        r#"{"id":19,"error":{"code":111,"message":"too many requests","temporary":true}}"#;
    assert_eq!(
        (&*told[0], &*told[1]),
        (refused, r#"{"id":2,"subscribe":{}}"#)
    );
    for (at, id) in (3..19).enumerate() {
        assert_eq!(told[2 + at], format!(r#"{{"id":{id},"unsubscribe":{{}}}}"#));
    }
}
