//! Requests as backends get them, and answers as clients do.

use throng_http1::origin::TargetAddress;
use throng_types::Now;

use super::*;

fn client(change: impl FnOnce(&mut GripOptions)) -> Client {
    let mut options = Arc::into_inner(options()).expect("nobody else has them");
    change(&mut options);
    let own = Rc::new(GripShared::new(Arc::new(options)));
    Client::of(
        ConnId::new(ShardId(0), 1, 1),
        own,
        Rc::new(throng_solo::shared()),
    )
}

fn field<'a>(request: &'a OriginRequest, name: &str) -> Option<&'a str> {
    let field = request.headers.iter().find(|field| field.is(name));
    field.map(|field| str::from_utf8(&field.value).expect("text"))
}

/// With a trusted proxy in front, the backend learns that the client came by TLS.
#[test]
fn a_backend_hears_how_a_client_came() {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (name, value, accepts, sets, rest, expected) in [
        ("X-Forwarded-Proto", "https", true, true, "", Some("https")),
        ("X-Forwarded-Proto", "wss", true, true, "", Some("https")),
        (
            "X-Forwarded-Protocol",
            "https",
            true,
            true,
            "",
            Some("https"),
        ),
        (
            "X-Forwarded-Proto",
            "https",
            true,
            true,
            upgrade,
            Some("wss"),
        ),
        ("X-Forwarded-Proto", "http", true, true, "", None),
        ("X-Forwarded-Proto", "https", false, true, "", None),
        ("X-Other", "https", true, true, "", None),
    ] {
        let mut client = client(|options| {
            options.accept_forwarded_proto = accepts;
            options.set_forwarded_proto = sets;
        });
        client.says(&format!(
            "GET /a HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n{rest}\r\n"
        ));
        let asked = client.asked();
        let told = field(&asked, "X-Forwarded-Proto");
        assert_eq!(told, expected, "{name}: {value}, {accepts}, {rest}");
    }
}

/// A request of HTTP/1.0 need not name a host.
#[test]
fn a_request_without_a_host_is_for_localhost() {
    let mut client = client(|options| {
        let book = RouteBook {
            routes: parse_routes("localhost localhost:7999\n").routes,
            ..RouteBook::default()
        };
        options.book = Arc::new(book);
    });
    client.says("GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(field(&client.asked(), "Host"), Some("localhost"));
}

/// Instructions under a signature for a proxy in front pass unchanged to that proxy.
#[test]
fn instructions_for_a_proxy_in_front_pass() {
    let key = b"the key of the proxy in front";
    let now = Now {
        mono: Millis(1_000_000),
        unix_ms: 1_000_000,
    };
    let signer = GripShared::new(Arc::new(GripOptions {
        sig_iss: "front".to_owned(),
        sig_key: Some(key.to_vec()),
        ..GripOptions::default()
    }));
    let sig = signer.sig(&throng_grip::routes::Route::default(), now);
    for (sig, is_trusted) in [(sig.expect("a key"), true), ("nonsense".into(), false)] {
        let mut client = client(|options| {
            options.upstream = GripOptions::upstream(key).ok().map(Arc::new);
        });
        client.solo.now = now;
        client.says(&format!(
            "GET /a HTTP/1.1\r\nHost: a\r\nGrip-Sig: {sig}\r\n\r\n"
        ));
        let asked = client.asked();
        assert_eq!(field(&asked, "Grip-Sig") == Some(&*sig), is_trusted);
        client.head(1, 200, &[("Grip-Hold", "stream"), ("Grip-Channel", "a")]);
        assert_eq!(client.told().contains("Grip-Hold: stream"), is_trusted);
        assert_eq!(client.hub.is_empty(), is_trusted);
    }
}

/// A link may lead to another origin.
#[test]
fn a_link_may_lead_elsewhere() {
    for (link, host, port, tls, path) in [
        ("/next?x=1", "localhost", 7999, false, "/next?x=1"),
        ("next", "localhost", 7999, false, "/next"),
        ("http://other:8000/n?x", "other", 8000, false, "/n?x"),
        ("https://other/n", "other", 443, true, "/n"),
        ("HTTP://other", "other", 80, false, "/"),
        ("http://other:81?x=1", "other", 81, false, "/?x=1"),
        ("//other:82/n", "other", 82, false, "/n"),
    ] {
        let mut client = Client::gets();
        client.asked();
        let link_field = format!("<{link}>; rel=next; timeout=60");
        let fields = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "a; prev-id=1"),
            ("Grip-Link", &*link_field),
        ];
        client.head(1, 200, &fields);
        client.joins("a");
        client.end(1);
        client.solo.act(|session, cx| session.recover(cx));
        client.sort();
        let asked = client.asked();
        let target = &asked.to.targets[0];
        let expected = TargetAddress::Origin {
            host: host.to_owned(),
            port,
        };
        assert_eq!((&target.address, target.tls), (&expected, tls), "{link}");
        assert_eq!(asked.path, path, "{link}");
        assert_eq!(asked.method, "GET");
    }
}

