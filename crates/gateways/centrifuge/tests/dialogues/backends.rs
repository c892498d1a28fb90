//! Questions to backends on behalf of clients, and the effects of their answers.

use serde_json::json;
use throng_broker::BackendId;
use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal};
use throng_session::{BackendOptions, Event, Port, ProxyOptions, StatusMeaning};

use crate::protobuf::{command, field};
use crate::scene::{BEGIN_S, Scene, sign};
use crate::streams::{BOTH, listen, objects, status};

fn proxies() -> ProxyOptions {
    ProxyOptions {
        kinds: ProxyKind::ALL.into(),
        backends: vec![
            BackendOptions {
                http_headers: vec!["cookie".into(), "x-request".into()],
                emulated_headers: vec!["cookie".into(), "x-said".into()],
                is_binary: false,
                sends_meta: true,
                statuses: vec![StatusMeaning {
                    status: 403,
                    refusal: ProxyRefusal::disconnect(4403, "forbidden").unwrap(),
                }],
            },
            BackendOptions {
                emulated_headers: vec!["x-said".into()],
                is_binary: true,
                ..BackendOptions::default()
            },
        ],
        rpc_namespaces: vec![("second".into(), BackendId(1))],
    }
}

/// A WebSocket of a server that asks backends.
fn client() -> Scene {
    let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
    scene.upgrade("/connection/websocket", "Cookie: id=7\r\nX-Other: no\r\n");
    scene
}

