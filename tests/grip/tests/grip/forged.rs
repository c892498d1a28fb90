//! What clients send so that a backend takes it for the proxy's word.

use throng_testkit::{Setup, Wire, request};

use crate::support::{Asked, Backend, KEY, reply, server};

/// A backend that takes whatever reaches it.
fn backend() -> Backend {
    Backend::start(|asked, stream| reply(stream, &[], &asked.line))
}

#[test]
fn events_of_websockets_are_not_a_clients_to_send() {
    let backend = backend();
    let at = backend.address;
    let config = format!(
        "[grip]\nsig_key = \"{KEY}\"\n\
         [[grip.route]]\npath = \"/\"\norigin = [\"http://{at}\"]\n\
         [[grip.route]]\npath = \"/ws\"\norigin = [\"http://{at}\"]\nover_http = true\n"
    );
    let server = Setup::new(&config).shards(2).start();
    for path in ["/x", "/wsx"] {
        for field in [
            ("Content-Type", "application/websocket-events"),
            ("content-type", "Application/WebSocket-Events;x=y"),
            ("Content_Type", "application/websocket-events"),
        ] {
            let fields = [field, ("Connection-Id", "1"), ("Meta-User", "admin")];
            let answer = request(server.clients(), "POST", path, &fields, "OPEN\r\n");
            assert_eq!(answer.status, 403, "{path} {field:?}");
        }
    }
    // A body that is still coming is no other case.
    let mut wire = Wire::connect(server.clients());
    wire.send(
        "POST /x HTTP/1.1\r\nHost: t\r\nContent-Type: application/websocket-events\r\n\
         Transfer-Encoding: chunked\r\n\r\n6\r\nOPEN\r\n",
    );
    assert_eq!(wire.response("POST").status, 403);
    let others = [("Content-Type", "application/json")];
    let answer = request(server.clients(), "POST", "/x", &others, "{}");
    assert_eq!(answer.status, 200);
    assert_eq!(backend.asked().len(), 1, "only what was not forged");
    server.stop();
}

/// Sends this head as a client and returns the request that the backend gets.
fn head(lines: &[&str]) -> Asked {
    let backend = backend();
    let server = server(&[backend.address], "");
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!("{}\r\n\r\n", lines.join("\r\n")));
    assert_eq!(wire.response("GET").status, 200);
    server.stop();
    backend.asked().remove(0)
}

#[test]
fn names_that_some_backends_take_for_others_do_not_pass() {
    let asked = head(&[
        "GET / HTTP/1.1",
        "Host: t",
        "Grip_Sig: x",
        "X_Forwarded_For: 6.6.6.6",
        "X_Forwarded_Proto: https",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Protocol: https",
        "Connection: Upgrade, HTTP2-Settings, X-Hop",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        "X-Hop: 1",
        "X_Own: kept",
    ]);
    let names: Vec<&str> = asked
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut names = names.clone();
    names.sort_unstable();
    let expected = [
        "grip-feature",
        "grip-sig",
        "host",
        "x-forwarded-for",
        "x_own",
    ];
    assert_eq!(names, expected);
    assert_eq!(asked.header("x-forwarded-for"), Some("127.0.0.1"));
}

#[test]
fn a_target_reaches_its_backend_as_it_was_meant() {
    for (target, expected) in [
        ("/x?", "/x?"),
        ("/?a?b", "/?a?b"),
        ("http://t/x?", "/x?"),
        ("/\u{e9}admin/x?q=caf\u{e9}", "/%C3%A9admin/x?q=caf%C3%A9"),
        ("/%c3%a9", "/%c3%a9"),
    ] {
        let asked = head(&[&format!("GET {target} HTTP/1.1"), "Host: t"]);
        assert_eq!(asked.line, format!("GET {expected} HTTP/1.1"));
    }
}

#[test]
fn a_length_that_no_backend_can_count_is_refused() {
    let backend = backend();
    let server = server(&[backend.address], "");
    for length in ["18446744073709551615", "9223372036854775808"] {
        let mut wire = Wire::connect(server.clients());
        wire.send(&format!(
            "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\nx"
        ));
        assert_eq!(wire.response("POST").status, 413, "{length}");
    }
    assert!(backend.asked().is_empty());
    server.stop();
}
