//! A server that is configured by Pushpin's own files.

use std::fs;
use std::net::SocketAddr;

use tempfile::TempDir;
use throng_testkit::{Server, Setup, request, until};

use crate::support::{Asked, Backend, get, item, publish, reply, subscribed};

/// A folder with `pushpin.conf` and `routes`, and a server that reads them.
struct Pushpin {
    server: Server,
    _folder: TempDir,
}

#[track_caller]
fn pushpin(conf: &str, routes: &str) -> Pushpin {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pushpin.conf");
    fs::write(&path, conf).expect("a file in it");
    fs::write(folder.path().join("routes"), routes).expect("another");
    let config = format!("[grip]\npushpin_conf = {:?}\n", path.display().to_string());
    Pushpin {
        server: Setup::new(&config).shards(2).start(),
        _folder: folder,
    }
}

fn header<'a>(asked: &'a [Asked], name: &str) -> Option<&'a str> {
    asked.last().and_then(|asked| asked.header(name))
}

fn route(at: SocketAddr) -> String {
    format!("* {at}\n*,path_beg=/id/,id=second {at},host=second\n")
}

const CONF: &str = "[global]\ninclude={libdir}/internal.conf\n[runner]\nservices=connmgr,proxy,\
                    handler\n\
    http_port=127.0.0.1:7999\n[proxy]\nroutesfile=routes\nauto_cross_origin=true\n\
    set_x_forwarded_protocol=proto-only\nx_forwarded_for=\"truncate:0,append\"\nsig_iss=us\n\
    sig_key=changeme\nupstream_key=changeme\naccept_pushpin_route=true\ncdn_loop=me\n\
    [handler]\npush_in_http_addr=127.0.0.1\npush_in_http_port=0\nmessage_hwm=25000\n\
    connection_subscription_max=1\nid_cache_ttl=60\n\
    prometheus_prefix=pushpin_\n";

