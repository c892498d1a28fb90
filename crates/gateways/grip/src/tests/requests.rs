//! Requests as backends get them, and answers as clients do.

use throng_http1::origin::TargetAddress;

use super::*;

fn field<'a>(request: &'a OriginRequest, name: &str) -> Option<&'a str> {
    let field = request.headers.iter().find(|field| field.is(name));
    field.map(|field| str::from_utf8(&field.value).expect("text"))
}

/// With a trusted proxy in front, the backend learns that the client came by TLS.
#[test]
fn a_backend_hears_how_a_client_came() {
    let upgrade = upgrade("/a");
    let upgrade = upgrade.split_once("Host: a\r\n").expect("a host").1;
    let upgrade = upgrade.strip_suffix("\r\n").expect("an end");
    for (name, value, accepts, rest, expected) in [
        ("X-Forwarded-Proto", "https", true, "", Some("https")),
        ("X-Forwarded-Proto", "wss", true, "", Some("https")),
        ("X-Forwarded-Protocol", "https", true, "", Some("https")),
        ("X-Forwarded-Proto", "https", true, upgrade, Some("wss")),
        ("X-Forwarded-Proto", "http", true, "", None),
        ("X-Forwarded-Proto", "https", false, "", None),
        ("X-Other", "https", true, "", None),
    ] {
        let mut client = Client::with(|options| {
            options.accept_forwarded_proto = accepts;
            options.set_forwarded_proto = true;
        });
        client.says(&format!(
            "GET /a HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n{rest}\r\n"
        ));
        let asked = client.asked();
        let told = field(&asked, "X-Forwarded-Proto");
        assert_eq!(told, expected, "{name}: {value}, {accepts}, {rest}");
    }
}

/// A request need not name a host.
#[test]
fn a_request_without_a_host_is_for_localhost() {
    for head in ["1.0", "1.0\r\nHost:", "1.1\r\nHost:"] {
        let mut client = Client::with(|options| {
            options.book = book("localhost localhost:7999\n");
        });
        client.says(&format!("GET /a HTTP/{head}\r\n\r\n"));
        assert_eq!(field(&client.asked(), "Host"), Some("localhost"), "{head}");
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
        client.recover();
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
    assert!(client.has_forgotten());
    assert_eq!(client.ended, Some(End::Flush));
    // An answer without instructions passes, and then the start of the next request is unknown.
    let mut client = Client::asks("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab");
    client.answer(1, 200, &[], "");
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    assert!(told.contains("Connection: close\r\n"), "{told}");
    assert_eq!(client.ended, Some(End::Flush));
}
