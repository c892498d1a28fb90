//! What passes through, and clients that are held.

use serde_json::json;
use throng_testkit::{Wire, request, sign};

use crate::support::{Backend, get, item, open, publish, reply, server, server_with, subscribed};

const HOLD: (&str, &str) = ("Grip-Hold", "stream");

#[test]
fn a_request_and_its_answer_pass_through() {
    let backend = Backend::start(|asked, stream| {
        let body = format!("{} {}", asked.line, asked.body);
        reply(
            stream,
            &[("X-Own", "1"), ("Connection", "keep-alive")],
            &body,
        )
    });
    let server = server(&[backend.address], "");
    let headers = [
        ("X-A", "b"),
        ("Grip-Hold", "forged"),
        ("Accept-Encoding", "gzip"),
    ];
    let answer = request(server.clients(), "POST", "/a/b?c=%20d", &headers, "body");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, "POST /a/b?c=%20d HTTP/1.1 body");
    assert_eq!(answer.header("x-own"), Some("1"));
    let asked = &backend.asked()[0];
    assert_eq!(asked.header("x-a"), Some("b"));
    assert_eq!(asked.header("x-forwarded-for"), Some("127.0.0.1"));
    for absent in ["grip-hold", "accept-encoding", "connection"] {
        assert_eq!(asked.header(absent), None, "{absent}");
    }
    assert!(
        asked
            .header("grip-sig")
            .is_some_and(|sig| sig.split('.').count() == 3)
    );
    assert!(
        asked
            .header("grip-feature")
            .is_some_and(|list| list.contains("link:next"))
    );
    // Two requests at once on one connection are answered in turn.
    let mut wire = Wire::connect(server.clients());
    wire.send("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(wire.response("GET").body, "GET /1 HTTP/1.1 ");
    assert_eq!(wire.response("GET").body, "GET /2 HTTP/1.1 ");
    server.stop();
}

