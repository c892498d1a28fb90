//! A server without descriptors: it waits, logs that once, and goes on when some are free. That it
//! does not spin meanwhile is in the tests of `runtime/engine`.

use throng_testkit::{Setup, Wire, until};

/// Clients have taken all that there are, and the operator still gets in, again and again.
#[test]
fn descriptors_are_kept_back_for_the_api_port() {
    let server = Setup::new("[limits]\nhead_timeout = \"1h\"\n")
        .shards(1)
        .nofile(128)
        .start();
    let crowd: Vec<Wire> = (0..160)
        .map(|_| server.get("/stream?channel=news"))
        .collect();
    until("the pause", || {
        server.logged("out of file descriptors") == 1
    });
    for round in 0..40 {
        assert_eq!(server.ask("GET", "/healthz", "").status, 200, "{round}");
        server.publish("news", "hello");
    }
    server.counts("throng_accept_paused", 1);
    let goes_on = "accepting connections again";
    assert_eq!(server.logged(goes_on), 0);
    assert!(server.metric("throng_connections_refused_total{reason=\"descriptors\"}") >= 1);
    assert_eq!(server.logged("out of file descriptors"), 1);
    drop(crowd);
    until("the pause's end", || {
        server.metric("throng_accept_paused") == 0
    });
    until("the line about it", || server.logged(goes_on) >= 1);
    server.stop();
}
