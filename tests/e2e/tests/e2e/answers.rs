//! HTTP answers by the book: what each of them has, and what none may have.

use throng_testkit::{Setup, Wire, post};

#[test]
fn answers_to_head_have_no_body() {
    let server = Setup::default().shards(1).start();
    for address in [server.api_address(), server.clients()] {
        let mut wire = Wire::connect(address);
        let targets = [
            ("/", 200),
            ("/healthz", 200),
            ("/nowhere", 404),
            ("/sse", 405),
        ];
        for (target, status) in targets {
            wire.send(&format!(
                "HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n\
                 GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            let response = wire.response("HEAD");
            assert_eq!(response.status, status, "{target}");
            let length = response
                .header("content-length")
                .map(|length| length.parse::<usize>());
            assert!(matches!(length, Some(Ok(1..))), "{target}: {response:?}");
            // If there was a body after all, this is not where an answer begins.
            assert_eq!(wire.response("GET").body, "ok\n", "{target}");
        }
        // Nor have those to a HEAD that is none.
        for (fault, status) in [
            ("HEAD /healthz HTTP/1.1\r\n\r\n", 400),
            (
                "\r\nHEAD /a HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n",
                400,
            ),
            ("HEAD /a HTTP/3.0\r\n\r\n", 505),
            ("HEAD /\u{7f} HTTP/1.1\r\n\r\n", 400),
            (
                "HEAD /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
                413,
            ),
        ] {
            let mut wire = Wire::connect(address);
            wire.send(fault);
            assert_eq!(wire.response("HEAD").status, status, "{fault}");
            assert_eq!(wire.rest(), "", "{fault}");
        }
    }
    server.stop();
}

#[test]
fn every_answer_has_its_date() {
    let server = Setup::default().shards(1).start();
    let api = server.api_address();
    let clients = server.clients();
    let plain = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (to, request) in [
        (api, plain("GET /")),
        (api, "GET /healthz HTTP/1.0\r\n\r\n".to_owned()),
        (api, plain("GET /nowhere")),
        (api, post("/pub?channel=a", "x")),
        (api, post("/api/info", "{}")),
        (api, post("/api/publish", "[")),
        (api, plain("OPTIONS *")),
        (api, "nonsense\r\n\r\n".to_owned()),
        (clients, plain("GET /sse?channel=a")),
        (clients, plain("GET /stream?channel=a")),
        (clients, plain("OPTIONS /sse")),
        (clients, plain("GET /ws?channel=a")),
    ] {
        let mut wire = Wire::connect(to);
        wire.send(&request);
        let response = wire.head();
        let date = response.header("date").unwrap_or_default();
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let form: String = date
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert!(
            form.len() == 29
                && form.ends_with(" 0000 00:00:00 GMT")
                && form[3..].starts_with(", 00 "),
            "{request}: {date:?}"
        );
    }
    server.stop();
}

#[test]
fn the_server_says_what_it_can_do() {
    let server = Setup::default().shards(1).api_key("key").start();
    for port in [server.clients(), server.api_address()] {
        let mut wire = Wire::connect(port);
        wire.send("OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        let response = wire.response("OPTIONS");
        assert_eq!((response.status, &*response.body), (200, ""));
        assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
        wire.ask("/healthz", "");
        assert_eq!(wire.response("GET").status, 200);
    }
    server.stop();
}

/// A line is a publication, whatever line ends its parts were written with.
#[test]
fn nothing_in_a_publication_ends_its_line() {
    let server = Setup::default().shards(1).start();
    let mut lines = server.get("/stream?channel=news");
    lines.head();
    lines.chunk();
    let mut events = server.get("/sse?channel=news");
    events.through("subscribed");
    events.through("\n\n");
    for body in [
        "{\"channel\":\"news\",\"data\":1,\"tags\":{\n\"a\"\r\n:\r\"b\"\n\n}}",
        "{\"channel\":\"news\",\"data\":\n{\r\n\"a\":\n\n1}\r}",
        "{\"channel\":\"news\",\"data\":\"id: 1\\n\\nevent: x\"}",
    ] {
        let response = server.ask("POST", "/api/publish", body);
        assert_eq!(response.status, 200, "{response:?}");
        let line = lines.chunk();
        assert!(
            line.ends_with("}\n") && line.matches(['\n', '\r']).count() == 1,
            "{line:?}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&line).is_ok(),
            "{line:?}"
        );
        let event = events.through("\n\n");
        let is_data = |line: &str| line.is_empty() || line.starts_with("data: ");
        assert!(
            event.trim_end().split(['\n', '\r']).all(is_data),
            "{event:?}"
        );
    }
    // And a body that is no JSON.
    server.publish("news", "a\nid: 1\r\n\r\ndata: b\revent: c");
    assert_eq!(lines.chunk().matches('\n').count(), 1);
    let event = events.through("\n\n");
    assert!(
        event
            .trim_end()
            .split(['\n', '\r'])
            .all(|line| line.starts_with("data: ")),
        "{event:?}"
    );
    server.stop();
}