/// A client that a backend has let in.
fn known(result: &serde_json::Value) -> Scene {
    let mut scene = client();
    assert!(scene.say(r#"{"id":1,"connect":{}}"#).is_empty());
    let (number, _) = scene.question();
    let told = scene.answer(
        number,
        Some((200, &json!({ "result": result }).to_string())),
    );
    assert!(told[0].starts_with(r#"{"id":1,"connect":{"#), "{told:?}");
    scene
}

/// Lets time pass in which nothing comes but pings, which are answered.
fn wait(scene: &mut Scene, seconds: u64) {
    let told = scene.wait_s(seconds);
    assert!(told.iter().all(|told| told == "{}"), "{told:?}");
    if !told.is_empty() {
        assert!(scene.say("{}").is_empty());
    }
}

#[test]
fn a_backend_says_who_a_client_is() {
    let mut scene = client();
    let connect = json!({ "id": 1, "connect": { "data": { "k": 1 }, "name": "js" } });
    // Further commands of the client wait for the answer.
    let subscribe = json!({ "id": 2, "subscribe": { "channel": "open:a" } });
    assert!(scene.say(&format!("{connect}\n{subscribe}")).is_empty());
    assert!(scene.say(r#"{"id":3,"ping":{}}"#).is_empty());
    let (number, asked) = scene.question();
    assert_eq!(asked["client"].as_str().map(str::len), Some(36), "{asked}");
    let told = [
        &asked["to"],
        &asked["headers"],
        &asked["transport"],
        &asked["protocol"],
    ];
    let expected = [
        json!("connect"),
        json!(["cookie: id=7"]),
        json!("websocket"),
        json!("json"),
    ];
    assert_eq!(told, expected.each_ref());
    assert_eq!(
        (&asked["data"], &asked["name"]),
        (&json!({ "k": 1 }), &json!("js"))
    );
    assert!(asked.get("user").is_none());
    let result = json!({
        "user": "ann", "data": { "hello": 1 }, "channels": ["open:b"], "expire_at": BEGIN_S + 60,
    });
    let told = scene.answer(
        number,
        Some((200, &json!({ "result": result }).to_string())),
    );
    let told = told.join("\n");
    for part in [
        r#""data":{"hello":1}"#,
        r#""subs":{"open:b":{}}"#,
        r#"{"id":2,"subscribe":{"#,
        r#"{"id":3,"ping":{}}"#,
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    // The backend is asked when it expires, so the client gets no expiry.
    assert!(!told.contains("expires"), "{told}");
}

#[test]
fn a_token_is_asked_nobody_about() {
    let mut scene = client();
    let token = sign(&json!({ "sub": "ann" }));
    let told = scene.say(&json!({ "id": 1, "connect": { "token": token } }).to_string());
    assert!(told[0].starts_with(r#"{"id":1,"connect":{"#), "{told:?}");
    assert!(scene.asked.is_empty());
}

#[test]
fn a_client_that_is_not_let_in_is_told_why() {
    for (answer, told) in [
        (
            Some((
                200,
                r#"{"error":{"code":1000,"message":"no","temporary":true}}"#,
            )),
            r#"{"id":1,"error":{"code":1000,"message":"no","temporary":true}}"#,
        ),
        (
            Some((200, r#"{"disconnect":{"code":4501,"reason":"out"}}"#)),
            "close 4501",
        ),
        // An empty answer identifies no user.
        (Some((200, "{}")), "close 3501"),
        (Some((403, "")), "close 4403"),
        (
            Some((500, "")),
            r#"{"id":1,"error":{"code":100,"message":"internal server error","temporary":true}}"#,
        ),
        (
            None,
            r#"{"id":1,"error":{"code":100,"message":"internal server error","temporary":true}}"#,
        ),
    ] {
        let mut scene = client();
        scene.say(r#"{"id":1,"connect":{}}"#);
        let (number, _) = scene.question();
        assert_eq!(scene.answer(number, answer), [told], "{answer:?}");
    }
}

#[test]
fn a_backend_says_whether_a_connection_goes_on() {
    let mut scene = known(&json!({ "user": "ann", "expire_at": BEGIN_S + 60, "meta": [1] }));
    wait(&mut scene, 61);
    let (number, asked) = scene.question();
    let told = [&asked["to"], &asked["user"], &asked["meta"]];
    assert_eq!(told, [&json!("refresh"), &json!("ann"), &json!([1])]);
    let until = format!(r#"{{"result":{{"expire_at":{}}}}}"#, BEGIN_S + 120);
    assert!(scene.answer(number, Some((200, &until))).is_empty());
    // It cannot be asked, and the client stays for a while.
    wait(&mut scene, 60);
    let (number, _) = scene.question();
    assert!(scene.answer(number, None).is_empty());
    wait(&mut scene, 61);
    let (number, _) = scene.question();
    let over = scene.answer(number, Some((200, r#"{"result":{"expired":true}}"#)));
    assert_eq!(over, ["close 3005"]);
}

#[test]
fn a_backend_says_who_subscribes() {
    let mut scene = known(&json!({ "user": "ann" }));
    let subscribe = |id, channel: &str| {
        json!({ "id": id, "subscribe": { "channel": channel, "data": [1] } }).to_string()
    };
    assert!(scene.say(&subscribe(2, "asked:a")).is_empty());
    let (number, asked) = scene.question();
    let told = [
        &asked["to"],
        &asked["user"],
        &asked["channel"],
        &asked["data"],
    ];
    let expected = [
        json!("subscribe"),
        json!("ann"),
        json!("asked:a"),
        json!([1]),
    ];
    assert_eq!(told, expected.each_ref());
    // A second one is one too many; the end of the first is its end.
    let twice = scene.say(&subscribe(3, "asked:a"));
    assert!(twice[0].contains(r#""code":105"#), "{twice:?}");
    let told = scene.answer(number, Some((200, r#"{"result":{"data":{"x":1}}}"#)));
    assert_eq!(told, [r#"{"id":2,"subscribe":{"data":{"x":1}}}"#]);

    scene.say(&subscribe(4, "asked:b"));
    let (number, _) = scene.question();
    let told = scene.answer(
        number,
        Some((200, r#"{"error":{"code":403,"message":"no"}}"#)),
    );
    assert_eq!(told, [r#"{"id":4,"error":{"code":403,"message":"no"}}"#]);

    scene.say(&subscribe(5, "asked:c"));
    let (number, _) = scene.question();
    let told = scene.say(r#"{"id":6,"unsubscribe":{"channel":"asked:c"}}"#);
    assert!(
        told[0].starts_with(r#"{"id":5,"error":{"code":100"#),
        "{told:?}"
    );
    assert_eq!(told[1..], [r#"{"id":6,"unsubscribe":{}}"#]);
    assert!(
        scene
            .answer(number, Some((200, r#"{"result":{}}"#)))
            .is_empty()
    );

    // Names decide for themselves, and no backend is asked about the server's own channels.
    for (channel, code) in [("asked:#bob", 103), ("$asked:a", 103), ("throng:a", 103)] {
        let told = scene.say(&subscribe(7, channel));
        assert!(
            told[0].contains(&format!("\"code\":{code}")),
            "{channel}: {told:?}"
        );
    }
    let mine = scene.say(&subscribe(8, "asked:#ann"));
    assert!(mine[0].starts_with(r#"{"id":8,"subscribe":{"#), "{mine:?}");
    assert!(scene.asked.is_empty());
}

#[test]
fn a_backend_says_whether_a_subscription_goes_on() {
    let mut scene = known(&json!({ "user": "ann" }));
    scene.say(r#"{"id":2,"subscribe":{"channel":"asked:a"}}"#);
    let (number, _) = scene.question();
    let until = format!(r#"{{"result":{{"expire_at":{}}}}}"#, BEGIN_S + 60);
    let told = scene.answer(number, Some((200, &until)));
    assert_eq!(told, [r#"{"id":2,"subscribe":{}}"#]);
    // No backend is asked about one that has ended, and it takes no other with it.
    scene.say(r#"{"id":3,"subscribe":{"channel":"asked:b"}}"#);
    let (number, _) = scene.question();
    scene.answer(number, Some((200, &until)));
    let told = scene.say(r#"{"id":4,"unsubscribe":{"channel":"asked:b"}}"#);
    assert_eq!(told, [r#"{"id":4,"unsubscribe":{}}"#]);
    wait(&mut scene, 61);
    let (number, asked) = scene.question();
    let told = [&asked["to"], &asked["channel"]];
    assert_eq!(told, [&json!("sub_refresh"), &json!("asked:a")]);
    let told = scene.answer(number, Some((200, r#"{"result":{"expired":true}}"#)));
    assert!(
        told[0].contains(r#""unsubscribe":{"code":2501"#),
        "{told:?}"
    );
}

#[test]
fn a_backend_says_what_is_published() {
    let mut scene = known(&json!({ "user": "ann" }));
    scene.say(r#"{"id":2,"subscribe":{"channel":"asked:a"}}"#);
    let (number, _) = scene.question();
    scene.answer(number, Some((200, r#"{"result":{}}"#)));
    scene.say(r#"{"id":3,"publish":{"channel":"asked:a","data":{"n":1}}}"#);
    let (number, asked) = scene.question();
    let told = [&asked["to"], &asked["channel"], &asked["data"]];
    assert_eq!(
        told,
        [&json!("publish"), &json!("asked:a"), &json!({ "n": 1 })]
    );
    let told = scene.answer(number, Some((200, r#"{"result":{"data":{"n":2}}}"#)));
    let told = told.join("\n");
    assert!(told.contains(r#"{"id":3,"publish":{}}"#), "{told}");
    assert!(told.contains(r#""pub":{"data":{"n":2}"#), "{told}");
    scene.say(r#"{"id":4,"publish":{"channel":"asked:a","data":{"n":1}}}"#);
    let (number, _) = scene.question();
    let told = scene.answer(number, None);
    assert!(
        told[0].starts_with(r#"{"id":4,"error":{"code":100"#),
        "{told:?}"
    );
}

#[test]
fn a_backend_answers_a_call() {
    let mut scene = known(&json!({ "user": "ann" }));
    scene.say(r#"{"id":2,"rpc":{"method":"sum","data":[1,2]}}"#);
    let (number, asked) = scene.question();
    let told = [&asked["to"], &asked["method"], &asked["data"]];
    assert_eq!(told, [&json!("rpc"), &json!("sum"), &json!([1, 2])]);
    let told = scene.answer(number, Some((200, r#"{"result":{"data":3}}"#)));
    assert_eq!(told, [r#"{"id":2,"rpc":{"data":3}}"#]);
    // Open questions are bounded; the client of one more is told to try again.
    for id in 10..26 {
        let call = format!("{{\"id\":{id},\"rpc\":{{}}}}");
        assert!(scene.say(&call).is_empty(), "{id}");
    }
    let told = scene.say(r#"{"id":30,"rpc":{}}"#);
    assert!(told[0].contains(r#""code":111"#), "{told:?}");
}

#[test]
fn what_a_client_says_in_place_of_header_fields_is_passed_on_where_that_is_wanted() {
    let mut scene = client();
    let said = json!({ "X-Said": "yes", "cookie": "id=8", "x-request": "no", "x-other": "no" });
    scene.say(&json!({ "id": 1, "connect": { "headers": said } }).to_string());
    let (number, asked) = scene.question();
    // The field of the request itself goes before the emulated one.
    assert_eq!(asked["headers"], json!(["cookie: id=7", "x-said: yes"]));
    scene.answer(number, Some((200, r#"{"result":{"user":"ann"}}"#)));
    // Later questions have them too, and each backend has its own list.
    scene.say(r#"{"id":2,"subscribe":{"channel":"other:a"}}"#);
    let (_, asked) = scene.question();
    assert_eq!(asked["headers"], json!(["x-said: yes"]));
    // The header is the same in Protobuf; bytes that could end a line of the head are left out.
    let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
    scene.upgrade("/connection/websocket?cf_protocol=protobuf", "");
    let [said, cookie] = [("X-Said", "pb"), ("cookie", "a\r\nb: c")]
        .map(|(name, value)| [field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
    let connect = command(1, 4, &[(6, &said), (6, &cookie)]);
    let told = scene.exchange(throng_ws::Opcode::Binary, &connect);
    assert!(told.is_empty());
    let (_, asked) = scene.question();
    assert_eq!(asked["headers"], json!(["x-said: pb"]));
    assert_eq!(asked["protocol"], "protobuf");
}

#[test]
fn channels_and_methods_have_backends_of_their_own() {
    let mut scene = known(&json!({ "user": "ann", "meta": { "secret": 1 } }));
    scene.say(r#"{"id":2,"subscribe":{"channel":"other:a","data":[1]}}"#);
    let (number, asked) = scene.question();
    let told = [&asked["backend"], &asked["to"], &asked["b64data"]];
    assert_eq!(told, [&json!(1), &json!("subscribe"), &json!("WzFd")]);
    assert_eq!(asked["meta"], json!(null), "it is not to have it");
    // The meaning of a status is each backend's own.
    let told = scene.answer(number, Some((403, "")));
    assert!(told[0].contains(r#""code":100"#), "{told:?}");
    scene.say(r#"{"id":3,"publish":{"channel":"other:a","data":{}}}"#);
    let (_, asked) = scene.question();
    assert_eq!(
        (&asked["backend"], &asked["to"]),
        (&json!(1), &json!("publish"))
    );
    for (method, backend) in [("sum", 0), ("second:sum", 1)] {
        scene.say(&json!({ "id": 4, "rpc": { "method": method, "data": 1 } }).to_string());
        let (_, asked) = scene.question();
        assert_eq!(asked["backend"], backend, "{method}");
    }
    let told = scene.say(r#"{"id":5,"rpc":{"method":"third:sum","data":1}}"#);
    assert!(told[0].contains(r#""code":104"#), "{told:?}");
}

#[test]
fn a_backend_is_told_that_there_is_no_newest_publication() {
    let mut scene = known(&json!({ "user": "ann" }));
    let subscribe = r#"{"id":2,"subscribe":{"channel":"latest:a","recover":true}}"#;
    let told = scene.say(subscribe);
    assert!(told[0].starts_with(r#"{"id":2,"subscribe":{"#), "{told:?}");
    let (_, asked) = scene.question();
    let told = [&asked["to"], &asked["backend"], &asked["channel"]];
    assert_eq!(told, [&json!("cache_empty"), &json!(1), &json!("latest:a")]);
    // Its later publications come as any does.
    let heard = scene.publish("latest:a", "1");
    assert_eq!(heard.len(), 1);
    scene.say(r#"{"id":3,"unsubscribe":{"channel":"latest:a"}}"#);
    let told = scene.say(r#"{"id":4,"subscribe":{"channel":"latest:a","recover":true}}"#);
    assert!(told[0].contains(r#""recovered":true"#), "{told:?}");
    assert!(scene.asked.is_empty());
}

/// Opens a stream whose backend is asked about the client; returns the question's number.
fn stream(path: &str) -> (Scene, u32) {
    let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
    let connect = json!({
        "name": "page", "data": { "k": 1 }, "headers": { "x-said": "yes" },
        "subs": { "anyone:a": {} },
    });
    let told = listen(&mut scene, path, &connect);
    assert_eq!(status(&told), "200", "{told}");
    assert!(objects(&told).is_empty(), "nobody knows it yet: {told}");
    let (number, asked) = scene.question();
    let told = [
        &asked["to"],
        &asked["transport"],
        &asked["protocol"],
        &asked["name"],
    ];
    let expected = [json!("connect"), json!(path), json!("json"), json!("page")];
    assert_eq!(told, expected.each_ref());
    assert_eq!(asked["headers"], json!(["x-said: yes"]));
    assert_eq!(
        (&asked["data"], &asked["channels"]),
        (&json!({ "k": 1 }), &json!(["anyone:a"]))
    );
    (scene, number)
}

#[test]
fn a_backend_says_who_a_listener_is() {
    for path in BOTH {
        let (mut scene, number) = stream(path);
        let result = json!({
            "user": "ann", "data": { "hello": 1 }, "channels": ["open:b"], "meta": [1],
            "expire_at": BEGIN_S + 60,
        });
        let answer = json!({ "result": result }).to_string();
        let told = objects(&scene.answer_text(number, Some((200, &answer))));
        let hello = &told[0]["connect"];
        assert_eq!(hello["data"], json!({ "hello": 1 }), "{told:?}");
        assert_eq!(hello["subs"], json!({ "anyone:a": {}, "open:b": {} }));
        // The backend is asked when it expires, so the client gets no expiry.
        assert_eq!(hello["expires"], json!(null));
        scene.publish_text("open:b", "1");
        let heard = objects(&scene.take_text());
        assert_eq!(heard, [json!({"channel": "open:b", "pub": {"data": 1}})]);
        scene.pass_s(61);
        scene.happens(Event::Timeout);
        let (number, asked) = scene.question();
        let told = [&asked["to"], &asked["user"], &asked["meta"]];
        assert_eq!(told, [&json!("refresh"), &json!("ann"), &json!([1])]);
        // It cannot be asked, and the client stays for a while.
        assert_eq!(objects(&scene.answer_text(number, None)), [json!(null); 0]);
        scene.pass_s(59);
        scene.happens(Event::Timeout);
        assert!(scene.asked.is_empty() && !scene.has_ended(), "not yet");
        scene.pass_s(2);
        scene.happens(Event::Timeout);
        let (number, _) = scene.question();
        let over = Some((200, r#"{"result":{"expired":true}}"#));
        let told = objects(&scene.answer_text(number, over));
        assert_eq!(told[0]["disconnect"]["code"], 3005, "{told:?}");
        assert!(scene.has_ended());
    }
}

#[test]
fn a_listener_who_is_not_let_in_is_told_so() {
    for path in BOTH {
        for (answer, code) in [
            (
                Some((200, r#"{"error":{"code":1000,"message":"no"}}"#)),
                3004,
            ),
            (
                Some((200, r#"{"disconnect":{"code":4501,"reason":"out"}}"#)),
                4501,
            ),
            (Some((200, "{}")), 3501),
            (Some((403, "")), 4403),
            (Some((500, "")), 3004),
            (None, 3004),
        ] {
            let (mut scene, number) = stream(path);
            let told = objects(&scene.answer_text(number, answer));
            assert_eq!(told[0]["disconnect"]["code"], code, "{answer:?}");
            assert!(scene.has_ended());
        }
    }
}

/// Opens a listener with a token that names a channel about which a backend is asked; returns the
/// questions.
fn asks_to_begin(path: &str, channels: &[&str]) -> (Scene, Vec<(u32, serde_json::Value)>) {
    let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
    let subs = channels.iter().map(|name| ((*name).to_owned(), json!({})));
    let subs: serde_json::Map<_, _> = subs.collect();
    let token = sign(&json!({ "sub": "ann" }));
    let connect = json!({ "token": token, "headers": { "x-said": "yes" }, "subs": subs });
    if path == "uni_websocket" {
        scene.upgrade("/connection/uni_websocket", "");
        assert!(scene.say(&connect.to_string()).is_empty());
    } else {
        let told = listen(&mut scene, path, &connect);
        assert!(objects(&told).is_empty(), "{told}");
    }
    let mut asked = Vec::new();
    while !scene.asked.is_empty() {
        asked.push(scene.question());
    }
    (scene, asked)
}

const LISTENERS: [&str; 3] = ["uni_sse", "uni_http_stream", "uni_websocket"];

/// Answers a question, and takes the client's output.
fn tell(scene: &mut Scene, number: u32, answer: Option<(u16, &str)>, path: &str) -> String {
    match path {
        "uni_websocket" => scene.answer(number, answer).join("\n"),
        _ => scene.answer_text(number, answer),
    }
}

#[test]
fn a_backend_says_where_a_listener_begins() {
    for path in LISTENERS {
        let (mut scene, asked) = asks_to_begin(path, &["asked:a", "open:b", "other:c"]);
        let told: Vec<_> = { asked.iter() }
            .map(|(_, it)| (&it["to"], &it["backend"], &it["channel"], &it["user"]))
            .collect();
        let (subscribe, ann) = (&json!("subscribe"), &json!("ann"));
        let expected = [
            (subscribe, &json!(0), &json!("asked:a"), ann),
            (subscribe, &json!(1), &json!("other:c"), ann),
        ];
        assert_eq!(told, expected, "{path}");
        assert_eq!(asked[0].1["transport"], path);
        assert_eq!(asked[0].1["headers"], json!(["x-said: yes"]));
        // The first words wait for both, and answers meanwhile do not begin the stream twice.
        let until = json!({ "result": { "expire_at": BEGIN_S + 60, "data": [7] } }).to_string();
        assert_eq!(tell(&mut scene, asked[1].0, Some((200, &until)), path), "");
        if path == "uni_websocket" {
            assert!(scene.say("{}").is_empty());
        }
        let told = tell(
            &mut scene,
            asked[0].0,
            Some((200, r#"{"result":{}}"#)),
            path,
        );
        let hello = &objects(&told)[0]["connect"];
        let subs = json!({ "asked:a": {}, "open:b": {}, "other:c": { "data": [7] } });
        assert_eq!(hello["subs"], subs, "{path}: {told}");
        assert!(scene.asked.is_empty());
        // The subscription ends as the backend set it, and no other does.
        scene.pass_s(61);
        let over = match path {
            "uni_websocket" => scene.wait_s(0).join("\n"),
            _ => scene.happens(Event::Timeout),
        };
        assert!(
            over.contains(r#""channel":"other:c","unsubscribe""#),
            "{path}: {over}"
        );
        assert!(!scene.has_ended());
    }
}

#[test]
fn a_listener_may_not_begin_where_a_backend_says_no() {
    for path in LISTENERS {
        for (answer, code) in [
            (
                Some((200, r#"{"error":{"code":1000,"message":"no"}}"#)),
                3507,
            ),
            (
                Some((200, r#"{"disconnect":{"code":4501,"reason":"out"}}"#)),
                4501,
            ),
            (Some((403, "")), 4403),
            (Some((500, "")), 3004),
            (None, 3004),
        ] {
            let (mut scene, asked) = asks_to_begin(path, &["asked:a", "asked:b"]);
            let told = tell(&mut scene, asked[0].0, answer, path);
            assert!(
                told.contains(&code.to_string()),
                "{path} {answer:?}: {told}"
            );
            // A late answer changes nothing.
            let late = tell(
                &mut scene,
                asked[1].0,
                Some((200, r#"{"result":{}}"#)),
                path,
            );
            assert_eq!(late, "", "{path}");
        }
    }
}

/// Its own token expires meanwhile, and no backend is asked whether it goes on.
#[test]
fn a_listener_with_a_token_may_end_before_the_answer() {
    for path in BOTH {
        let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
        let token = sign(&json!({ "sub": "ann", "exp": BEGIN_S + 60 }));
        let connect = json!({ "token": token, "subs": { "asked:a": {} } });
        listen(&mut scene, path, &connect);
        scene.question();
        scene.pass_s(61);
        let told = objects(&scene.happens(Event::Timeout));
        assert_eq!(told[0]["disconnect"]["code"], 3005, "{path}: {told:?}");
        assert!(scene.asked.is_empty() && scene.has_ended(), "{path}");
    }
}

/// As many questions as one connection may have, and the next with each answer.
#[test]
fn a_listener_asks_about_many_channels_a_few_at_a_time() {
    let names: Vec<String> = (0..20).map(|n| format!("asked:{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for path in LISTENERS {
        let (mut scene, mut asked) = asks_to_begin(path, &names);
        assert_eq!(asked.len(), 16, "{path}");
        let mut told = String::new();
        for n in 0..20 {
            assert_eq!(told, "", "{path}");
            told = tell(
                &mut scene,
                asked[n].0,
                Some((200, r#"{"result":{}}"#)),
                path,
            );
            while !scene.asked.is_empty() {
                asked.push(scene.question());
            }
        }
        let subs = objects(&told)[0]["connect"]["subs"].clone();
        assert_eq!(
            subs.as_object().map(serde_json::Map::len),
            Some(20),
            "{path}"
        );
    }
}

/// A backend that lets a listener in, and another question about a channel that it names.
#[test]
fn a_listener_whom_a_backend_knows_is_asked_about_too() {
    let mut scene = Scene::with_backends(Port::Client, |_| {}, proxies());
    listen(&mut scene, "uni_sse", &json!({ "subs": { "asked:a": {} } }));
    let (number, _) = scene.question();
    let who = r#"{"result":{"user":"ann","meta":[1],"channels":["asked:b"]}}"#;
    assert!(objects(&scene.answer_text(number, Some((200, who)))).is_empty());
    let (number, asked) = scene.question();
    assert_eq!(
        (&asked["channel"], &asked["meta"]),
        (&json!("asked:a"), &json!([1]))
    );
    assert!(scene.asked.is_empty(), "it has named the other one itself");
    let told = objects(&scene.answer_text(number, Some((200, r#"{"result":{}}"#))));
    let subs = json!({ "asked:a": {}, "asked:b": {} });
    assert_eq!(told[0]["connect"]["subs"], subs, "{told:?}");
}
