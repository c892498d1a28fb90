//! Limits: what one client may use, and that passing a limit costs no other client.

use std::time::Instant;

use serde_json::json;
use throng_testkit::{Setup, Wire, request, until};

use crate::support::{sdks, url, ws};

#[test]
fn channels_of_one_connection_are_limited() {
    let server = Setup::new("[limits]\nchannels_per_connection = 3\n")
        .shards(2)
        .start();
    for (name, start) in sdks() {
        let mut client = start();
        client.connect(&url(server.clients()));
        for channel in ["a", "b", "c"] {
            client.subscribe(channel);
        }
        client.cannot_subscribe("d", 106);
        // One that is given up makes room.
        client.unsubscribe("a");
        client.subscribe("e");
        assert_eq!(client.left("disconnected"), 0, "{name}");
    }
    let many = request(
        server.clients(),
        "GET",
        "/sse?channel=a&channel=b&channel=c&channel=d",
        &[],
        "",
    );
    assert_eq!(many.status, 400, "{many:?}");
    server.stop();
}

#[test]
fn messages_of_clients_are_limited_in_size_and_number() {
    let config = "[limits]\nmessage_bytes_max = 1024\nmessages_per_second_max = 20\n";
    let server = Setup::new(config).shards(1).start();
    let witness = ws(&server, "/ws?channel=news");
    for target in ["/ws?channel=news", "/connection/websocket"] {
        let mut client = ws(&server, target);
        client.say(&format!("send {}", "x".repeat(1025)));
        client.event("close", &json!({ "code": 1009 }));
    }
    let mut client = ws(&server, "/ws?channel=news");
    for _ in 0..60 {
        client.say("send x");
    }
    client.event("close", &json!({ "code": 3013 }));
    server.publish("news", "still here");
    witness.event("message", &json!({ "data": "still here" }));
    server.stop();
}

/// Missed publications are charged to the client's address by their content, even on transports
/// that send nothing after them; other addresses are not charged.
#[test]
fn long_answers_are_charged_to_the_address() {
    let config = "[listen]\ntrusted_proxies = [\"127.0.0.1\"]\n\
                  [limits]\naddress_work_max = \"1ms\"\n\
                  [[namespace]]\nname = \"kept\"\nhistory_size = 100\nhistory_ttl = \"5m\"\n\
                  recovery = true\n";
    let server = Setup::new(config).shards(1).start();
    let open = |target: &str, address: &str| {
        let mut wire = Wire::connect(server.clients());
        let fields = format!("X-Forwarded-For: {address}\r\n");
        wire.ask(&format!("/sse?channel={target}"), &fields);
        (wire.head().status, wire)
    };
    // Reads little of an answer: while it reads, its allowance refills.
    let served = |channel: &str, count: usize, data: &str, address: &str| {
        let (_, mut first) = open(channel, "192.0.2.9");
        let told = first.through("\n\n");
        let id = told.split("id: ").nth(1).and_then(|id| id.lines().next());
        let target = format!("{channel}&last_event_id={}", id.expect("a place"));
        for _ in 0..count {
            server.publish(channel, data);
        }
        let begun = Instant::now();
        let answers = std::iter::repeat_with(|| open(&target, address)).take(20);
        let served: Vec<_> = answers
            .take_while(|(status, _)| *status == 200)
            .map(|(_, mut wire)| {
                wire.through("x\n\n");
                wire
            })
            .collect();
        (served.len(), begun.elapsed().as_secs())
    };
    // A megabyte counts as a second. Two of them may come at once, and one more each second.
    let (long, seconds) = served("kept:long", 20, &"x".repeat(50_000), "192.0.2.1");
    assert!(
        (1..=4 + seconds).contains(&(long as u64)),
        "{long} in {seconds} s"
    );
    assert_eq!(served("kept:short", 1, "x", "192.0.2.2").0, 20);
    server.stop();
}

/// The API port is not counted, and a place that is left is free again.
#[test]
fn connections_of_an_address_and_of_the_server_are_limited() {
    for (limit, shards, refusal, reason) in [
        ("[limits]\nconnections_per_ip = 2\n", 2, 429, "per_ip"),
        ("[engine]\nconnections_max = 2\n", 1, 503, "connections_max"),
    ] {
        let server = Setup::new(limit).shards(shards).start();
        let stream = || {
            let mut wire = server.get("/stream?channel=news");
            let status = wire.head().status;
            (wire, status)
        };
        let [(leaves, first), (_stays, second)] = [stream(), stream()];
        assert_eq!((first, second), (200, 200), "{limit}");
        let (mut third, status) = stream();
        assert_eq!(status, refusal, "{limit}");
        third.until_closed();
        assert_eq!(server.ask("GET", "/healthz", "").status, 200);
        let series = format!("throng_connections_refused_total{{reason=\"{reason}\"}}");
        server.counts(&series, 1);
        drop(leaves);
        until("a free place", || stream().1 == 200);
        server.stop();
    }
}

/// One channel may use nearly the whole bound, however many shards there are.
#[test]
fn all_shards_share_one_bound_for_history() {
    let config = "[limits]\nhistory_bytes_max = \"8MiB\"\nhistory_reply_bytes_max = \"8MiB\"\n\
                  [channel]\nhistory_size = 1000\nhistory_ttl = \"5m\"\n";
    let server = Setup::new(config).shards(8).start();
    let data = json!("x".repeat(40_000)).to_string();
    let mut kept = 0;
    for n in 1..=250 {
        server.publish("news", &data);
        if n % 50 == 0 {
            let told = server.call("history", &json!({ "channel": "news", "limit": -1 }));
            kept = told["result"]["publications"]
                .as_array()
                .map_or(0, Vec::len);
            assert!(n > 150 || kept == n, "{kept} of {n}");
        }
    }
    // And no more than that: 250 have ten million bytes.
    assert!((180..210).contains(&kept), "{kept}");
    server.stop();
}
