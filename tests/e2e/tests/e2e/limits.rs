//! Limits: what one client may use, and that passing a limit costs no other client.

use std::time::Instant;

use serde_json::json;
use throng_testkit::{Setup, Wire};

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
