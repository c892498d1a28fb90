//! Permissions for a channel and its history, and guarantees of recovery.

use serde_json::{Value, json};

use crate::scene::{BEGIN_S, Scene, channel_on, sign};

fn say(scene: &mut Scene, said: &Value) -> String {
    let told = scene.say(&said.to_string());
    let [only] = &told[..] else {
        panic!("{said}: {told:?}");
    };
    only.clone()
}

fn code(told: &str) -> u64 {
    let told: Value = serde_json::from_str(told).expect("a reply");
    told["error"]["code"].as_u64().unwrap_or_default()
}

#[test]
fn a_channel_is_closed_unless_something_opens_it() {
    let token = |channel: &str| sign(&json!({ "sub": "ann", "channel": channel }));
    for (channel, with_token, expected) in [
        ("c", false, 103),
        ("user#ann", false, 103),
        ("$c", false, 103),
        ("$open:c", false, 103),
        ("throng:stats", false, 103),
        ("nowhere:c", false, 102),
        ("open:c", false, 0),
        ("anyone:c", false, 0),
        ("c", true, 0),
        ("$c", true, 0),
        ("$open:c", true, 0),
        ("nowhere:c", true, 102),
    ] {
        let mut scene = Scene::ann();
        let token = if with_token {
            token(channel)
        } else {
            String::new()
        };
        let said = json!({"id": 2, "subscribe": {"channel": channel, "token": token}});
        assert_eq!(code(&say(&mut scene, &said)), expected, "{said}");
    }
}

#[test]
fn history_is_for_subscribers() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "kept:");
        let mut scene = Scene::ann();
        scene.publish(&channel, "1");
        let history = json!({"id": 2, "history": {"channel": channel, "limit": 10}});
        assert!(scene.refused().is_empty());
        assert_eq!(code(&say(&mut scene, &history)), 103);
        assert_eq!(scene.refused(), [("history", channel.as_str().into())]);
        say(
            &mut scene,
            &json!({"id": 3, "subscribe": {"channel": channel}}),
        );
        let told = say(&mut scene, &history);
        assert!(
            told.contains(r#""publications":[{"data":1,"offset":1}]"#),
            "{told}"
        );
        assert!(scene.refused().is_empty(), "it was allowed");
        say(
            &mut scene,
            &json!({"id": 4, "unsubscribe": {"channel": channel}}),
        );
        assert_eq!(code(&say(&mut scene, &history)), 103);
        let none = json!({"id": 5, "history": {"channel": "open:a"}});
        assert_eq!(code(&say(&mut scene, &none)), 108, "nothing is kept there");
    }
}

/// A client that names no epoch and offset zero gets everything, if everything is there; and one
/// that asks for an error instead of `recovered: false` gets it, and no subscription.
#[test]
fn recovery_from_nowhere_and_recovery_or_nothing() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "kept:");
        let mut scene = Scene::ann();
        scene.publish(&channel, "1");
        scene.publish(&channel, "2");
        let recover = |id: u32, flag: u32| {
            let subscribe = json!({"channel": channel, "recover": true, "flag": flag});
            json!({"id": id, "subscribe": subscribe})
        };
        let told = say(&mut scene, &recover(2, 2));
        assert!(told.contains(r#""recovered":true"#), "{told}");
        assert!(
            told.contains(r#"[{"data":1,"offset":1},{"data":2,"offset":2}]"#),
            "{told}"
        );
        let leave = json!({"id": 3, "unsubscribe": {"channel": channel}});
        say(&mut scene, &leave);
        for data in ["3", "4"] {
            scene.publish(&channel, data);
        }
        assert_eq!(code(&say(&mut scene, &recover(4, 2))), 112);
        assert!(
            scene.publish(&channel, "5").is_empty(),
            "it is not subscribed"
        );
        let told = say(&mut scene, &recover(5, 0));
        assert!(!told.contains("recovered\":true"), "{told}");
        say(&mut scene, &leave);
        let stranger = json!({"id": 6, "subscribe":
            {"channel": channel, "recover": true, "offset": 5, "epoch": "", "flag": 2}});
        assert_eq!(
            code(&say(&mut scene, &stranger)),
            112,
            "an offset of an unknown epoch"
        );
    }
}

/// A subscription ends with its token, and one that began anew without a token does not.
#[test]
fn a_token_ends_with_its_subscription() {
    let short = sign(&json!({ "sub": "ann", "channel": "open:a", "exp": BEGIN_S + 10 }));
    let subscribe = json!({"id": 2, "subscribe": {"channel": "open:a", "token": short}});
    let mut scene = Scene::ann();
    say(&mut scene, &subscribe);
    let told = scene.wait_s(36);
    assert!(
        told[0].contains(r#""unsubscribe":{"code":2501,"reason":"subscription expired"}"#),
        "{told:?}"
    );
    let mut scene = Scene::ann();
    let without = json!({"id": 4, "subscribe": {"channel": "open:a"}});
    let leave = json!({"id": 3, "unsubscribe": {"channel": "open:a"}});
    let frame = [
        subscribe.to_string(),
        leave.to_string(),
        without.to_string(),
    ];
    assert_eq!(scene.say(&frame.join("\n")).len(), 3);
    assert_eq!(scene.wait_s(36), ["{}"], "a ping and nothing else");
}

/// A subscription lives as long as the newest token that it was given.
#[test]
fn a_fresh_token_lets_a_subscription_go_on() {
    let token = |exp| sign(&json!({ "sub": "ann", "channel": "open:a", "exp": BEGIN_S + exp }));
    let mut scene = Scene::ann();
    say(
        &mut scene,
        &json!({"id": 2, "subscribe": {"channel": "open:a", "token": token(10)}}),
    );
    let told = say(
        &mut scene,
        &json!({"id": 3, "sub_refresh": {"channel": "open:a", "token": token(1000)}}),
    );
    assert_eq!(code(&told), 0, "{told}");
    assert_eq!(scene.wait_s(36), ["{}"], "a ping and nothing else");
}

#[test]
fn publishing_is_a_right_of_its_own() {
    for (channel, expected) in [
        ("open:a", 0),
        ("anyone:a", 103),
        ("c", 103),
        ("nowhere:c", 102),
    ] {
        let mut scene = Scene::ann();
        let said = json!({"id": 2, "publish": {"channel": channel, "data": 1}});
        assert_eq!(code(&say(&mut scene, &said)), expected, "{said}");
    }
}
