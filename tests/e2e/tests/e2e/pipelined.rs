//! Publishers that do not wait for their answers: order, and those that do not read.

use std::collections::HashMap;
use std::io::Write as _;

use serde_json::Value;
use throng_testkit::{Server, Setup, Wire, post, until};

const KEPT: &str = "[[namespace]]\nname = \"kept\"\nhistory_size = 100000\nhistory_ttl = \"5m\"\n";
/// Channels, so many that each shard is home to some.
const CHANNELS: usize = 16;

fn server() -> Server {
    Setup::new(KEPT).shards(2).start()
}

/// Publications number `from` up to `to`, to one channel after the other.
fn publications(name: &str, from: usize, to: usize) -> String {
    let one = |n: usize| {
        let target = format!("/pub?channel=kept:{name}{}", n % CHANNELS);
        post(&target, &n.to_string())
    };
    (from..to).map(one).collect()
}

/// Reads one answer. In each channel offsets rise by one and the epoch stays, so an answer out of
/// its place is seen.
#[track_caller]
fn expect(wire: &mut Wire, n: usize, epochs: &mut HashMap<usize, String>) {
    let response = wire.response("POST");
    assert_eq!(response.status, 200, "{n}: {response:?}");
    let position: Value = serde_json::from_str(&response.body).expect("JSON");
    let offset = n / CHANNELS + 1;
    assert_eq!(position["offset"], offset, "{n}: {position}");
    let epoch = position["epoch"].as_str().expect("an epoch").to_owned();
    let known = epochs.entry(n % CHANNELS).or_insert_with(|| epoch.clone());
    assert_eq!(*known, epoch, "{n}");
}

#[test]
fn who_reads_nothing_for_a_while_gets_every_answer_in_order() {
    // More answers than sockets and queues hold.
    const COUNT: usize = 20_000;
    let server = server();
    let mut wire = Wire::connect(server.api_address());
    let mut writer = wire.writer();
    let all = publications("a", 0, COUNT);
    let thread = std::thread::spawn(move || writer.write_all(all.as_bytes()));
    until("publications without an answer read", || {
        let accepted = server.metric("throng_publications_total{source=\"api\"}");
        accepted >= 2000
    });
    let mut epochs = HashMap::new();
    for n in 0..COUNT {
        expect(&mut wire, n, &mut epochs);
    }
    thread.join().expect("no panic").expect("all was taken");
    server.stop();
}
