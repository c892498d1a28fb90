//! Foreign web pages: the requests that a browser would send for them, sent by hand.

use std::net::SocketAddr;

use throng_testkit::{Response, Server, Setup, Wire};

use crate::support::SECRET;

/// A page's own name, which its owner has pointed at this machine.
const EVIL: &str = "evil.example";

/// One request on a connection of its own; an empty origin is none.
#[track_caller]
fn ask(to: SocketAddr, method: &str, target: &str, host: &str, origin: &str) -> Response {
    let origin = match origin {
        "" => String::new(),
        origin => format!("Origin: {origin}\r\n"),
    };
    let mut wire = Wire::connect(to);
    wire.send(&format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{origin}Content-Length: 2\r\n\
         Connection: close\r\n\r\n{{}}"
    ));
    wire.head()
}

/// A page that took this port's address is refused by the name that it has for it; one that asks
/// for the port by its address is refused for where it came from.
#[track_caller]
fn keeps_pages_out(port: SocketAddr, method: &str, target: &str, good: u16) {
    let evil = format!("{EVIL}:{}", port.port());
    let page = format!("http://{evil}");
    for (host, origin, status) in [
        (&*evil, &*page, 421),
        (&*evil, "", 421),
        (EVIL, "", 421),
        ("localhost.evil.example", "", 421),
        ("127.0.0.1.evil.example", "", 421),
        ("throng", "", 421),
        (&*port.to_string(), &*page, 403),
        (&*port.to_string(), "null", 403),
        (&*port.to_string(), "http://127.0.0.1.evil.example", 403),
        ("localhost", &*page, 403),
        (&*port.to_string(), "", good),
        ("localhost", "", good),
        ("[::1]:80", "http://localhost:3000", good),
    ] {
        let response = ask(port, method, target, host, origin);
        let what = format!("{method} {target}, Host: {host}, Origin: {origin}");
        assert_eq!(response.status, status, "{what}: {response:?}");
    }
}

const KEYLESS: [(&str, &str, u16); 7] = [
    ("POST", "/pub?channel=a", 200),
    ("POST", "/api/info", 200),
    ("POST", "/api/disconnect", 200),
    ("GET", "/", 200),
    ("GET", "/stats", 200),
    ("GET", "/metrics", 200),
    ("GET", "/sse?channel=throng:stats", 200),
];

#[test]
fn a_page_that_takes_our_address_drives_no_api_without_a_key() {
    // Clients need a token, so this is not open mode; the server API and GRIP's publishers need
    // nothing.
    let config = format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\n[grip]\nhttp_publish = \"127.0.0.1:0\"\n\
         [[grip.route]]\npath = \"/routed\"\norigin = [\"http://127.0.0.1:9\"]\n"
    );
    let server = Setup::new(&config).shards(1).start();
    for (method, target, good) in KEYLESS {
        keeps_pages_out(server.api_address(), method, target, good);
    }
    // `{}` has no items, which is a mistake of a publisher's and no refusal.
    keeps_pages_out(server.grip("http_publish"), "POST", "/publish/", 400);
    let refused = server.metric("throng_connections_refused_total{reason=\"host\"}");
    assert_eq!(refused, 6 * 8);
    // The client port asks for a token, so it goes by any name; a route's backend decides itself.
    for (target, status) in [("/sse?channel=a", 401), ("/healthz", 200), ("/routed", 502)] {
        let response = ask(server.clients(), "GET", target, EVIL, "");
        assert_eq!(response.status, status, "{target}");
    }
    // The operator is told in the log.
    assert!(server.logged("needs no key") > 0, "{:?}", server.log());
    server.stop();
}

#[test]
fn in_open_mode_no_port_is_asked_by_a_strange_name() {
    let server = Setup::default().shards(1).start();
    for (method, target, good) in KEYLESS {
        keeps_pages_out(server.api_address(), method, target, good);
    }
    for (target, good) in [
        ("/", 200),
        ("/sse?channel=secret", 200),
        ("/stream?channel=secret", 200),
        ("/ws?channel=secret", 426),
        ("/connection/websocket", 426),
        ("/connection/uni_sse", 200),
    ] {
        keeps_pages_out(server.clients(), "GET", target, good);
    }
    // Balancers ask by names of their own, and learn nothing.
    for port in [server.clients(), server.api_address()] {
        assert_eq!(ask(port, "GET", "/healthz", EVIL, "").status, 200);
    }
    // What is no browser may leave the name out.
    let mut wire = Wire::connect(server.api_address());
    wire.send("GET /stats HTTP/1.0\r\n\r\n");
    assert_eq!(wire.head().status, 200);
    server.stop();
}

#[test]
fn names_are_allowed_by_list_or_by_a_key() {
    let names = "[auth]\nallowed_hosts = [\"push.example.com\", \"*.internal\"]\n";
    let listed = Setup::new(names).shards(1).start();
    for (host, status) in [
        ("push.example.com", 200),
        ("Push.example.com:8001", 200),
        ("a.b.internal", 200),
        ("internal", 421),
        ("example.com", 421),
    ] {
        for port in [listed.api_address(), listed.clients()] {
            assert_eq!(ask(port, "GET", "/", host, "").status, status, "{host}");
        }
    }
    listed.stop();
    // A page cannot bring the key, so the name does not matter where it is asked for.
    let keyed = Setup::default().shards(1).api_key("key").start();
    let mut wire = Wire::connect(keyed.api_address());
    wire.send("GET /stats HTTP/1.1\r\nHost: push.example.com\r\nX-API-Key: key\r\n\r\n");
    assert_eq!(wire.head().status, 200);
    assert_eq!(
        ask(keyed.api_address(), "GET", "/stats", EVIL, "").status,
        401
    );
    keyed.stop();
}