/// A backend that instructs before the request is there whole has its client refused.
#[test]
fn a_hold_needs_the_whole_request() {
    let mut client = Client::asks("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab");
    client.head(1, 200, &[("Grip-Hold", "stream"), ("Grip-Channel", "a")]);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    let forgets = |order: &Order| matches!(order, Order::Forget { .. });
    assert!(client.orders.iter().any(forgets));
    assert_eq!(client.ended, Some(End::Flush));
    // An answer without instructions passes, and then the start of the next request is unknown.
    let mut client = Client::asks("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab");
    client.head(1, 200, &[]);
    client.end(1);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    assert!(told.contains("Connection: close\r\n"), "{told}");
    assert_eq!(client.ended, Some(End::Flush));
}

/// Framing of answers, by status and the backend's headers.
#[test]
fn answers_are_framed_as_their_status_wants() {
    let whole = |code, fields: &[(&str, &str)], bytes: Option<u64>, is_bodiless| OriginHead {
        body_bytes: bytes,
        is_bodiless,
        ..head(code, fields)
    };
    for (head, version, framing, body) in [
        (
            whole(200, &[], Some(2), false),
            "1.1",
            "Content-Length: 2\r\n",
            "hi",
        ),
        (
            whole(200, &[], None, false),
            "1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nhi\r\n",
        ),
        (
            whole(304, &[], Some(7), true),
            "1.1",
            "Content-Length: 7\r\n",
            "",
        ),
        (whole(204, &[], None, true), "1.1", "", ""),
        (
            whole(200, &[("Grip-Status", "204")], Some(2), false),
            "1.1",
            "",
            "",
        ),
        (
            whole(200, &[], Some(2), false),
            "1.0",
            "Content-Length: 2\r\n",
            "hi",
        ),
        (
            whole(200, &[], None, false),
            "1.0",
            "Connection: close\r\n",
            "hi",
        ),
    ] {
        let keep = if version == "1.0" {
            "Connection: keep-alive\r\n"
        } else {
            ""
        };
        let mut client = Client::asks(&format!("GET /a HTTP/{version}\r\nHost: a\r\n{keep}\r\n"));
        let words = format!("{} {version} {framing}", head.code);
        client.backend(1, OriginEvent::Head(head));
        let told = client.told();
        let lengths = told.matches("Content-Length").count() + told.matches("chunked").count();
        assert!(told.contains(framing), "{words}: {told}");
        assert_eq!(
            lengths,
            framing.matches("Content-Length").count() + framing.matches("chunked").count()
        );
        assert_eq!(
            told.contains("Connection: keep-alive\r\n"),
            version == "1.0" && !framing.contains("close"),
            "{words}: {told}"
        );
        client.body(1, "hi");
        assert_eq!(client.told(), body, "{words}");
        client.end(1);
        assert_eq!(client.ended.is_some(), framing.contains("close"), "{words}");
    }
}
