//! Clients that only listen: first words, deliveries, and end; and the channels that a token gives
//! a connection from its start.

use serde_json::{Value, json};
use throng_session::{CloseReason, Event, Meter, Port, Shared, WorkLimits};
use throng_types::{ChannelName, Disconnect, Unsubscribe};

use crate::scene::{BEGIN_S, Scene, channel_on, sign};

/// Paths of unidirectional streams: events, or lines in chunks.
pub(crate) const BOTH: [&str; 2] = ["uni_sse", "uni_http_stream"];

/// Asks for a stream, by a URL or by a body.
pub(crate) fn listen(scene: &mut Scene, path: &str, connect: &Value) -> String {
    let connect = connect.to_string();
    scene.raw(&match path {
        "uni_sse" => {
            let escaped: String = connect.bytes().map(|byte| format!("%{byte:02X}")).collect();
            format!("GET /connection/uni_sse?cf_connect={escaped} HTTP/1.1\r\nHost: a\r\n\r\n")
        }
        _ => format!(
            "POST /connection/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{connect}",
            connect.len()
        ),
    })
}

/// The objects in a stream's bytes.
pub(crate) fn objects(told: &str) -> Vec<Value> {
    let lines = told.lines().map(|line| line.trim_start_matches("data: "));
    let objects = lines.filter(|line| line.starts_with('{'));
    let parse = |line| serde_json::from_str(line).expect("an object in a line");
    objects.map(parse).collect()
}

pub(crate) fn status(told: &str) -> &str {
    told.get(9..12).expect("a status")
}

/// Events come to a request with a body, too, which holds more than a URL may.
#[test]
fn events_may_be_asked_for_by_a_body() {
    let token = sign(&json!({ "sub": "ann" }));
    let connect = json!({ "token": token, "subs": { "open:a": {} } }).to_string();
    let mut scene = Scene::new(Port::Client);
    let told = scene.raw(&format!(
        "POST /connection/uni_sse HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{connect}",
        connect.len()
    ));
    assert_eq!(status(&told), "200", "{told}");
    assert!(objects(&told)[0]["connect"]["subs"]["open:a"].is_object());
}