/// An `Origin` that is not UTF-8 was once taken for none at all.
#[test]
fn an_origin_that_cannot_be_read_is_refused() {
    let config = "[appwrite]\n[[appwrite.project]]\nid = \"p\"\nplatforms = [\"localhost\"]\n";
    let server = Setup::new(config).shards(1).start();
    let refused = |to: SocketAddr, target: &str, origins: &[&[u8]]| {
        let mut wire = Wire::connect(to);
        let mut bytes = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
        for origin in origins {
            bytes.extend_from_slice(b"Origin: ");
            bytes.extend_from_slice(origin);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        wire.send_bytes(&bytes);
        wire.head().status == 403
    };
    for target in ["/sse?channel=a", "/stream?channel=a", "/ws?channel=a"] {
        assert!(
            !refused(server.clients(), target, &[b"http://localhost:3000"]),
            "{target}"
        );
        assert!(
            refused(server.clients(), target, &[b"http://evil.example/\xff"]),
            "{target}"
        );
        assert!(refused(server.clients(), target, &[b"\xff"]), "{target}");
        let two: [&[u8]; 2] = [b"http://localhost:3000", b"http://evil.example"];
        assert!(
            refused(server.clients(), target, &two),
            "the second counts: {target}"
        );
    }
    assert!(refused(
        server.api_address(),
        "/stats",
        &[b"http://localhost\xe9"]
    ));
    // Appwrite's gateway refuses in a frame.
    let mut wire = Wire::connect(server.clients());
    wire.send_bytes(
        b"GET /v1/realtime?project=p&channels[]=files HTTP/1.1\r\nHost: localhost\r\n\
          Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://evil\xff\r\n\r\n",
    );
    assert!(
        wire.rest().contains("Invalid Origin"),
        "a page of nobody's platform"
    );
    server.stop();
}

/// A page reads what is wrong with its request as it reads what is right.
#[test]
fn pages_may_read_why_they_were_refused() {
    let config = "[auth]\nallowed_origins = [\"https://app.example\"]\n";
    let config = format!("{config}hmac_secret = \"{SECRET}\"\n");
    let server = Setup::new(&config).shards(1).api_key("key").start();
    let page = "https://app.example";
    for (method, target, status) in [
        ("GET", "/sse?channel=a", 401),
        ("GET", "/stream?channel=a&token=x", 401),
        ("GET", "/sse?channel=%ff", 400),
        ("PUT", "/sse?channel=a", 405),
        ("GET", "/connection/uni_sse", 401),
        ("POST", "/connection/uni_http_stream", 401),
        ("OPTIONS", "/sse", 204),
    ] {
        for (origin, status, read) in [
            (page, status, Some(page)),
            ("https://evil.example", 403, None),
        ] {
            let response = ask(server.clients(), method, target, "push.example", origin);
            let allow = response.header("access-control-allow-origin");
            let known = (allow, response.header("vary").is_some());
            // A missing method is reported to any client.
            let status = if status == 403 && method == "PUT" {
                405
            } else {
                status
            };
            assert_eq!(response.status, status, "{method} {target} of {origin}");
            assert_eq!(
                known,
                (read, read.is_some()),
                "{method} {target} of {origin}"
            );
        }
    }
    // A body that is too long is refused before its sender is authenticated.
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!(
        "POST /connection/uni_http_stream HTTP/1.1\r\nHost: push.example\r\nOrigin: {page}\r\n\
         Content-Length: 99999999\r\n\r\n"
    ));
    let response = wire.head();
    let allow = response.header("access-control-allow-origin");
    assert_eq!((response.status, allow), (413, Some(page)));
    server.stop();
}

#[test]
fn the_api_port_says_what_browsers_may_do_with_it() {
    let server = Setup::default().shards(1).start();
    let asked = |method: &str, target: &str| ask_of(&server, method, target);
    for (method, target, status) in [
        ("GET", "/", 200),
        ("GET", "/stats", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/pub?channel=a", 405),
        ("POST", "/pub?channel=a", 200),
        ("POST", "/pub", 400),
        ("POST", "/api/info", 200),
        ("POST", "/api/publish", 200),
    ] {
        let response = asked(method, target);
        assert_eq!(response.status, status, "{method} {target}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(response.header(name), Some(value), "{method} {target}");
        }
        let policy = response
            .header("content-security-policy")
            .unwrap_or_default();
        for part in ["default-src 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{method} {target}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
    }
    server.stop();
}

fn ask_of(server: &Server, method: &str, target: &str) -> Response {
    ask(server.api_address(), method, target, "localhost", "")
}

/// A page that may connect reads why it was refused, also where nothing of its request could be
/// read but where it came from.
#[test]
fn pages_that_may_connect_read_every_refusal() {
    let config = "[auth]\nallowed_origins = [\"https://app.example\"]\n\
                  [limits]\nhead_bytes_max = 1024\n";
    let server = Setup::new(config).shards(1).start();
    let long = "x".repeat(2_000);
    for (start, more, status) in [
        ("GET /nothing HTTP/1.1", "", 404),
        ("GET /ws HTTP/1.1", "Broken line\r\n", 400),
        ("GET /ws HTTP/1.1", long.as_str(), 431),
    ] {
        for (origin, is_told) in [
            ("https://app.example", true),
            ("https://evil.example", false),
        ] {
            let mut wire = Wire::connect(server.clients());
            wire.send(&format!(
                "{start}\r\nHost: localhost\r\nOrigin: {origin}\r\n{more}\r\n"
            ));
            let answer = wire.head();
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(
                (answer.status, allowed),
                (status, Some(origin).filter(|_| is_told)),
                "{start}"
            );
        }
    }
    server.stop();
}