#[test]
fn its_options_take_effect() {
    let backend = Backend::start(|_, stream| {
        let hold = [("Grip-Hold", "stream"), ("Grip-Channel", "a, b")];
        reply(stream, &hold, "hi\n")
    });
    let pushpin = pushpin(CONF, &route(backend.address));
    let server = &pushpin.server;
    let mut wire = throng_testkit::Wire::connect(server.clients());
    wire.send(
        "GET /x HTTP/1.1\r\nHost: t\r\nOrigin: http://page\r\nX-Forwarded-For: 1.2.3.4\r\n\
         X-Forwarded-Proto: https\r\nCDN-Loop: other\r\n\r\n",
    );
    let head = wire.head();
    assert_eq!(
        head.header("access-control-allow-origin"),
        Some("http://page")
    );
    assert_eq!(wire.chunk(), "hi\n");
    let asked = backend.wait("/x", 1);
    assert_eq!(header(&asked, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(header(&asked, "x-forwarded-proto"), None);
    assert_eq!(header(&asked, "cdn-loop"), Some("other, me"));
    assert!(header(&asked, "grip-sig").is_some());
    // connection_subscription_max.
    subscribed(server, 1);
    publish(server, &item("a", "one", "\"id\": \"1\","));
    publish(server, &item("b", "lost", ""));
    publish(server, &item("a", "again", "\"id\": \"1\","));
    publish(server, &item("a", "two", ""));
    assert_eq!(
        (wire.chunk(), wire.chunk()),
        ("one".to_owned(), "two".to_owned())
    );
    let told: Vec<String> = server
        .log()
        .iter()
        .filter(|line| line["level"] == "WARN")
        .filter_map(|line| Some(line["message"].as_str()?.to_owned()))
        .collect();
    for option in ["global.include", "runner.services", "handler.message_hwm"] {
        assert!(
            told.iter()
                .any(|line| line.contains(&format!("{option} has no effect"))),
            "{option}: {told:#?}"
        );
    }
    pushpin.server.stop();
}

#[test]
fn a_proxy_in_front_is_trusted_by_its_signature() {
    let backend = Backend::start(|_, stream| {
        let hold = [("Grip-Hold", "stream"), ("Grip-Channel", "a")];
        reply(stream, &hold, "hi\n")
    });
    let pushpin = pushpin(CONF, &route(backend.address));
    let server = &pushpin.server;
    get(server, "/first").head();
    let asked = backend.wait("/first", 1);
    let sig = header(&asked, "grip-sig").expect("signed").to_owned();
    let trusted = [
        ("Grip-Sig", sig.as_str()),
        ("Grip-Last", "a; last-id=1"),
        ("X-Forwarded-For", "1.2.3.4"),
    ];
    let answer = request(server.clients(), "GET", "/trusted", &trusted, "");
    // Untouched: it is for the proxy in front to hold its client.
    assert_eq!(answer.header("grip-hold"), Some("stream"));
    assert_eq!(answer.body, "hi\n");
    let asked = backend.wait("/trusted", 1);
    assert_eq!(header(&asked, "grip-sig"), Some(sig.as_str()));
    assert_eq!(header(&asked, "grip-last"), Some("a; last-id=1"));
    // x_forwarded_for_trusted is not set, and leaves the field alone.
    assert_eq!(header(&asked, "x-forwarded-for"), Some("1.2.3.4"));
    let forged = sig.replace('.', ".e30");
    let forged = [("Grip-Sig", forged.as_str()), ("Connection", "close")];
    let mut wire = throng_testkit::Wire::connect(server.clients());
    wire.send(&format!(
        "GET /forged HTTP/1.1\r\nHost: t\r\nGrip-Sig: {}\r\n\r\n",
        forged[0].1
    ));
    assert_eq!(wire.head().header("grip-hold"), None);
    let asked = backend.wait("/forged", 1);
    assert_ne!(header(&asked, "grip-sig"), Some(forged[0].1));
    pushpin.server.stop();
}

#[test]
fn a_request_names_its_route() {
    let backend = Backend::start(|_, stream| reply(stream, &[], "fine"));
    let pushpin = pushpin(CONF, &route(backend.address));
    let server = &pushpin.server;
    let ask = |target: &str, id: &str| {
        request(
            server.clients(),
            "GET",
            target,
            &[("Pushpin-Route", id)],
            "",
        )
        .status
    };
    assert_eq!(ask("/id/x", "second"), 200);
    assert_eq!(header(&backend.wait("/id/x", 1), "host"), Some("second"));
    // Neither an unknown id, nor a route whose condition does not fit, leads anywhere.
    assert_eq!(ask("/id/x", "third"), 404);
    assert_eq!(ask("/other", "second"), 404);
    pushpin.server.stop();
}

/// Pushpin looks at no `Host`: programs ask by any name. Browsers show what they are, and may not.
#[test]
fn publishers_and_scrapers_ask_by_any_name() {
    let backend = Backend::start(|_, stream| reply(stream, &[], "fine"));
    let conf = format!("{CONF}prometheus_port=127.0.0.1:0\n");
    let pushpin = pushpin(&conf, &route(backend.address));
    let server = &pushpin.server;
    let ask = |port: &str, method: &str, more: &str| {
        let mut wire = throng_testkit::Wire::connect(server.grip(port));
        let body = "{\"items\": []}";
        let name = "pushpin.default.svc.cluster.local:5561";
        wire.send(&format!(
            "{method} /{} HTTP/1.1\r\nHost: {name}\r\n{more}Content-Length: {}\r\n\r\n{body}",
            if method == "POST" {
                "publish/"
            } else {
                "metrics"
            },
            body.len()
        ));
        wire.response(method).status
    };
    for (port, method) in [("http_publish", "POST"), ("prometheus", "GET")] {
        assert_eq!(ask(port, method, "User-Agent: curl/8\r\n"), 200, "{port}");
        for sign in [
            "Origin: http://evil.example",
            "Sec-Fetch-Site: same-origin",
            "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0",
        ] {
            assert_eq!(ask(port, method, &format!("{sign}\r\n")), 421, "{sign}");
        }
    }
    pushpin.server.stop();
}

/// `OPTIONS *` is asked of a server, not of a path (RFC 9110 section 9.3.7).
#[test]
fn the_port_for_publishing_says_what_the_server_can_do() {
    let backend = Backend::start(|_, stream| reply(stream, &[], "fine"));
    let pushpin = pushpin(CONF, &route(backend.address));
    let at = pushpin.server.grip("http_publish");
    let answer = request(at, "OPTIONS", "*", &[], "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    pushpin.server.stop();
}

/// Hop-by-hop fields end here: those of a client about the way it came, and those of a backend to
/// this server alone.
#[test]
fn what_is_said_to_one_hop_ends_there() {
    let backend = Backend::start(|_, stream| {
        let fields = [
            ("Connection", "X-Hop"),
            ("X-Hop", "1"),
            ("X-End", "2"),
            ("Upgrade", "h2c"),
        ];
        reply(stream, &fields, "fine")
    });
    let behind = "\n[listen]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    for (more, is_kept) in [("", false), (behind, true)] {
        let server = crate::support::server_with(&[backend.address], "", more);
        let forwarded = [("Forwarded", "for=1.2.3.4;proto=https")];
        let answer = request(server.clients(), "GET", "/hop", &forwarded, "");
        assert_eq!(answer.header("x-end"), Some("2"));
        assert_eq!(
            (answer.header("x-hop"), answer.header("upgrade")),
            (None, None)
        );
        let asked = backend.wait("/hop", if is_kept { 2 } else { 1 });
        let kept = header(&asked, "forwarded");
        assert_eq!(kept, is_kept.then_some("for=1.2.3.4;proto=https"));
        server.stop();
    }
}

#[test]
fn metrics_have_pushpins_names() {
    let backend = Backend::start(|_, stream| {
        reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "a")],
            "",
        )
    });
    let conf = format!("{CONF}prometheus_port=127.0.0.1:0\nprometheus_prefix=p_\n");
    let apart = pushpin(&conf, &route(backend.address));
    let server = &apart.server;
    let mut wire = get(server, "/");
    wire.head();
    subscribed(server, 1);
    publish(server, &item("a", "one", ""));
    assert_eq!(wire.chunk(), "one");
    let ask = |target: &str| request(server.grip("prometheus"), "GET", target, &[], "");
    let lines = [
        "p_request_received 1",
        "p_connection_connected 1",
        "p_connection_minute 0",
        "p_message_received 1",
        "p_message_sent 1",
        "p_message_dropped{policy=\"close\"} 0",
        "p_connection_closed{reason=\"slow\"} 0",
    ];
    // The connection that published counts until it has gone.
    let text = until("each of the lines", || {
        let text = ask("/metrics").body;
        let has = |line: &&str| text.lines().any(|found| found == *line);
        lines.iter().all(has).then_some(text)
    });
    assert!(!text.contains("throng_"), "{text}");
    assert_eq!(ask("/stats").status, 404);
    // They have a port of their own.
    assert!(
        !server
            .ask("GET", "/metrics", "")
            .body
            .contains("p_message_sent")
    );
    drop(wire);
    until("no client is connected", || {
        let text = ask("/metrics").body;
        text.contains("p_connection_connected 0\n").then_some(())
    });
    apart.server.stop();
    let together = crate::support::server(&[backend.address], "");
    assert_eq!(together.metric("pushpin_message_received"), 0);
    together.stop();
}
