//! Our own endpoints and channels beside a backend's. What passes through, and how clients are
//! held, is told by the dialogues.

use serde_json::json;
use throng_testkit::{Wire, sign};

use crate::support::{Backend, get, item, open, publish, reply, server, server_with, subscribed};

const HOLD: (&str, &str) = ("Grip-Hold", "stream");

#[test]
fn two_requests_at_once_on_one_connection_are_answered_in_turn() {
    let backend = Backend::start(|asked, stream| reply(stream, &[], &asked.line));
    let server = server(&[backend.address], "");
    let mut wire = Wire::connect(server.clients());
    wire.send("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(wire.response("GET").body, "GET /1 HTTP/1.1");
    assert_eq!(wire.response("GET").body, "GET /2 HTTP/1.1");
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
