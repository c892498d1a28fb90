//! Clients behind proxies: limits apply to them and not to the proxy, and only named proxies are
//! trusted.

use std::net::SocketAddr;

use throng_testkit::{Server, Setup, TlsFiles, Wire, post, until};

use crate::support::{Nginx, SECRET};

/// One connection for each client, so that a second one shows which client was counted.
fn one_each(more: &str) -> Server {
    let config = format!(
        "[limits]\nconnections_per_ip = 1\n[listen]\n{more}\n[channel]\nhistory_size = 0\n"
    );
    Setup::new(&config).shards(2).start()
}

/// Opens a stream behind some bytes and headers; its status, if it is answered.
fn stream(to: SocketAddr, before: &[u8], headers: &str) -> (Wire, Option<u16>) {
    let mut wire = Wire::connect(to);
    wire.send_bytes(before);
    wire.ask("/stream?channel=a", headers);
    let status = wire.try_head().map(|head| head.status);
    (wire, status)
}

fn v2(source: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend(source);
    header.extend([127, 0, 0, 1, 0xdd, 0xd5, 0x1f, 0x40]);
    header
}

/// The log names a proxy that is not configured; a configured one, or one that forwards no address,
/// is not logged.
#[test]
fn a_proxy_that_is_not_named_is_told() {
    for (config, header, told) in [
        ("", "X-Forwarded-For: 192.0.2.1\r\n", 1),
        ("", "Forwarded: for=192.0.2.1\r\n", 1),
        ("", "", 0),
        (
            "[listen]\ntrusted_proxies = [\"127.0.0.1\"]\n",
            "X-Forwarded-For: 192.0.2.1\r\n",
            0,
        ),
    ] {
        let server = Setup::new(config).shards(1).start();
        let (_wire, status) = stream(server.clients(), b"", header);
        assert_eq!(status, Some(200));
        let unnamed = || server.metric("throng_unnamed_proxies_total");
        assert_eq!(unnamed(), told, "{config}{header}");
        let is_logged = || {
            let lines = server.process().err_lines();
            lines
                .iter()
                .any(|line| line.contains("listen.trusted_proxies") && line.contains("127.0.0.1"))
        };
        if told > 0 {
            until("a warning", is_logged);
        }
        assert_eq!(is_logged(), told > 0, "{config}{header}");
        server.stop();
    }
}

/// A proxy with a public address is logged once it is refused for it.
#[test]
fn a_refused_proxy_is_told() {
    let server = one_each("trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:0\"]");
    let open = |last| {
        let header = "X-Forwarded-For: 192.0.2.7\r\n";
        stream(server.clients(), &v2([198, 51, 100, last]), header)
    };
    let kept = [open(1), open(2)];
    assert_eq!(kept.each_ref().map(|(_, status)| *status), [Some(200); 2]);
    assert_eq!(open(1).1, Some(429));
    until("a warning", || server.logged("198.51.100.1") > 0);
    assert_eq!(server.logged("198.51.100.2"), 0, "it was not refused");
    server.stop();
}

