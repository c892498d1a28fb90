//! HTTP said by hand: what is refused, what may follow on one connection, and how long it may take.

use serde_json::json;
use throng_testkit::{Setup, Wire, request, until};

#[test]
fn what_may_be_read_in_two_ways_is_refused() {
    // In a channel with history a publication leaves a trace, although nobody subscribes.
    let config = "[[namespace]]\nname = \"kept\"\nhistory_size = 100\nhistory_ttl = \"5m\"\n";
    let server = Setup::new(config).shards(1).start();
    let kept = || {
        let history = server.call("history", &json!({ "channel": "kept:a", "limit": -1 }));
        history["result"]["publications"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let smuggled =
        "POST /pub?channel=kept:a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
    let long = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let check = |why: &str, head: &str, status: u16| {
        let mut wire = Wire::connect(server.api_address());
        wire.send(&format!(
            "POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\n{head}\r\nhello{smuggled}"
        ));
        let told = wire.rest();
        let answers = told.matches("HTTP/1.1 ").count();
        assert_eq!(answers, 1, "{why}: what follows is not looked at: {told}");
        assert_eq!(told[9..12], status.to_string(), "{why}: {told}");
    };
    for (why, head) in [
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        (
            "the same length twice",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
        ),
        ("a list of lengths", "Content-Length: 5, 6\r\n"),
        (
            "a length and chunks",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        ),
        ("a signed length", "Content-Length: +5\r\n"),
        ("a negative length", "Content-Length: -5\r\n"),
        ("a hexadecimal length", "Content-Length: 0x5\r\n"),
        ("a length with a space", "Content-Length: 5 5\r\n"),
        ("an empty length", "Content-Length: \r\n"),
        (
            "a huge length",
            "Content-Length: 99999999999999999999999999\r\n",
        ),
        (
            "chunks twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ),
        (
            "a list of chunks",
            "Transfer-Encoding: chunked, chunked\r\n",
        ),
        ("a coding in disguise", "Transfer-Encoding : chunked\r\n"),
        ("a folded header", "X: a\r\n b\r\n"),
        ("a bare carriage return", "X: a\rContent-Length: 5\r\n"),
        ("a second host", "Host: b\r\n"),
    ] {
        check(why, head, 400);
    }
    for (why, head) in [
        ("an unknown coding", "Transfer-Encoding: gzip\r\n"),
        (
            "a coding behind chunks",
            "Transfer-Encoding: chunked, gzip\r\n",
        ),
        (
            "a coding before chunks",
            "Transfer-Encoding: gzip, chunked\r\n",
        ),
        (
            "another coding in disguise",
            "Transfer-Encoding: xchunked\r\n",
        ),
        (
            "an unknown coding and a length",
            "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
        ),
    ] {
        check(why, head, 501);
    }
    for (why, bytes) in [
        ("no request", "\u{0}\u{1}\u{2}\r\n\r\n"),
        (
            "TLS on a plain port",
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n",
        ),
        ("no version", "GET /healthz\r\n\r\n"),
        (
            "another version",
            "GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n",
        ),
        ("no host", "GET /healthz HTTP/1.1\r\n\r\n"),
        ("a head without end", &long),
        (
            "a space in the target",
            "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
        (
            "a bad chunk",
            "POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
             zz\r\n",
        ),
    ] {
        let mut wire = Wire::connect(server.api_address());
        wire.send(bytes);
        let told = wire.rest();
        assert!(
            told.starts_with("HTTP/1.1 4") || told.starts_with("HTTP/1.1 505"),
            "{why}: {told:?}"
        );
    }
    assert_eq!(kept(), 0, "a request inside a request was carried out");
    // The same bytes do leave a trace where they are a request.
    Wire::connect(server.api_address()).send(smuggled);
    until("the publication is kept", || (kept() == 1).then_some(()));
    // After all that it serves as before.
    server.publish("news", "x");
    server.stop();
}

#[test]
fn one_connection_serves_many_requests() {
    let server = Setup::default().shards(2).start();
    let mut wire = Wire::connect(server.api_address());
    for n in 0..20 {
        wire.send(&format!(
            "POST /pub?channel=news HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{:02}",
            n
        ));
        assert_eq!(wire.response("POST").status, 200);
    }
    // All at once, answered in their order; some need other shards, some do not.
    let publish = "POST /pub?channel=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\ny";
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let lost = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let info = "POST /api/info HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    wire.send(&[publish, health, info, lost, publish, health].concat());
    for (method, status, part) in [
        ("POST", 200, ""),
        ("GET", 200, "ok"),
        ("POST", 200, "\"nodes\""),
        ("GET", 404, "nothing at this path"),
        ("POST", 200, ""),
        ("GET", 200, "ok"),
    ] {
        let response = wire.response(method);
        assert!(
            response.status == status && response.body.contains(part),
            "{part}: {response:?}"
        );
    }
    // Byte by byte, and as chunks.
    for byte in publish.as_bytes() {
        wire.send_bytes(&[*byte]);
    }
    assert_eq!(wire.response("POST").status, 200);
    wire.send(
        "POST /pub?channel=x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n",
    );
    wire.send("2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n");
    assert_eq!(wire.response("POST").status, 200);
    // A client that asks first is told to go on.
    wire.send(
        "POST /pub?channel=x HTTP/1.1\r\nHost: localhost\r\nExpect: \
               100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    assert_eq!(wire.head().status, 100);
    wire.send("ab");
    assert_eq!(wire.response("POST").status, 200);
    // The wish to close is followed; HTTP/1.0 wishes so by itself.
    wire.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(wire.response("GET").header("connection"), Some("close"));
    wire.until_closed();
    let mut old = Wire::connect(server.api_address());
    old.send("GET /healthz HTTP/1.0\r\n\r\n");
    assert!(old.rest().ends_with("ok\n"));
    server.stop();
}

#[test]
fn a_slow_head_is_not_waited_for() {
    let config = "[limits]\nhead_timeout = \"300ms\"\nkeepalive_timeout = \"1s\"\n";
    let server = Setup::new(config).shards(1).start();
    for address in [server.clients(), server.api_address()] {
        let mut silent = Wire::connect(address);
        assert_eq!(silent.rest(), "", "it has asked nothing");
        let mut half = Wire::connect(address);
        half.send("GET /healthz HT");
        assert!(half.rest().starts_with("HTTP/1.1 408 "));
        let mut idle = Wire::connect(address);
        idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(idle.response("GET").status, 200);
        assert_eq!(idle.rest(), "", "nothing came within its time");
    }
    let mut body = Wire::connect(server.api_address());
    body.send("POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    assert!(body.rest().starts_with("HTTP/1.1 408 "));
    // One that drips does not get more time by it: each byte is one, the deadline stays.
    let mut drip = Wire::connect(server.clients());
    let told = until("the end of a drip", || {
        drip.send("G");
        drip.has_ended().then(|| drip.rest())
    });
    assert!(told.starts_with("HTTP/1.1 4"), "{told}");
    server.stop();
}

#[test]
fn what_is_not_there_says_what_is() {
    let server = Setup::default().shards(1).start();
    for (address, method, target, status, part) in [
        (
            server.clients(),
            "GET",
            "/nowhere",
            404,
            "GET / lists the endpoints",
        ),
        (server.clients(), "GET", "/", 200, "/sse?channel=NAME"),
        (server.clients(), "POST", "/sse?channel=a", 405, "GET"),
        (
            server.clients(),
            "POST",
            "/pub?channel=a",
            404,
            "nothing at this path",
        ),
        (server.clients(), "GET", "/sse", 400, "?channel=NAME"),
        (server.clients(), "GET", "/sse?channel=", 400, ""),
        (
            server.clients(),
            "GET",
            "/sse?channel=un:known",
            404,
            "un:known",
        ),
        (
            server.clients(),
            "GET",
            "/sse?channel=throng:stats",
            403,
            "throng:stats",
        ),
        (server.clients(), "GET", "/ws?channel=a", 426, ""),
        (server.clients(), "GET", "/connection/websocket", 426, ""),
        (server.api_address(), "GET", "/nowhere", 404, "/metrics"),
        (server.api_address(), "GET", "/pub?channel=a", 405, "POST"),
        (server.api_address(), "DELETE", "/metrics", 405, "GET"),
        (server.api_address(), "POST", "/pub", 400, "?channel=NAME"),
        (server.api_address(), "POST", "/api/nothing", 404, ""),
        (server.api_address(), "GET", "/api/info", 405, "POST"),
    ] {
        let response = request(address, method, target, &[], "");
        let fits = response.status == status && response.body.contains(part);
        assert!(fits, "{method} {target}: {response:?}");
        if status == 405 {
            assert!(
                response
                    .header("allow")
                    .is_some_and(|allow| allow.contains(part)),
                "{response:?}"
            );
        }
    }
    server.stop();
}
