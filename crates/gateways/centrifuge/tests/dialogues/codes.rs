//! Commands that fail, each with its error or close.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use throng_auth::{KeyConfig, KeySet, KeySource, Verifier};
use throng_session::Port;
use throng_types::cases;
use throng_ws::Opcode;

use crate::scene::{BEGIN_S, SECRET, Scene, sign};

/// Commands after `connect` that fail, with their errors or closes.
#[test]
fn what_a_connected_client_may_not_say() {
    let long = "x".repeat(256);
    for (said, heard) in cases(include_str!("codes.txt")) {
        let told = Scene::ann().say(&said.replace("LONG", &long));
        assert_eq!(told, [heard], "{said}");
    }
    assert_eq!(Scene::ann().say("nonsense"), ["close 3501"]);
}

/// Table of tokens that have expired, or are for another user or channel.
#[test]
fn tokens_of_others_and_of_yesterday() {
    let for_channel = |user: &str, channel: &str, exp: u64| {
        json!(sign(
            &json!({ "sub": user, "channel": channel, "exp": exp })
        ))
    };
    let (past, future) = (BEGIN_S - 1, BEGIN_S + 100);
    let connection = |user: &str, exp: u64| json!(sign(&json!({ "sub": user, "exp": exp })));
    let subscribe = |token: Value| json!({"id": 2, "subscribe": {"channel": "c", "token": token}});
    let expired = r#"{"id":2,"error":{"code":109,"message":"token expired"}}"#;
    for (said, heard) in [
        (
            json!({"id": 2, "refresh": {"token": connection("ann", past)}}),
            "close 3005",
        ),
        (
            json!({"id": 2, "refresh": {"token": connection("bob", future)}}),
            "close 3500",
        ),
        (subscribe(for_channel("ann", "c", past)), expired),
        (subscribe(for_channel("bob", "c", future)), "close 3500"),
        (subscribe(for_channel("ann", "d", future)), "close 3500"),
    ] {
        let told = Scene::ann().say(&said.to_string());
        assert_eq!(told, [heard], "{said}");
    }
    for (token, heard) in [
        (
            json!(""),
            r#"{"id":3,"error":{"code":107,"message":"bad request"}}"#,
        ),
        (json!("a.b.c"), "close 3500"),
        (for_channel("bob", "c", future), "close 3500"),
        (for_channel("ann", "d", future), "close 3500"),
        (
            for_channel("ann", "c", past),
            r#"{"id":3,"error":{"code":110,"message":"expired"}}"#,
        ),
        (
            for_channel("ann", "c", BEGIN_S + 1000),
            r#"{"id":3,"sub_refresh":{"expires":true,"ttl":1000}}"#,
        ),
    ] {
        let mut scene = Scene::ann();
        let first = for_channel("ann", "c", future);
        let told =
            scene.say(&json!({"id": 2, "subscribe": {"channel": "c", "token": first}}).to_string());
        assert_eq!(told, [r#"{"id":2,"subscribe":{"expires":true,"ttl":100}}"#]);
        let told = scene
            .say(&json!({"id": 3, "sub_refresh": {"channel": "c", "token": token}}).to_string());
        assert_eq!(told, [heard], "{token}");
    }
}

/// Where clients need no token, an empty one is good; it must not take the end away that a token
/// without a user has set.
#[test]
fn an_empty_token_takes_no_end_away() {
    let token = sign(&json!({ "sub": "", "exp": BEGIN_S + 10 }));
    let mut scene = Scene::with(Port::Client, |shared| shared.anonymous = true);
    scene.upgrade("/connection/websocket", "");
    let told = scene.say(&json!({"id": 1, "connect": { "token": token }}).to_string());
    assert!(told[0].contains(r#""expires":true,"ttl":10"#), "{told:?}");
    let refresh = json!({"id": 2, "refresh": { "token": "" }}).to_string();
    assert_eq!(scene.say(&refresh), ["close 3501"]);
}

/// Keys that are still to come.
#[derive(Debug)]
struct NoKeys;

impl KeySource for NoKeys {
    fn keys(&self) -> Arc<KeySet> {
        Arc::default()
    }

    fn want(&self) {}
}

/// A token whose key is not known yet: the client gets a code after which SDKs reconnect, each
/// time, and it does not count as a bad one.
#[test]
fn a_token_whose_key_is_still_to_come() {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","kid":"next"}"#);
    let token = format!("{header}.e30.AAAA");
    let scene = || {
        Scene::with(Port::Client, |shared| {
            let keys = KeyConfig {
                hmac_secret: Some(SECRET.as_bytes().into()),
                key_source: Some(Arc::new(NoKeys)),
                ..KeyConfig::default()
            };
            shared.verifier = Some(Arc::new(Verifier::new(keys).expect("keys")));
        })
    };
    let error = |id: u32| {
        format!(
            concat!(
                r#"{{"id":{id},"error":{{"code":100,"message":"internal server error","#,
                r#""temporary":true}}}}"#
            ),
            id = id
        )
    };
    let connect = json!({"id": 1, "connect": {"token": token}}).to_string();
    let mut stranger = scene();
    stranger.upgrade("/connection/websocket", "");
    assert_eq!(stranger.say(&connect), [error(1)]);
    let mut listener = scene();
    listener.upgrade("/connection/uni_websocket", "");
    let hello = json!({ "token": token }).to_string();
    assert_eq!(listener.say(&hello), ["close 3004"]);
    let mut ann = scene();
    ann.upgrade("/connection/websocket", "");
    let good = sign(&json!({ "sub": "ann", "exp": BEGIN_S + 100 }));
    let told = ann.say(&json!({"id": 1, "connect": {"token": good}}).to_string());
    assert!(told[0].starts_with(r#"{"id":1,"connect":"#), "{told:?}");
    for id in 2..10 {
        let subscribe = json!({"id": id, "subscribe": {"channel": "c", "token": token}});
        assert_eq!(ann.say(&subscribe.to_string()), [error(id)]);
    }
    let refresh = json!({"id": 10, "refresh": {"token": token}}).to_string();
    assert_eq!(ann.say(&refresh), [error(10)]);
    let own = sign(&json!({"sub": "ann", "channel": "c", "exp": BEGIN_S + 100}));
    ann.say(&json!({"id": 11, "subscribe": {"channel": "c", "token": own}}).to_string());
    let refresh = json!({"id": 12, "sub_refresh": {"channel": "c", "token": token}});
    assert_eq!(ann.say(&refresh.to_string()), [error(12)]);
    assert!(!ann.has_ended());
}

/// Without a token, and before a connect.
#[test]
fn a_client_must_say_who_it_is() {
    let old = sign(&json!({ "sub": "ann", "exp": BEGIN_S - 1 }));
    for (target, said, heard) in [
        ("websocket", json!({"id": 1, "connect": {}}), "close 3501"),
        ("uni_websocket", json!({}), "close 3501"),
        (
            "websocket",
            json!({"id": 1, "subscribe": {"channel": "open:a"}}),
            "close 3501",
        ),
        ("websocket", json!({}), "close 3501"),
        (
            "websocket",
            json!({"id": 1, "connect": {"token": "a.b.c"}}),
            "close 3500",
        ),
        (
            "websocket",
            json!({"id": 1, "connect": {"token": old}}),
            r#"{"id":1,"error":{"code":109,"message":"token expired"}}"#,
        ),
    ] {
        let mut scene = Scene::open(&format!("/connection/{target}"), "");
        assert_eq!(scene.say(&said.to_string()), [heard], "{target} {said}");
    }
}

/// One pong for each ping; a native pong does not take its place, nor does another message.
#[test]
fn a_ping_is_answered_once() {
    let mut scene = Scene::ann();
    assert_eq!(scene.wait_s(25), ["{}"]);
    assert_eq!(
        scene.say(r#"{"id":2,"ping":{}}"#),
        [r#"{"id":2,"ping":{}}"#]
    );
    assert!(scene.send(Opcode::Text, b"{}").is_empty());
    assert_eq!(scene.say("{}"), ["close 3501"]);
}

/// The opcode is ignored, as in Centrifugo.
#[test]
fn json_in_a_binary_frame_is_processed() {
    let mut scene = Scene::ann();
    let told = scene.send(Opcode::Binary, br#"{"id":2,"ping":{}}"#);
    assert_eq!(told, [r#"{"id":2,"ping":{}}"#]);
    let told = scene.send(Opcode::Binary, br#"["id",1]"#);
    assert_eq!(told, ["close 3501"]);
}