#[test]
fn a_proxy_header_names_the_client() {
    let server = one_each("trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:0\"]");
    let at = server.clients();
    let v1 = |source: &str| format!("PROXY TCP4 {source} 127.0.0.1 4711 80\r\n").into_bytes();
    let v6 = |source: &str| format!("PROXY TCP6 {source} ::1 4711 80\r\n").into_bytes();
    let open = |header: &[u8]| stream(at, header, "");
    let kept = [
        open(&v1("192.0.2.1")),
        open(&v2([192, 0, 2, 2])),
        open(&v6("2001:db8::1")),
        // The proxy asks how we are.
        open(b"PROXY UNKNOWN\r\n"),
        open(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"),
    ];
    for (_, status) in &kept {
        assert_eq!(*status, Some(200));
    }
    for again in [
        v2([192, 0, 2, 1]),
        v1("192.0.2.2"),
        // All of a /64 is one client's.
        v6("2001:db8::ffff:2"),
    ] {
        assert_eq!(open(&again).1, Some(429), "{}", again.escape_ascii());
    }
    assert_eq!(open(&v6("2001:db8:0:1::1")).1, Some(200));
    // A connection that begins otherwise is no proxy's, and gets no answer.
    assert_eq!(open(b"").1, None);
    // A place that is left is free.
    drop(kept);
    until("a free place", || open(&v1("192.0.2.1")).1 == Some(200));
    server.stop();
}

/// Proxies send the header in front of everything, TLS included: those that pass TLS through, and
/// those that speak it with us themselves.
#[test]
fn a_proxy_header_stands_before_tls() {
    for records in ["rustls", "lean"] {
        let tls = TlsFiles::default();
        let config = tls.config(&format!(
            "records = \"{records}\"\n[limits]\nconnections_per_ip = 1\n[listen]\n\
             trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:0\"]\n"
        ));
        let server = Setup::new(&config).shards(2).tls_clients().start();
        let open = |before: &[u8]| {
            let to = server.clients();
            let mut wire = Wire::connect_secure_behind(to, tls.authority.pem(), before);
            wire.ask("/stream?channel=a", "");
            let status = wire.try_head().map(|head| head.status);
            (wire, status)
        };
        let v1 = |source: &str| format!("PROXY TCP4 {source} 127.0.0.1 4711 443\r\n");
        let mut kept = [
            open(v1("192.0.2.1").as_bytes()),
            open(&v2([192, 0, 2, 2])),
            open(b"PROXY UNKNOWN\r\n"),
        ];
        for (_, status) in &kept {
            assert_eq!(*status, Some(200), "{records}");
        }
        assert_eq!(open(&v2([192, 0, 2, 1])).1, Some(429));
        assert_eq!(open(v1("192.0.2.2").as_bytes()).1, Some(429));
        // The API port has the same address, and requires a header too.
        let api = |request: &str| {
            let mut wire = Wire::connect(server.api_address());
            wire.send(&format!("PROXY UNKNOWN\r\n{request}"));
            wire.response("POST")
        };
        assert_eq!(api(&post("/pub?channel=a", "hello")).status, 200);
        for (wire, _) in &mut kept {
            wire.through("hello");
        }
        // TLS without a header, a wrong header, and a header behind TLS: none is answered.
        for before in [&b""[..], b"PROXY NONSENSE\r\n"] {
            assert_eq!(open(before).1, None, "{}", before.escape_ascii());
        }
        let mut late = Wire::connect_secure(server.clients(), tls.authority.pem());
        late.send(&v1("192.0.2.3"));
        assert!(late.try_head().is_none());
        let metrics = api("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").body;
        let refused = "throng_tls_handshakes_total{result=\"refused\"} 3\n";
        assert!(metrics.contains(refused), "{metrics}");
        server.stop();
    }
}

#[test]
fn strangers_may_not_pretend_to_be_proxies() {
    let server = one_each("trusted_proxies = [\"192.0.2.77\"]\nproxy_protocol = [\"127.0.0.1:0\"]");
    let header = b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\n";
    assert_eq!(stream(server.clients(), header, "").1, None);
    server.stop();
    // And a header of an untrusted sender is not looked at.
    let server = one_each("trusted_proxies = [\"192.0.2.77\"]");
    let (_kept, status) = stream(server.clients(), b"", "X-Forwarded-For: 192.0.2.1\r\n");
    assert_eq!(status, Some(200));
    let (_, status) = stream(server.clients(), b"", "X-Forwarded-For: 192.0.2.2\r\n");
    assert_eq!(status, Some(429));
    server.stop();
}

#[test]
fn forwarded_addresses_are_read_from_the_right_over_all_lines() {
    let server = one_each("trusted_proxies = [\"127.0.0.0/8\"]");
    let at = server.clients();
    let (_kept, status) = stream(at, b"", "X-Forwarded-For: 192.0.2.1\r\n");
    assert_eq!(status, Some(200));
    for headers in [
        // HAProxy adds a line; the first is the client's invention.
        "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 192.0.2.1\r\n",
        "X-Forwarded-For: 198.51.100.2, 192.0.2.1\r\n",
        "X-Forwarded-For: 192.0.2.1:4711\r\n",
        "X-Forwarded-For: 192.0.2.1, 127.0.0.9\r\n",
    ] {
        assert_eq!(stream(at, b"", headers).1, Some(429), "{headers}");
    }
    assert_eq!(
        stream(at, b"", "X-Forwarded-For: [2001:db8::1]:55\r\n").1,
        Some(200)
    );
    // A proxy's connection serves one client after the other.
    let mut wire = Wire::connect(at);
    for (client, status) in [("198.51.100.9", 200), ("192.0.2.1", 429)] {
        wire.ask("/healthz", &format!("X-Forwarded-For: {client}\r\n"));
        assert_eq!(wire.response("GET").status, status, "{client}");
    }
    server.stop();
}

/// The client named by a proxy pays for what it asks, and appears in the log: by a header of the
/// request, and by one of the connection.
#[test]
fn who_is_behind_a_proxy_pays_and_is_logged() {
    for more in ["", "proxy_protocol = [\"127.0.0.1:0\"]\n"] {
        let config = format!(
            "[auth]\nhmac_secret = \"{SECRET}\"\n[limits]\naddress_work_max = \"1ms\"\n\
             [listen]\ntrusted_proxies = [\"127.0.0.1\"]\n{more}"
        );
        let server = Setup::new(&config).shards(1).start();
        // Four bad tokens on one connection; the last request ends it in any case.
        let refusals = |client: &str| {
            let mut wire = Wire::connect(server.clients());
            let header = match more {
                "" => format!("X-Forwarded-For: {client}\r\n"),
                _ => {
                    wire.send(&format!("PROXY TCP4 {client} 127.0.0.1 4711 80\r\n"));
                    String::new()
                }
            };
            let ask = |more: &str| {
                format!(
                    "GET /sse?channel=a&token=a.b.c HTTP/1.1\r\nHost: localhost\r\n\
                     {header}{more}\r\n"
                )
            };
            wire.send(&format!(
                "{}{}",
                ask("").repeat(3),
                ask("Connection: close\r\n")
            ));
            let told = wire.rest();
            let statuses = told.split("HTTP/1.1 ").skip(1);
            statuses
                .map(|text| text[..3].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(refusals("192.0.2.2"), ["401"; 4], "{more}");
        until("a client that has spent what it may", || {
            refusals("192.0.2.1").contains(&"429".to_owned())
        });
        assert_eq!(
            refusals("192.0.2.2")[0],
            "401",
            "its neighbour pays for itself"
        );
        let named = |line: &serde_json::Value, client: &str| {
            line["message"] == "refused" && line["address"] == client
        };
        for client in ["192.0.2.1", "192.0.2.2"] {
            until("a line of the log", || {
                server.log().iter().any(|line| named(line, client))
            });
        }
        assert!(!server.log().iter().any(|line| named(line, "127.0.0.1")));
        server.stop();
    }
}

/// A real proxy, at an address of its own.
const NGINX: &str = "server { listen 127.0.0.1:PORT; location / {
proxy_pass http://SERVER; proxy_bind 127.0.0.3; proxy_http_version 1.1;
proxy_buffering off; proxy_set_header Connection \"\";
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; } }
";

#[test]
fn behind_nginx_the_client_counts_and_not_what_it_says() {
    let server = one_each("trusted_proxies = [\"127.0.0.3\"]");
    let nginx = Nginx::start(&NGINX.replace("SERVER", &server.clients().to_string()));
    let at = nginx.address;
    let (_kept, status) = stream(at, b"", "X-Forwarded-For: 198.51.100.1\r\n");
    assert_eq!(status, Some(200));
    // Another invention is the same client.
    let (_, status) = stream(at, b"", "X-Forwarded-For: 198.51.100.2\r\n");
    assert_eq!(status, Some(429));
    server.stop();
}