#[test]
fn a_stream_gets_the_body_and_then_what_is_published() {
    let backend = Backend::start(|_, stream| {
        reply(
            stream,
            &[
                HOLD,
                ("Grip-Channel", "room:1, other"),
                ("Content-Type", "text/event-stream"),
            ],
            "first\n",
        )
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/events");
    let head = wire.head();
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    assert_eq!(head.header("grip-hold"), None);
    assert_eq!(wire.chunk(), "first\n");
    subscribed(&server, 2);
    assert_eq!(
        publish(&server, &item("room:1", "one\\n", "")).body,
        "Published\n"
    );
    assert_eq!(wire.chunk(), "one\n");
    let both = format!("{}, {}", item("nobody", "x", ""), item("other", "two", ""));
    assert_eq!(publish(&server, &both).status, 200);
    assert_eq!(wire.chunk(), "two");
    publish(
        &server,
        r#"{"channel": "other", "http-stream": {"action": "close"}}"#,
    );
    assert_eq!(wire.chunk(), "");
    subscribed(&server, 0);
    // The connection takes the next request, and nothing of the stream comes before its answer.
    publish(&server, &item("room:1", "late", ""));
    wire.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wire.head();
    assert_eq!(wire.chunk(), "first\n");
    server.stop();
}

/// Option by which the server's own endpoints answer when they are asked for channels.
const OWN: &str = "own_endpoints = true";

#[test]
fn nobody_but_the_backend_says_who_listens() {
    let backend = Backend::start(|_, stream| reply(stream, &[HOLD, ("Grip-Channel", "room")], ""));
    let server = server_with(&[backend.address], OWN, "");
    let mut held = get(&server, "/events");
    held.head();
    subscribed(&server, 1);
    // Anyone may subscribe to any other channel, on each of these ways.
    for channel in ["grip:room", "grip:", "room"] {
        let is_open = channel == "room";
        let (status, code) = if is_open { (200, 101) } else { (403, 403) };
        for path in ["/sse", "/stream"] {
            let answer = get(&server, &format!("{path}?channel={channel}")).head();
            assert_eq!(answer.status, status, "{path} {channel}");
        }
        let answer = open(&server, &format!("/ws?channel={channel}")).head();
        assert_eq!(answer.status, code, "/ws {channel}");
        let connect = format!("{{\"subs\":{{\"{channel}\":{{}}}}}}").replace('"', "%22");
        let target = format!("/connection/uni_sse?cf_connect={connect}");
        assert_eq!(
            get(&server, &target).head().status,
            status,
            "uni_sse {channel}"
        );
    }
    publish(&server, &item("room", "true", ""));
    assert_eq!(held.chunk(), "true");
    server.stop();
}

#[test]
fn routes_win_over_own_endpoints_unless_these_are_asked_for() {
    let paths = [
        "/",
        "/stream?channel=a",
        "/sse?channel=a",
        "/healthz",
        "/connection/uni_sse",
        "/v1/realtime",
    ];
    for (own, passed) in [("", true), (OWN, false)] {
        let backend = Backend::start(|_, stream| reply(stream, &[("X-Backend", "1")], ""));
        let server = server_with(&[backend.address], own, "");
        for path in paths {
            let answer = get(&server, path).head();
            let is_backend = answer.header("x-backend").is_some();
            // Our page always gives way, and what is not configured is not there.
            let gives_way = matches!(path, "/" | "/v1/realtime");
            assert_eq!(is_backend, passed || gives_way, "{path}");
        }
        let answer = open(&server, "/ws?channel=a").head();
        assert_eq!(answer.status == 101, !passed, "{answer:?}");
        // The API port is not the backend's.
        assert_eq!(server.ask("GET", "/healthz", "").body, "ok\n");
        server.stop();
    }
}

#[test]
fn a_token_opens_no_channel_of_a_backend() {
    const SECRET: &str = "a secret that is long enough for a key";
    let backend = Backend::start(|_, stream| reply(stream, &[], ""));
    let auth = format!("[auth]\nhmac_secret = \"{SECRET}\"");
    let server = server_with(&[backend.address], OWN, &auth);
    let status = |claims: &serde_json::Value| {
        let connect = json!({ "token": sign(claims, SECRET) }).to_string();
        let connect = connect.replace('"', "%22");
        get(
            &server,
            &format!("/connection/uni_sse?cf_connect={connect}"),
        )
        .head()
        .status
    };
    assert_eq!(
        status(&json!({ "sub": "ann", "subs": { "room": {} } })),
        200
    );
    assert_eq!(
        status(&json!({ "sub": "ann", "subs": { "grip:room": {} } })),
        403
    );
    assert_eq!(
        status(&json!({ "sub": "ann", "channels": ["room", "grip:room"] })),
        403
    );
    server.stop();
}

#[test]
fn keep_alives_come_at_their_pace() {
    let backend = Backend::start(|_, stream| {
        let keep_alive = (
            "Grip-Keep-Alive",
            r"event: keep\n\n; format=cstring; timeout=1",
        );
        reply(stream, &[HOLD, ("Grip-Channel", "a"), keep_alive], "")
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    for _ in 0..2 {
        assert_eq!(wire.chunk(), "event: keep\n\n");
    }
    server.stop();
}

#[test]
fn a_long_poll_is_answered_by_an_item_or_by_its_time() {
    let backend = Backend::start(|asked, stream| {
        let headers = [
            ("Grip-Hold", "response"),
            ("Grip-Channel", "a"),
            ("Grip-Timeout", "5"),
            ("X-Held", "yes"),
        ];
        let body = if asked.line.contains("patch") {
            "{\"n\": 1}"
        } else {
            "nothing\n"
        };
        reply(stream, &headers, body)
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/poll");
    let mut patched = get(&server, "/patch");
    subscribed(&server, 2);
    let items = concat!(
        r#"{"channel": "a", "http-response": {"code": 201, "headers": {"X-Own": "1"},"#,
        r#" "body": "some\n"}}"#,
    );
    publish(&server, items);
    let answer = wire.response("GET");
    assert_eq!((answer.status, answer.body.as_str()), (201, "some\n"));
    assert_eq!(
        (answer.header("x-held"), answer.header("x-own")),
        (Some("yes"), Some("1"))
    );
    patched.response("GET");
    subscribed(&server, 0);
    // The connection goes on.
    wire.send("GET /patch HTTP/1.1\r\nHost: t\r\n\r\n");
    subscribed(&server, 1);
    publish(
        &server,
        concat!(
            r#"{"channel": "a", "http-response": {"body-patch": [{"op": "replace","#,
            r#" "path": "/n", "value": 2}]}}"#,
        ),
    );
    assert_eq!(wire.response("GET").body, "{\"n\":2}");
    wire.send("GET /poll HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(wire.response("GET").body, "nothing\n");
    // Its time is over, and it listens no more, though the connection stays.
    subscribed(&server, 0);
    server.stop();
}

#[test]
fn instructions_may_stand_in_the_body() {
    let backend = Backend::start(|_, stream| {
        let body = r#"{"hold": {"mode": "stream", "channels": [{"name": "a"}]},
            "response": {"code": 202, "headers": {"X-Own": "1"}, "body": "hi\n"}}"#;
        reply(
            stream,
            &[("Content-Type", "application/grip-instruct")],
            body,
        )
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    let head = wire.head();
    assert_eq!((head.status, head.header("x-own")), (202, Some("1")));
    assert_eq!(wire.chunk(), "hi\n");
    subscribed(&server, 1);
    publish(&server, &item("a", "more", ""));
    assert_eq!(wire.chunk(), "more");
    server.stop();
}

#[test]
fn filters_are_for_each_client() {
    let backend = Backend::start(|asked, stream| {
        let user = if asked.line.contains("jo") {
            "user=jo"
        } else {
            "user=al"
        };
        let channel = ("Grip-Channel", "a; filter=skip-self; filter=var-subst");
        reply(stream, &[HOLD, channel, ("Grip-Set-Meta", user)], "")
    });
    let server = server(&[backend.address], "");
    let (mut jo, mut al) = (get(&server, "/jo"), get(&server, "/al"));
    jo.head();
    al.head();
    subscribed(&server, 2);
    publish(
        &server,
        &item("a", "from jo", r#""meta": {"sender": "jo"},"#),
    );
    publish(&server, &item("a", "for %(user)s", ""));
    assert_eq!(jo.chunk(), "for jo");
    assert_eq!(al.chunk(), "from jo");
    assert_eq!(al.chunk(), "for al");
    server.stop();
}

#[test]
fn publishers_are_told_what_is_wrong() {
    let backend = Backend::start(|_, stream| reply(stream, &[], ""));
    let server = server(&[backend.address], "");
    let to = server.grip("http_publish");
    for (method, target, body, status) in [
        ("POST", "/publish/", "{", 400),
        ("POST", "/publish/", "{}", 400),
        ("POST", "/publish", "{\"items\": [{}]}", 400),
        ("GET", "/publish/", "", 405),
        ("POST", "/recover", "", 200),
        ("GET", "/nothing", "", 404),
    ] {
        let answer = request(to, method, target, &[], body);
        assert_eq!(
            answer.status, status,
            "{method} {target} {body}: {answer:?}"
        );
    }
    let json = request(
        to,
        "POST",
        "/publish/",
        &[("Accept", "application/json")],
        "{\"items\": []}",
    );
    assert_eq!(json.body, "{\"message\":\"Published\"}\n");
    // The API port takes items too.
    let answer = server.ask(
        "POST",
        "/publish/",
        &format!("{{\"items\": [{}]}}", item("a", "x", "")),
    );
    assert_eq!(answer.body, "Published\n");
    server.stop();
}