#[test]
fn a_stream_from_its_first_words_to_its_last() {
    let token = sign(&json!({ "sub": "ann", "exp": BEGIN_S + 60, "channels": ["c"] }));
    let connect = json!({ "token": token, "subs": { "open:a": {} } });
    for path in BOTH {
        let mut scene = Scene::new(Port::Client);
        let told = listen(&mut scene, path, &connect);
        assert_eq!(status(&told), "200", "{told}");
        assert_eq!(scene.is_client(), Some(true));
        let [hello] = &objects(&told)[..] else {
            panic!("{told}");
        };
        let hello = &hello["connect"];
        assert_eq!(
            (&hello["expires"], &hello["ttl"]),
            (&json!(true), &json!(60))
        );
        assert_eq!(hello["subs"], json!({ "c": {}, "open:a": {} }));
        assert_eq!(hello["ping"], 25);
        assert_eq!(hello["pong"], Value::Null, "it has no way to answer");
        scene.publish_text("open:a", "1");
        let heard = objects(&scene.take_text());
        assert_eq!(
            heard,
            [json!({"channel": "open:a", "pub": {"data": 1}})],
            "{path}"
        );
        let told = scene.happens(Event::Drained { dropped: 3 });
        let lost = json!({"message": {"data": {"dropped": 3}}});
        assert_eq!(objects(&told), [lost]);
        let channel = ChannelName::new("open:a").expect("a name");
        let why = Unsubscribe::Server;
        let ended = || Event::Unsubscribed {
            channel: &channel,
            why,
        };
        let told = objects(&scene.happens(ended()));
        assert_eq!(told[0]["unsubscribe"]["code"], 2000);
        // A request behind it gets no answer.
        assert_eq!(scene.raw("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
        scene.pass_s(60);
        let told = scene.happens(Event::Timeout);
        assert_eq!(objects(&told)[0]["disconnect"]["code"], 3005, "{told}");
        assert_eq!(told.ends_with("\r\n0\r\n\r\n"), path != "uni_sse");
        for event in [
            ended(),
            Event::Drained { dropped: 1 },
            Event::Timeout,
            Event::Close(&CloseReason::Because(Disconnect::Shutdown)),
        ] {
            assert_eq!(scene.happens(event), "", "its last words were said");
        }
    }
}

/// A backend's code 3000 ends the connection as if the network had: nothing is sent.
#[test]
fn code_3000_is_an_end_without_a_word() {
    let end = Event::Close(&CloseReason::Custom {
        code: 3000,
        reason: "away".into(),
    });
    let mut scene = Scene::ann();
    assert_eq!(scene.happens(end), "");
    assert!(scene.has_ended());
    for (path, last) in [("uni_sse", ""), ("uni_http_stream", "0\r\n\r\n")] {
        let mut scene = Scene::new(Port::Client);
        let token = sign(&json!({ "sub": "ann" }));
        listen(&mut scene, path, &json!({ "token": token }));
        let end = Event::Close(&CloseReason::Custom {
            code: 3000,
            reason: "away".into(),
        });
        assert_eq!(scene.happens(end), last, "{path}");
        assert!(scene.has_ended());
    }
}

/// Too many channels are a bad request; a closed channel is forbidden.
#[test]
fn channels_that_a_listener_may_not_have() {
    let names = |range: std::ops::Range<u32>| {
        let names = range.map(|n| (format!("open:c{n}"), json!({})));
        Value::Object(names.collect())
    };
    let token = |channels: &[&str]| sign(&json!({ "sub": "ann", "channels": channels }));
    let plain = token(&[]);
    let mut too_many = names(0..128);
    too_many["c"] = json!({});
    for (connect, expected) in [
        (json!({ "token": plain, "subs": names(0..128) }), "200"),
        (json!({ "token": plain, "subs": names(0..129) }), "400"),
        (
            json!({ "token": token(&["open:c0"]), "subs": names(0..128) }),
            "200",
        ),
        (
            json!({ "token": token(&["d"]), "subs": names(0..128) }),
            "400",
        ),
        (json!({ "token": plain, "subs": { "c": {} } }), "403"),
        // They are counted before any of them is checked: the cost of a check grows with each.
        (json!({ "token": plain, "subs": too_many }), "400"),
        (json!({ "token": plain, "subs": { "": {} } }), "400"),
        (json!({ "token": "a.b.c" }), "401"),
        (json!({}), "401"),
    ] {
        let told = listen(&mut Scene::new(Port::Client), "uni_http_stream", &connect);
        let words: String = connect.to_string().chars().take(200).collect();
        assert_eq!(status(&told), expected, "{words}");
        let told = match status(&told) {
            "200" => objects(&told)[0]["connect"]["subs"]
                .as_object()
                .map(|subs| subs.len()),
            _ => None,
        };
        assert_eq!(told, (expected == "200").then_some(128));
    }
}

/// Without one of its token's channels a listener would miss publications that it was promised.
#[test]
fn a_listener_has_all_channels_of_its_token_or_none() {
    let token = sign(&json!({ "sub": "ann", "channels": ["c", "nowhere:c"] }));
    let connect = json!({ "token": token });
    for path in BOTH {
        let told = objects(&listen(&mut Scene::new(Port::Client), path, &connect));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["disconnect"]["code"], 3004, "{told:?}");
    }
    let mut scene = Scene::open("/connection/uni_websocket", "");
    assert_eq!(scene.say(&connect.to_string()), ["close 3004"]);
}

/// A channel of the token that the client names, too, resumes from the client's position.
#[test]
fn a_listener_resumes_in_a_channel_of_its_token() {
    for (shard, path) in [(0, "uni_sse"), (1, "uni_http_stream")] {
        let channel = channel_on(shard, "kept:");
        let token = sign(&json!({ "sub": "ann", "channels": [channel] }));
        let mut scene = Scene::new(Port::Client);
        scene.publish(&channel, "1");
        let subs = json!({ &*channel: { "recover": true } });
        let told = listen(&mut scene, path, &json!({ "token": token, "subs": subs }));
        let subs = objects(&told)[0]["connect"]["subs"].clone();
        assert_eq!(subs.as_object().map(|subs| subs.len()), Some(1));
        assert_eq!(subs[&*channel]["recovered"], true, "{subs}");
        assert_eq!(subs[&*channel]["publications"][0]["data"], 1);
    }
}

/// The place that a client names is of an epoch; one without its epoch, or of another one, is no
/// place to go on from, even where all of the past is there.
#[test]
fn only_nowhere_is_before_everything() {
    let channel = channel_on(0, "kept:");
    for (epoch, offset, recovered) in [("", 0, true), ("", 1, false), ("nope", 0, false)] {
        let mut scene = Scene::ann();
        scene.publish(&channel, "1");
        scene.publish(&channel, "2");
        let subscribe =
            json!({"channel": channel, "recover": true, "epoch": epoch, "offset": offset});
        let told = scene.say(&json!({"id": 2, "subscribe": subscribe}).to_string());
        let told: Value = serde_json::from_str(&told[0]).expect("a reply");
        let is_recovered = told["subscribe"]["recovered"] == true;
        assert_eq!(is_recovered, recovered, "{epoch:?} {offset}: {told}");
    }
}

/// A connection of the bidirectional protocol is answered, whether or not a channel fails.
#[test]
fn a_token_gives_channels_from_the_start() {
    let connect = |claims: &Value| {
        let mut scene = Scene::open("/connection/websocket", "");
        let result = scene.connect(claims);
        assert_eq!(scene.is_client(), Some(true));
        (scene, result)
    };
    let (mut scene, told) = connect(&json!({ "sub": "ann", "channels": ["c", "open:a"] }));
    assert_eq!(told["subs"], json!({ "c": {}, "open:a": {} }));
    assert_eq!((&told["ping"], &told["pong"]), (&json!(25), &json!(true)));
    assert_eq!(scene.publish("c", "1").len(), 1);
    // Of more channels than a connection may have, it has as many as it may.
    let names: Vec<String> = (0..130).map(|n| format!("c{n}")).collect();
    let (_, told) = connect(&json!({ "sub": "ann", "channels": names }));
    assert_eq!(told["subs"].as_object().map(|subs| subs.len()), Some(128));
    // A unidirectional one begins with a push.
    let mut scene = Scene::open("/connection/uni_websocket", "");
    let token = sign(&json!({ "sub": "ann", "channels": ["c"] }));
    let told = scene.say(&json!({ "token": token }).to_string());
    assert!(told[0].starts_with(r#"{"connect":{"client":""#), "{told:?}");
    assert!(told[0].contains(r#""subs":{"c":{}}"#), "{told:?}");
    assert!(!told[0].contains("pong"), "{told:?}");
    // From then on it listens; a further message is not taken for a second connect.
    let told = scene.say(&json!({ "token": token }).to_string());
    assert_eq!(told, [""; 0]);
    assert_eq!(scene.publish("c", "1").len(), 1);
    let told = scene.happens(Event::Drained { dropped: 2 });
    let expected = r#"{"message":{"data":{"dropped":2}}}"#;
    assert!(told.ends_with(expected), "{told}");
}

/// With personal channels, each user is in its own from the start, and a client without a user is
/// in none.
#[test]
fn a_user_has_a_channel_of_its_own() {
    for (user, subs) in [("ann", json!({ "#ann": {} })), ("", Value::Null)] {
        let mut scene = Scene::with(Port::Client, |shared| shared.personal_channel = true);
        scene.upgrade("/connection/websocket", "");
        let told = scene.connect(&json!({ "sub": user }));
        assert!(told["client"].is_string(), "{told}");
        assert_eq!(told["subs"], subs, "{user}");
    }
}

/// Without pings the client is not asked for pongs.
#[test]
fn without_pings_there_are_no_pongs() {
    let mut scene = Scene::with(Port::Client, |shared| shared.limits.ping_interval_ms = 0);
    scene.upgrade("/connection/websocket", "");
    let told = scene.connect(&json!({ "sub": "ann" }));
    assert!(told["client"].is_string(), "{told}");
    assert_eq!((&told["ping"], &told["pong"]), (&Value::Null, &Value::Null));
}

/// Commands cost; a client that sends too many is closed.
#[test]
fn commands_are_charged() {
    let limits = WorkLimits {
        messages_per_s_max: 10,
        ..WorkLimits::NONE
    };
    let limit = |shared: &mut Shared| shared.meter = Meter::new(limits, [1, 2]);
    let mut scene = Scene::with(Port::Client, limit);
    scene.upgrade("/connection/websocket", "");
    scene.connect(&json!({ "sub": "ann" }));
    let pings = vec![r#"{"id":2,"ping":{}}"#; 1000].join("\n");
    let told = scene.say(&pings);
    assert!((10..1000).contains(&told.len()), "{}", told.len());
    assert_eq!(told.last().map(|last| &**last), Some("close 3013"));
}

/// Answers cost by their contents: of long ones a client gets fewer.
#[test]
fn long_answers_are_charged() {
    let limits = WorkLimits {
        messages_per_s_max: 10,
        ..WorkLimits::NONE
    };
    let answered = |data: &str| {
        let mut scene = Scene::with(Port::Client, |shared| {
            shared.meter = Meter::new(limits, [1, 2]);
        });
        for _ in 0..3 {
            scene.publish_text("kept:a", data);
        }
        scene.upgrade("/connection/websocket", "");
        scene.connect(&json!({ "sub": "ann" }));
        scene.say(r#"{"id":2,"subscribe":{"channel":"kept:a"}}"#);
        let ask = r#"{"id":3,"history":{"channel":"kept:a","limit":-1}}"#;
        let told = (0..100).map(|_| scene.say(ask));
        told.take_while(|told| !told.iter().any(|told| told == "close 3013"))
            .count()
    };
    let (short, long) = (
        answered("1"),
        answered(&format!("\"{}\"", "x".repeat(120_000))),
    );
    assert!((15..=20).contains(&short), "{short}");
    assert!((4..=9).contains(&long), "{long}");
}

#[test]
fn what_the_server_does_to_a_client_it_says() {
    let mut scene = Scene::ann();
    scene.say(r#"{"id":2,"subscribe":{"channel":"open:a"}}"#);
    let channel = ChannelName::new("open:a").expect("a name");
    for (event, expected) in [
        (
            Event::Unsubscribed {
                channel: &channel,
                why: Unsubscribe::Server,
            },
            concat!(
                r#"{"push":{"channel":"open:a","unsubscribe":"#,
                r#"{"code":2000,"reason":"server unsubscribe"}}}"#,
            ),
        ),
        (
            Event::Drained { dropped: 4 },
            r#"{"push":{"message":{"data":{"dropped":4}}}}"#,
        ),
    ] {
        let told = scene.happens(event);
        assert!(told.ends_with(expected), "{told}");
    }
}
