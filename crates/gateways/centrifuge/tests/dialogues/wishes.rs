//! Effects of backends on connected clients, by the server API: subscriptions, and ends. Filters by
//! tags.

use std::sync::Arc;

use serde_json::{Value, json};
use throng_auth::SubscriptionOptions;
use throng_gateway_centrifuge::Centrifuge;
use throng_session::{ControlCommand, Event, Gateway as _, Port};
use throng_types::{ChannelName, Payload, PayloadKind, Position, Publication, PublicationKind};

use crate::scene::{BEGIN_S, Scene, channel_on, sign};

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a channel name")
}

/// A subscription with data for the subscriber.
fn subscribe(channel: &str, until_unix_s: Option<u64>, since: Option<Position>) -> ControlCommand {
    ControlCommand::Subscribe {
        channel: name(channel),
        options: SubscriptionOptions {
            data: Some(r#"{"k":1}"#.into()),
            ..SubscriptionOptions::default()
        },
        until_unix_s,
        since,
    }
}

/// Opens a stream whose client has connected.
fn listener() -> Scene {
    let mut scene = Scene::new(Port::Client);
    let body = json!({ "token": sign(&json!({ "sub": "ann" })) }).to_string();
    let bytes = body.len();
    let told = scene.raw(&format!(
        "POST /connection/uni_http_stream HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n\
         {body}"
    ));
    assert!(told.contains(r#"{"connect":{"#), "{told}");
    scene
}

/// Objects that an event leads to, each without the frame of a bidirectional WebSocket.
fn said(scene: &mut Scene, wish: &ControlCommand) -> Vec<Value> {
    let told = scene.happens(Event::Control(wish));
    let starts = told.match_indices('{').map(|(at, _)| at);
    let mut objects: Vec<Value> = Vec::new();
    let mut end = 0;
    for start in starts {
        if start < end {
            continue;
        }
        let mut stream = serde_json::Deserializer::from_str(&told[start..]).into_iter::<Value>();
        if let Some(Ok(object)) = stream.next() {
            end = start + stream.byte_offset();
            objects.push(object.get("push").cloned().unwrap_or(object));
        }
    }
    objects
}

/// A client subscribed by a backend is told of it with the backend's data, then gets what it
/// missed, then new publications.
#[test]
fn a_backend_subscribes_a_client() {
    for shard in 0..3 {
        for make in [Scene::ann, listener] {
            let mut scene = make();
            let channel = channel_on(shard, "kept:");
            scene.publish_text(&channel, "1");
            scene.take_text();
            let wish = subscribe(&channel, None, Some(Position::START));
            let told = said(&mut scene, &wish);
            let [first, missed] = &told[..] else {
                panic!("{told:?}");
            };
            assert_eq!(first["channel"], *channel);
            assert_eq!(first["subscribe"]["data"], json!({ "k": 1 }));
            assert_eq!(first["subscribe"]["recoverable"], true);
            assert_eq!(missed["pub"], json!({ "data": 1, "offset": 1 }));
            scene.publish_text(&channel, "2");
            assert!(scene.take_text().contains(r#""pub":{"data":2,"offset":2}"#));
            // Once more it has it already, and a closed channel is no backend's to give.
            assert_eq!(said(&mut scene, &wish), Vec::<Value>::new());
            let nowhere = subscribe("nowhere:a", None, None);
            assert_eq!(said(&mut scene, &nowhere), Vec::<Value>::new());
        }
    }
}

/// A subscription with an expiry ends then, and the client is told.
#[test]
fn a_backend_says_when_a_subscription_ends() {
    for make in [Scene::ann, listener] {
        let mut scene = make();
        let wish = subscribe("open:a", Some(BEGIN_S + 20), None);
        assert_eq!(said(&mut scene, &wish).len(), 1);
        for (at_s, ends) in [(19, false), (26, true)] {
            let mut scene = make();
            said(&mut scene, &wish);
            // A client that could bring a new token has some time for it.
            let grace_s = if at_s == 26 { 20 } else { 0 };
            scene.pass_s(at_s + grace_s);
            let told = scene.happens(Event::Timeout);
            assert_eq!(
                told.contains(r#""unsubscribe":{"code":2501"#),
                ends,
                "{told}"
            );
            scene.publish_text("open:a", "1");
            assert_eq!(scene.take_text().contains(r#""pub""#), !ends);
        }
    }
}

/// A connection's end may be set, put off, taken away, or come at once.
#[test]
fn a_backend_says_when_a_connection_ends() {
    let refresh = |expired, until_unix_s| ControlCommand::Refresh {
        expired,
        until_unix_s,
    };
    for make in [Scene::ann, listener] {
        let mut scene = make();
        let told = said(&mut scene, &refresh(false, Some(BEGIN_S + 60)));
        assert_eq!(told, [json!({"refresh": {"expires": true, "ttl": 60}})]);
        let told = said(&mut scene, &refresh(false, None));
        assert_eq!(told, [json!({"refresh": {}})]);
        scene.pass_s(24);
        scene.happens(Event::Timeout);
        assert!(!scene.has_ended());
        let told = scene.happens(Event::Control(&refresh(true, None)));
        // As a number in a stream, as two bytes in the frame of a WebSocket.
        let in_frame = String::from_utf8_lossy(&3005_u16.to_be_bytes()).into_owned();
        assert!(told.contains("3005") || told.contains(&in_frame), "{told}");
        assert!(scene.has_ended());
        // An expiry that has passed.
        let mut scene = make();
        said(&mut scene, &refresh(false, Some(BEGIN_S + 10)));
        scene.pass_s(60);
        scene.happens(Event::Timeout);
        assert!(scene.has_ended());
    }
}

/// Wishes of backends do not apply to a client before its connect or after its end.
#[test]
fn a_backend_has_no_say_over_strangers() {
    let wishes = [
        subscribe("open:a", None, None),
        ControlCommand::Refresh {
            expired: true,
            until_unix_s: None,
        },
    ];
    for wish in &wishes {
        let mut stranger = Scene::open("/connection/websocket", "");
        assert_eq!(stranger.happens(Event::Control(wish)), "");
        assert!(!stranger.has_ended());
        let mut ended = listener();
        ended.happens(Event::Control(&wishes[1]));
        assert_eq!(ended.happens(Event::Control(wish)), "");
    }
}

/// A filter on tags keeps other publications of a channel from a client, and does not touch other
/// channels.
#[test]
fn a_filter_keeps_publications_from_a_client() {
    let mut scene = Scene::ann();
    let filter = json!({ "key": "team", "cmp": "eq", "val": "eng" });
    let say = |id: u32, channel: &str, filter: &Value| {
        json!({ "id": id, "subscribe": { "channel": channel, "tf": filter } }).to_string()
    };
    // A channel without filters refuses the subscribe.
    let told = scene.say(&say(2, "open:a", &filter));
    assert!(told[0].contains(r#""code":107"#), "{told:?}");
    let told = scene.say(&say(3, "changed:a", &filter));
    assert!(told[0].starts_with(r#"{"id":3,"subscribe":{"#), "{told:?}");
    let told = scene.say(r#"{"id":4,"subscribe":{"channel":"changed:b"}}"#);
    assert!(told[0].starts_with(r#"{"id":4,"subscribe":{"#), "{told:?}");
    let mut gets = |channel: &str, tags: Option<&str>| {
        let publication = Arc::new(Publication {
            channel: name(channel),
            told: PublicationKind::Data,
            position: None,
            payload: Payload {
                bytes: b"1".as_slice().into(),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: tags.map(Into::into),
            time_unix_ms: 0,
        });
        let session = scene.session().expect("a session");
        let mut out = Vec::new();
        Centrifuge::encode_personal(session, &publication, &mut out);
        let told = String::from_utf8_lossy(&out).into_owned();
        assert_eq!(told.is_empty(), !told.contains(r#""data":1"#), "{told}");
        !told.is_empty()
    };
    assert!(gets("changed:a", Some(r#"{"team":"eng"}"#)));
    assert!(!gets("changed:a", Some(r#"{"team":"ops"}"#)));
    assert!(!gets("changed:a", None));
    assert!(gets("changed:b", None));
}

/// Three bad tokens are mistakes; with the fourth the client is cut off.
#[test]
fn who_brings_bad_tokens_is_cut_off() {
    use throng_session::{Meter, WorkLimits};
    let limits = WorkLimits {
        messages_per_s_max: 1000,
        ..WorkLimits::NONE
    };
    let mut scene = Scene::with(Port::Client, |shared| {
        shared.meter = Meter::new(limits, [1, 2])
    });
    scene.upgrade("/connection/websocket", "");
    scene.connect(&json!({ "sub": "ann" }));
    for id in 2..6 {
        let subscribe = json!({ "channel": "closed", "token": "a.b.c" });
        let told = scene.say(&json!({ "id": id, "subscribe": subscribe }).to_string());
        let error = format!(r#"{{"id":{id},"error":{{"code":103"#);
        assert!(told[0].starts_with(&error), "{told:?}");
        assert_eq!(scene.has_ended(), id == 5, "{id}: {told:?}");
    }
}
