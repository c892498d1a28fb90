//! A server without descriptors: it waits, logs that once, never spins, and goes on when some are
//! free.

use serde_json::Value;
use throng_testkit::{Server, Setup, Wire, until};

/// Few enough that a test can take them all.
const NOFILE: u32 = 80;

/// A connection to the API that was there before they ran out.
struct Api(Wire);

impl Api {
    fn stats(&mut self) -> Value {
        self.0
            .send("GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n");
        serde_json::from_str(&self.0.response("GET").body).unwrap()
    }

    fn gauge(&mut self, name: &str) -> u64 {
        self.stats()["gauges"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}"))
    }

    fn turns(&mut self) -> u64 {
        self.stats()["counters"]["turns_total"].as_u64().unwrap()
    }
}

fn logged(server: &Server, part: &str) -> usize {
    let log = server.log();
    let says = |line: &&Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.contains(part))
    };
    log.iter().filter(says).count()
}

/// Clients have taken all that there are, and the operator still gets in, again and again.
#[test]
fn descriptors_are_kept_back_for_the_api_port() {
    let server = Setup::new("[limits]\nhead_timeout = \"1h\"\n")
        .shards(1)
        .nofile(128)
        .start();
    let stream = "GET /stream?channel=news HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let crowd: Vec<Wire> = (0..160)
        .map(|_| {
            let mut wire = Wire::connect(server.clients());
            wire.send(stream);
            wire
        })
        .collect();
    until("the pause", || {
        (logged(&server, "out of file descriptors") == 1).then_some(())
    });
    for round in 0..40 {
        assert_eq!(server.ask("GET", "/healthz", "").status, 200, "{round}");
        server.publish("news", "hello");
    }
    assert!(server.metric("throng_accept_paused") == 1);
    assert_eq!(logged(&server, "out of file descriptors"), 1);
    drop(crowd);
    until("the pause's end", || {
        (server.metric("throng_accept_paused") == 0).then_some(())
    });
    server.stop();
}

#[test]
fn running_out_of_descriptors_is_waited_for() {
    let server = Setup::new("[limits]\nhead_timeout = \"1h\"\n")
        .shards(1)
        .nofile(NOFILE)
        .start();
    let mut api = Api(Wire::connect(server.api_address()));
    assert_eq!(api.gauge("descriptors_max"), u64::from(NOFILE));
    let mut early = Wire::connect(server.clients());
    early.send("GET /sse?channel=news HTTP/1.1\r\nHost: localhost\r\n\r\n");
    early.through("subscribed");
    // The kernel takes connections that the server cannot.
    let mut crowd: Vec<Wire> = (0..NOFILE)
        .map(|_| Wire::connect(server.clients()))
        .collect();
    until("the pause", || {
        (api.gauge("accept_paused") == 1).then_some(())
    });
    // It is one pause, however long it lasts and however many more come.
    crowd.extend((0..20).map(|_| Wire::connect(server.clients())));

    // Connected clients are served.
    api.0.send(
        "POST /pub?channel=news HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!(api.0.response("POST").status, 200);
    early.through("data: hello");

    // Over two seconds of its own clock it turns for our questions and its own timers, and no more.
    let (from, turns) = (api.gauge("uptime_seconds"), api.turns());
    let mut asked = 0;
    until("two seconds of uptime", || {
        asked += 1;
        (api.gauge("uptime_seconds") >= from + 2).then_some(())
    });
    let spent = api.turns() - turns;
    assert!(
        spent < 4 * asked + 200,
        "{spent} turns for {asked} questions"
    );

    assert_eq!(
        logged(&server, "out of file descriptors"),
        1,
        "{:?}",
        server.log()
    );
    assert_eq!(logged(&server, "accepting connections again"), 0);

    // The last one that came waits at the end of the line, and is served once enough have left.
    let mut last = crowd.pop().unwrap();
    last.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    drop(crowd);
    assert_eq!(last.response("GET").status, 200);
    until("the pause's end", || {
        (api.gauge("accept_paused") == 0).then_some(())
    });
    until("the line about it", || {
        (logged(&server, "accepting connections again") >= 1).then_some(())
    });
    assert!(server.metric("throng_connections_refused_total{reason=\"descriptors\"}") >= 1);
    early.send("x");
    server.publish("news", "again");
    early.through("data: again");
    server.stop();
}
