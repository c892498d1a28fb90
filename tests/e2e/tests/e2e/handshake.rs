//! The WebSocket handshake by the book: fields on several lines, and refusals that say what is
//! wanted (RFC 6455 section 4, RFC 9110 sections 5.3, 15.5.6 and 15.5.22).

use std::net::SocketAddr;

use throng_testkit::{Response, Setup, Wire};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
const VERSION: &str = "Sec-WebSocket-Version: 13";
const UPGRADE: [&str; 2] = ["Connection: Upgrade", "Upgrade: websocket"];
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Both of Throng's own families.
const TARGETS: [&str; 2] = ["/ws?channel=news", "/connection/websocket"];

#[track_caller]
fn ask(to: SocketAddr, line: &str, fields: &[&str]) -> Response {
    let mut wire = Wire::connect(to);
    wire.send(&format!(
        "{line}\r\nHost: localhost\r\n{}\r\n\r\n",
        fields.join("\r\n")
    ));
    wire.head()
}

/// More cases of both are in the tests of `protocols/ws`.
#[test]
fn lists_go_over_several_lines_and_nothing_else_comes_twice() {
    let server = Setup::default().shards(1).start();
    let upgrade = [
        "Connection: keep-alive",
        "Upgrade: h2c",
        UPGRADE[0],
        UPGRADE[1],
    ];
    for target in TARGETS {
        let line = format!("GET {target} HTTP/1.1");
        let response = ask(
            server.clients(),
            &line,
            &[&upgrade[..], &[KEY, VERSION]].concat(),
        );
        assert_eq!(response.status, 101, "{response:?}");
        assert_eq!(response.header("sec-websocket-accept"), Some(ACCEPT));
        for twice in [[KEY, KEY, VERSION], [KEY, VERSION, VERSION]] {
            let response = ask(server.clients(), &line, &[&UPGRADE[..], &twice].concat());
            assert_eq!(response.status, 400, "{twice:?}");
        }
    }
    server.stop();
}

#[test]
fn refusals_say_what_is_wanted() {
    let config = "[grip]\n[[grip.route]]\npath = \"/routed\"\norigin = [\"http://127.0.0.1:9\"]\n";
    let server = Setup::new(config).shards(1).start();
    let upgrade = UPGRADE;
    let check = |line: &str, fields: &[&str], status: u16, wanted: &[(&str, &str)]| {
        let response = ask(server.clients(), line, fields);
        assert_eq!(response.status, status, "{line} {fields:?}: {response:?}");
        for (name, value) in wanted {
            assert_eq!(response.header(name), Some(*value), "{line} {fields:?}");
        }
    };
    let to_websocket = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
    ];
    for target in TARGETS {
        let line = format!("GET {target} HTTP/1.1");
        for fields in [
            &[upgrade[0], upgrade[1], KEY, "Sec-WebSocket-Version: 8"][..],
            &[upgrade[0], upgrade[1], KEY],
            &["Accept: text/html"],
            &["Connection: Upgrade", "Upgrade: h2c", KEY, VERSION],
        ] {
            check(&line, fields, 426, &to_websocket);
        }
        let old = format!("GET {target} HTTP/1.0");
        let newer = [
            ("upgrade", "HTTP/1.1, websocket"),
            ("connection", "Upgrade, close"),
        ];
        check(&old, &[upgrade[0], upgrade[1], KEY, VERSION], 426, &newer);
        let post = format!("POST {target} HTTP/1.1");
        check(
            &post,
            &[upgrade[0], upgrade[1], KEY, VERSION],
            405,
            &[("allow", "GET")],
        );
    }
    let newer = [("upgrade", "HTTP/1.1"), ("connection", "Upgrade, close")];
    check("GET /stream?channel=a HTTP/1.0", &["A: b"], 426, &newer);
    let all = [upgrade[0], upgrade[1], KEY, VERSION];
    check("POST /routed HTTP/1.1", &all, 405, &[("allow", "GET")]);
    let old = [upgrade[0], upgrade[1], KEY, "Sec-WebSocket-Version: 8"];
    check("GET /routed HTTP/1.1", &old, 426, &to_websocket);
    server.stop();
}
