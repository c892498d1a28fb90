//! The graceful end under traffic; how clients are told of it is in `dialogues/drain.txt`.

use std::net::SocketAddr;

use throng_testkit::{Setup, Signal, Wire, post, until};

/// Results of the calls of one publisher.
#[derive(Default)]
struct Calls {
    answered: u64,
    /// The connection ended without a byte of an answer.
    refused: u64,
}

/// Publishes on connections that stay, until the listener is gone.
fn publish_on(address: SocketAddr, is_slow: bool) -> Calls {
    let call = post("/pub?channel=news", "1");
    let mut calls = Calls::default();
    while let Some(mut wire) = Wire::try_connect(address) {
        loop {
            wire.send(&call);
            let Some(head) = wire.try_head() else {
                calls.refused += 1;
                break;
            };
            assert_eq!(head.status, 200);
            let length: usize = head.header("content-length").unwrap().parse().unwrap();
            wire.exactly(length);
            calls.answered += 1;
            if head.header("connection") == Some("close") {
                break;
            }
            if is_slow {
                std::thread::yield_now();
            }
        }
    }
    calls
}

/// Publishers on connections that stay are served until the last client has gone, and do not keep
/// the process alive.
#[test]
fn publishers_are_answered_to_the_end_and_do_not_delay_it() {
    let config = "[drain]\ntimeout = \"1d\"\njitter = \"0s\"\n";
    let mut server = Setup::new(config).shards(2).start();
    let api = server.api_address();
    let mut last = server.get("/sse?channel=news");
    last.through("subscribed");
    let mut idle = Wire::get(api, "/healthz");
    idle.response("GET");
    let mut half = Wire::connect(api);
    half.send("GET /healthz HTTP/1.1\r\nHost");
    let publishers: Vec<_> = (0..4)
        .map(|number| std::thread::spawn(move || publish_on(api, number % 2 == 0)))
        .collect();
    until("publications", || {
        let came = "throng_publications_total{source=\"api\"}";
        server.metric(came) > 100
    });
    server.signal(Signal::TERM);
    assert!(last.rest().contains("event: disconnect"));
    // The last client may have been told by its shard before the other one begins to drain. A shard
    // that drains has closed its port for clients.
    until("all shards to drain", || {
        Wire::try_connect(server.clients()).is_none()
    });
    drop(last);
    half.send(": localhost\r\n\r\n");
    let told = half.response("GET");
    assert_eq!((told.status, &*told.body), (503, "draining\n"));
    idle.until_closed();
    assert_eq!(server.wait().code(), Some(0));
    let calls: Vec<Calls> = publishers
        .into_iter()
        .map(|one| one.join().unwrap())
        .collect();
    for calls in calls {
        assert!(calls.answered > 0);
        // What was on its way when its connection, or a shard's listener, was closed at the end.
        assert!(calls.refused <= 3, "{}", calls.refused);
    }
}
