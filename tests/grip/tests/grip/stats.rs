//! Statistics by ZeroMQ, read by pyzmq and tnetstring3 as their own users would.

use serde_json::{Value, json};
use throng_grip_tests::Peer;
use throng_testkit::{Process, Server, Setup, until};

use crate::support::{Backend, get, item, open, publish, python, reply, server_with, subscribed};

const PORT: &str = "zmq_stats = \"tcp://127.0.0.1:0\"\n";

/// Holds streams at `/stream`, long polls at `/poll`; everything else is answered.
fn backend() -> Backend {
    Backend::start(|asked, stream| {
        let hold = match asked.line.split(' ').nth(1) {
            Some("/stream") => "stream",
            Some("/poll") => "response",
            _ => return reply(stream, &[], "hello"),
        };
        let headers = [
            ("Grip-Hold", hold),
            ("Grip-Channel", "a"),
            ("Grip-Timeout", "60"),
        ];
        reply(stream, &headers, "")
    })
}

fn read(server: &Server, kinds: &[&str]) -> Process {
    let uri = format!("tcp://{}", server.grip("zmq_stats"));
    let mut arguments = vec![uri.as_str()];
    arguments.extend(kinds);
    let reader = python("stats.py", &arguments);
    // A publisher is not told when a subscription has arrived, so something happens until it is
    // seen.
    until("a first packet", || {
        get(server, "/").response("GET");
        reader
            .out("its packets", |lines| Some(lines.len() > 1))
            .then_some(())
    });
    reader
}

/// The packets of a kind, in their order.
fn packets(reader: &Process, kind: &str) -> Vec<Value> {
    reader.out("its packets", |lines| {
        let packets = lines.iter().filter_map(|line| line.split_once(' '));
        let packets = packets.filter(|(known, _)| *known == kind);
        Some(
            packets
                .filter_map(|(_, json)| serde_json::from_str(json).ok())
                .collect(),
        )
    })
}

/// Waits for a packet of a kind with these fields, and returns it.
#[track_caller]
fn wait(reader: &Process, kind: &str, fields: &[(&str, Value)]) -> Value {
    until(&format!("{kind} with {fields:?}"), || {
        let mut all = packets(reader, kind).into_iter();
        all.find(|packet| fields.iter().all(|(name, value)| packet[name] == *value))
    })
}

/// What each kind of packet has is told by the dialogues `stats-*`; sums over shards and routes by
/// the collector's own tests.
#[test]
fn packets_follow_the_options() {
    let backend = backend();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let routes = folder.path().join("routes");
    let route = format!("*,id=site {}\n", backend.address);
    std::fs::write(&routes, route).expect("a file in it");
    let config = format!(
        "[grip]\nhttp_publish = \"127.0.0.1:0\"\n{PORT}routes_file = \"{}\"\n\
         stats_report_interval = \"1s\"\nstats_connection_ttl = \"4s\"\n\
         stats_subscription_ttl = \"4s\"\nsubscription_linger = \"1s\"\n",
        routes.display()
    );
    let server = Setup::new(&config).shards(2).start();
    let reader = read(&server, &[]);
    // Two streams, which may be on two shards, and one number for both.
    let streams: Vec<_> = (0..2).map(|_| get(&server, "/stream")).collect();
    let two = [("mode", "stream".into()), ("subscribers", 2.into())];
    let packet = wait(&reader, "sub", &two);
    assert_eq!(packet["ttl"], 4);
    let from = packet["from"].clone();
    let name = from.as_str().expect("a name");
    assert!(name.starts_with("throng_"), "{name}");
    let here = [("route", "site".into()), ("ttl", 4.into())];
    let connection = wait(&reader, "conn", &here);
    assert_eq!(connection["id"].as_str().map(str::len), Some(36));
    publish(&server, &item("a", "x", "\"id\": \"7\","));
    let packet = wait(&reader, "message", &[("item-id", "7".into())]);
    assert_eq!(packet["count"], 2);
    // A long poll lingers when it is answered.
    let mut poll = get(&server, "/poll");
    let mode = ("mode", Value::from("response"));
    wait(&reader, "sub", &[mode.clone(), ("subscribers", 1.into())]);
    publish(&server, &item("a", "y", ""));
    assert_eq!(poll.response("GET").body, "y");
    wait(&reader, "sub", &[mode, ("unavailable", true.into())]);
    // Subscriptions that exist are reported again.
    until("the streams are told of again", || {
        let all = packets(&reader, "sub");
        let again = all.iter().filter(|packet| packet["subscribers"] == 2);
        (again.count() > 1).then_some(())
    });
    drop(streams);
    let last = [("route", "site".into()), ("connections", 0.into())];
    let report = wait(&reader, "report", &last);
    assert_eq!(report["from"], from, "all packets name one server");
    server.stop();
}

/// JSON, WebSockets, and topics: a reader gets the kinds that it asked for and no others.
#[test]
fn a_reader_gets_the_kinds_that_it_wants() {
    let backend = Backend::start(|asked, stream| {
        if !asked.line.starts_with("POST /ws") {
            return reply(stream, &[], "hello");
        }
        let subscribe = r#"c:{"type": "subscribe", "channel": "w"}"#;
        let body = format!("OPEN\r\nTEXT {:x}\r\n{subscribe}\r\n", subscribe.len());
        let headers = [
            ("Content-Type", "application/websocket-events"),
            ("Sec-WebSocket-Extensions", "grip"),
        ];
        reply(stream, &headers, &body)
    });
    let grip = format!("{PORT}stats_json = true\nstats_connections = false\n");
    let server = server_with(&[backend.address], &grip, "over_http = true");
    let reader = read(&server, &["counts", "conn", "sub"]);
    let mut socket = open(&server, "/ws");
    socket.head();
    subscribed(&server, 1);
    let packet = wait(&reader, "sub", &[("channel", "w".into())]);
    assert_eq!((&packet["mode"], packet.get("route")), (&json!("ws"), None));
    drop(socket);
    wait(
        &reader,
        "sub",
        &[("channel", "w".into()), ("unavailable", true.into())],
    );
    for kind in ["conn", "activity", "message", "report"] {
        assert_eq!(packets(&reader, kind), [] as [Value; 0], "{kind}");
    }
    server.stop();
}

/// Packets that a slow reader does not take are dropped for it alone, and counted.
#[test]
fn a_reader_that_reads_nothing_loses_packets() {
    let backend = backend();
    let server = server_with(&[backend.address], PORT, "");
    let reader = read(&server, &["counts", "sub"]);
    let mut slow = Peer::connect(server.grip("zmq_stats"), "SUB");
    slow.send(&[vec![1]]);
    let mut stream = get(&server, "/stream");
    stream.head();
    wait(&reader, "sub", &[("subscribers", 1.into())]);
    // Its packets repeat the id of the item.
    let id = "x".repeat(100_000);
    let mut published = 0;
    until("packets are dropped", || {
        published += 1;
        let more = format!("\"id\": \"{published}{id}\",");
        publish(&server, &item("a", "y", &more));
        let dropped = server.metric("throng_grip_faults_total{reason=\"stats_full\"}");
        (dropped > 0).then_some(())
    });
    let before = packets(&reader, "counts").len();
    get(&server, "/").response("GET");
    until("the other one reads on", || {
        (packets(&reader, "counts").len() > before).then_some(())
    });
    // What the slow one gets is whole.
    assert!(slow.message().is_some_and(|packet| packet.contains(&b' ')));
    server.stop();
}
