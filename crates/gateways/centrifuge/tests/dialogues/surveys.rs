//! The server API's calls to every shard, and publications that are published once.

use serde_json::{Value, json};
use throng_session::{
    CloseReason, Event, MatchedConnection, NodeCount, Port, Search, SearchMatches, Survey,
    SurveyReply, Transport,
};
use throng_types::{ChannelName, Disconnect};

use crate::scene::{BEGIN_S, Scene, channel_on};

fn request(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /api/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The bodies of answers, one after the other.
fn bodies(told: &str) -> Vec<Value> {
    let parts = told.split("HTTP/1.1 ").skip(1);
    let bodies = parts.filter_map(|part| part.split_once("\r\n\r\n"));
    { bodies.map(|(_, body)| serde_json::from_str(body).expect("JSON")) }.collect()
}

fn channels(counts: &[(&str, u32)]) -> SurveyReply {
    let name = |name| ChannelName::new(name).expect("a name");
    let counts = counts
        .iter()
        .map(|&(channel, count)| (name(channel), count));
    SurveyReply::Channels(counts.collect())
}

/// Requests that arrive during a survey are answered after it.
#[test]
fn every_shard_is_asked_and_added_up() {
    let mut scene = Scene::new(Port::Api);
    let two = request("channels", "{}") + &request("info", "{}");
    assert_eq!(scene.raw(&two), "");
    assert_eq!(scene.is_client(), Some(false));
    assert_eq!(scene.raw(&request("channels", r#"{"pattern":"a*"}"#)), "");
    assert_eq!(scene.surveys, [Survey::Channels]);
    let replies = || {
        vec![
            channels(&[("a", 2), ("b", 1)]),
            channels(&[]),
            channels(&[("a", 3), ("ab", 1)]),
        ]
    };
    let told = bodies(&scene.happens(Event::Surveyed(replies())));
    let all = json!({"a": {"num_clients": 5}, "ab": {"num_clients": 1}, "b": {"num_clients": 1}});
    assert_eq!(told, [json!({"result": {"channels": all}})]);
    assert_eq!(scene.surveys, [Survey::Channels, Survey::Count]);
    let count = |users: &[u64]| {
        SurveyReply::Count(NodeCount {
            clients: 2,
            users: users.to_vec(),
            channels: vec![7],
            subscriptions: 3,
        })
    };
    let replies_of_nodes = vec![count(&[1, 2]), count(&[2, 3])];
    let told = bodies(&scene.happens(Event::Surveyed(replies_of_nodes)));
    let node = &told[0]["result"]["nodes"][0];
    for (field, expected) in [
        ("num_clients", 4),
        ("num_users", 3),
        ("num_channels", 1),
        ("num_subs", 6),
        ("uptime", BEGIN_S),
    ] {
        assert_eq!(node[field], expected, "{field}: {node}");
    }
    let told = bodies(&scene.happens(Event::Surveyed(replies())));
    let some = json!({"a": {"num_clients": 5}, "ab": {"num_clients": 1}});
    assert_eq!(told, [json!({"result": {"channels": some}})]);
}

/// A server that shuts down finishes requests that it has begun, and marks the answer as the last
/// one.
#[test]
fn a_call_is_answered_before_the_end() {
    let mut scene = Scene::new(Port::Api);
    scene.raw(&request("channels", "{}"));
    let down = CloseReason::Because(Disconnect::Shutdown);
    assert_eq!(scene.happens(Event::Close(&down)), "");
    let told = scene.happens(Event::Surveyed(vec![channels(&[])]));
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    assert!(
        told.to_ascii_lowercase().contains("connection: close"),
        "{told}"
    );
}

#[test]
fn how_a_backend_may_end_a_connection() {
    for (code, reason, is_good) in [
        (3000, 123, true),
        (4999, 0, true),
        (2999, 5, false),
        (5000, 5, false),
        (4000, 124, false),
        (70_000, 5, false),
    ] {
        let reason = "x".repeat(reason);
        let disconnect = json!({"code": code, "reason": reason});
        let body = json!({"user": "ann", "disconnect": disconnect}).to_string();
        let mut scene = Scene::new(Port::Api);
        let told = scene.raw(&request("disconnect", &body));
        match &scene.surveys[..] {
            [
                Survey::Disconnect {
                    code: asked,
                    reason: why,
                    user,
                    ..
                },
            ] => {
                assert_eq!(
                    (u32::from(*asked), &**why, &**user),
                    (code, &*reason, "ann")
                );
                assert!(is_good, "{code}");
                let told = scene.happens(Event::Surveyed(vec![SurveyReply::Done(1)]));
                assert_eq!(bodies(&told), [json!({"result": {}})]);
            }
            _ => {
                assert!(!is_good, "{code} {told}");
                assert_eq!(bodies(&told)[0]["error"]["code"], 107);
            }
        }
    }
}

/// A client and a session that do not match select no connection, and neither do unknown ids.
#[test]
fn whom_a_call_is_about() {
    for (who, expected) in [
        (json!({ "client": "a" }), "a"),
        (json!({ "session": "s" }), "nobody"),
        (json!({ "client": "a", "session": "s" }), "nobody"),
    ] {
        let mut scene = Scene::new(Port::Api);
        scene.raw(&request("disconnect", &who.to_string()));
        let [Survey::Disconnect { client, .. }] = &scene.surveys[..] else {
            panic!("{who}");
        };
        assert_eq!(&**client, expected, "{who}");
        let told = scene.happens(Event::Surveyed(vec![SurveyReply::Done(0)]));
        assert_eq!(bodies(&told), [json!({ "result": {} })], "{who}");
    }
}

/// Connections are found by transport, and listed with that name.
#[test]
fn connections_are_found_by_their_transport() {
    for (word, transport) in [
        ("websocket", Transport::WebSocket),
        ("sse", Transport::Sse),
        ("stream", Transport::Stream),
        ("http", Transport::Http),
    ] {
        let mut scene = Scene::new(Port::Api);
        let body = json!({ "transport": word, "user": "an", "limit": 5 }).to_string();
        scene.raw(&request("connections", &body));
        let search = Search {
            user: "an".into(),
            transport: Some(transport),
            rows_max: 5,
            ..Search::default()
        };
        assert_eq!(scene.surveys, [Survey::Find(search)], "{word}");
        let row = MatchedConnection {
            client: "c".into(),
            user: "ann".into(),
            address: "".into(),
            transport,
            queued_bytes: 0,
            subscriptions: 0,
            channels: Vec::new(),
        };
        let found = SurveyReply::Matches(SearchMatches {
            count: 1,
            is_cut: false,
            rows: vec![row],
        });
        let told = scene.happens(Event::Surveyed(vec![found]));
        let rows = bodies(&told)[0]["result"]["connections"].clone();
        assert_eq!(rows[0]["transport"], word, "{told}");
    }
    let mut scene = Scene::new(Port::Api);
    let told = scene.raw(&request("connections", r#"{"transport":"pigeon"}"#));
    assert_eq!(bodies(&told)[0]["error"]["code"], 107);
}

/// Publications with equal keys are published once; those without a key are independent.
#[test]
fn a_key_publishes_once() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "kept:");
        let mut scene = Scene::new(Port::Api);
        let mut publish = |path: &str, key: &str| {
            let body = match path {
                "publish" => json!({"channel": channel, "data": 1, "idempotency_key": key}),
                _ => json!({"channels": [channel], "data": 1, "idempotency_key": key}),
            };
            let (_, told) = scene.post(&format!("/api/{path}"), "", &body.to_string());
            let told: Value = serde_json::from_str(&told).expect("JSON");
            match path {
                "publish" => told["result"]["offset"].clone(),
                _ => told["result"]["responses"][0]["result"]["offset"].clone(),
            }
        };
        for (path, key, offset) in [
            ("publish", "", 1),
            ("publish", "", 2),
            ("publish", "k", 3),
            ("publish", "k", 3),
            ("broadcast", "k", 3),
            ("broadcast", "", 4),
            ("broadcast", "l", 5),
            ("publish", "l", 5),
        ] {
            assert_eq!(publish(path, key), offset, "{path} {key:?}");
        }
    }
}

/// Replies that grow too long for one answer end in errors, and the rest is there.
#[test]
fn a_batch_of_long_replies_is_cut() {
    let channel = channel_on(0, "kept:");
    let mut scene = Scene::new(Port::Api);
    let long = "x".repeat(300_000);
    scene.publish(&channel, &format!("{long:?}"));
    let history = json!({"history": {"channel": channel, "limit": 10}});
    let body = json!({"commands": vec![history; 40]}).to_string();
    let (status, told) = scene.post("/api/batch", "", &body);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let replies = told["replies"].as_array().expect("a list");
    let is_whole = |reply: &&Value| reply["history"]["publications"][0]["data"] == *long;
    let whole = replies.iter().take_while(is_whole).count();
    // 8 MiB, the reply that went beyond them, and those that were asked for already.
    assert!((28..37).contains(&whole), "{whole}");
    let cut = |reply: &Value| reply["error"]["code"] == 100;
    assert!(replies[whole..].iter().all(cut));
    assert_eq!((status, replies.len()), (200, 40));
}
