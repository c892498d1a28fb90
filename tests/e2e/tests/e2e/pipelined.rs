//! Publishers that do not wait for their answers: order, those that do not read, those that leave,
//! and the end of the server.

use std::collections::HashMap;
use std::io::Write as _;

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, Signal, Wire, until};

const KEPT: &str = "[[namespace]]\nname = \"kept\"\nhistory_size = 100000\nhistory_ttl = \"5m\"\n";
/// Channels, so many that each shard is home to some.
const CHANNELS: usize = 16;

fn server() -> Server {
    Setup::new(KEPT).shards(2).start()
}

/// Publications number `from` up to `to`, to one channel after the other.
fn publications(name: &str, from: usize, to: usize) -> String {
    let one = |n: usize| {
        let (channel, data) = (n % CHANNELS, n.to_string());
        format!(
            "POST /pub?channel=kept:{name}{channel} HTTP/1.1\r\nHost: localhost\r\nContent-Length: \
             {}\r\n\r\n{data}",
            data.len()
        )
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
        (accepted >= 2000).then_some(())
    });
    let mut epochs = HashMap::new();
    for n in 0..COUNT {
        expect(&mut wire, n, &mut epochs);
    }
    thread.join().expect("no panic").expect("all was taken");
    server.stop();
}

#[test]
fn who_leaves_without_the_answers_disturbs_nobody() {
    let server = server();
    for round in 0..20 {
        let mut leaves = Wire::connect(server.api_address());
        leaves.send(&publications(&format!("left{round}."), 0, 300));
        drop(leaves);
        // Perhaps in the same slot of the table.
        let mut stays = Wire::connect(server.api_address());
        stays.send(&publications(&format!("stays{round}."), 0, 100));
        let mut epochs = HashMap::new();
        for n in 0..100 {
            expect(&mut stays, n, &mut epochs);
        }
    }
    // What was carried out of the others is without a gap.
    for round in 0..20 {
        let channel = format!("kept:left{round}.0");
        let history = server.call("history", &json!({ "channel": channel, "limit": -1 }));
        let publications = history["result"]["publications"].as_array();
        let kept = publications.map_or(&[][..], Vec::as_slice);
        let numbers = kept
            .iter()
            .map(|one| one["data"].as_u64().expect("a number"));
        let expected = (0..kept.len() as u64).map(|n| n * CHANNELS as u64);
        assert!(numbers.eq(expected), "{history}");
    }
    server.stop();
}

#[test]
fn a_server_that_stops_answers_what_it_has_carried_out() {
    let mut server = server();
    let mut wire = Wire::connect(server.api_address());
    let mut writer = wire.writer();
    let thread = std::thread::spawn(move || {
        // It ends when the server takes nothing more.
        let mut from = 0;
        while writer
            .write_all(publications("a", from, from + 200).as_bytes())
            .is_ok()
        {
            from += 200;
        }
    });
    let mut epochs = HashMap::new();
    let mut count = 0;
    while count < 1000 {
        expect(&mut wire, count, &mut epochs);
        count += 1;
    }
    server.signal(Signal::TERM);
    // Whole answers in order until the end, which a reset of unread requests may bring early.
    let told = wire.rest();
    for answer in told
        .split_inclusive("}\n")
        .filter(|answer| answer.ends_with("}\n"))
    {
        let position = answer.split("\r\n\r\n").nth(1).expect("a body");
        let position: Value = serde_json::from_str(position).expect("JSON");
        assert_eq!(position["offset"], count / CHANNELS + 1, "{answer}");
        count += 1;
    }
    assert_eq!(server.wait().code(), Some(0));
    thread.join().expect("no panic");
}
