//! HTTP said by hand: what may follow on one connection, and how long it may take.

use throng_testkit::{Setup, Wire, post, request, until};

#[test]
fn one_connection_serves_many_requests() {
    let server = Setup::default().shards(2).start();
    let mut wire = Wire::connect(server.api_address());
    // All at once, answered in their order; some need other shards, some do not.
    let publish = &*post("/pub?channel=x", "y");
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let lost = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let info = &*post("/api/info", "{}");
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
        let mut idle = Wire::get(address, "/healthz");
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
    let (clients, api) = (server.clients(), server.api_address());
    let (get, post) = ("GET", "POST");
    let (anywhere, here) = ("GET / lists the endpoints", "nothing at this path");
    for (address, method, target, status, part) in [
        (clients, get, "/nowhere", 404, anywhere),
        (clients, get, "/", 200, "/sse?channel=NAME"),
        (clients, post, "/sse?channel=a", 405, "GET"),
        (clients, post, "/pub?channel=a", 404, here),
        (clients, get, "/sse", 400, "?channel=NAME"),
        (clients, get, "/sse?channel=", 400, ""),
        (clients, get, "/sse?channel=un:known", 404, "un:known"),
        (clients, get, "/sse?channel=throng:stats", 403, "stats"),
        (clients, get, "/ws?channel=a", 426, ""),
        (clients, get, "/connection/websocket", 426, ""),
        (api, get, "/nowhere", 404, "/metrics"),
        (api, get, "/pub?channel=a", 405, "POST"),
        (api, "DELETE", "/metrics", 405, "GET"),
        (api, post, "/pub", 400, "?channel=NAME"),
        (api, post, "/api/nothing", 404, ""),
        (api, get, "/api/info", 405, "POST"),
    ] {
        let response = request(address, method, target, &[], "");
        let fits = response.status == status && response.body.contains(part);
        assert!(fits, "{method} {target}: {response:?}");
        if status == 405 {
            let allow = response.header("allow").unwrap_or_default();
            assert!(allow.contains(part), "{response:?}");
        }
    }
    server.stop();
}
