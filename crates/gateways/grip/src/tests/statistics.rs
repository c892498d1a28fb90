//! Statistics by ZeroMQ: a reader on any shard gets the clients of all of them.

use throng_grip::stats::StatsFormat;
use throng_grip::zmtp::encode_message;
use throng_session::Gateway;

use super::world::{SHARDS, World};
use super::*;
use crate::{PortKind, StatsOptions};

fn world() -> World {
    World::with(options_with(|options| {
        options.ports = vec![PortKind::Stats];
        options.stats = Some(StatsOptions {
            format: StatsFormat::Json,
            report_interval_ms: 10_000,
            sends_connections: true,
            connection_ttl_ms: 120_000,
            subscription_ttl_ms: 60_000,
            linger_ms: 60_000,
        });
        options.book = book("*,id=own localhost:7999\n");
    }))
}

/// Connects a reader on a shard, with prefixes of packets.
fn reads(world: &mut World, shard: u8, topics: &[&str]) -> ConnId {
    let conn = world.connect_own(shard, 0);
    let mut bytes = greeting("SUB");
    for topic in topics {
        encode_message(&[format!("\u{1}{topic}")], &mut bytes);
    }
    world.say(conn, bytes);
    assert!(world.told(conn).contains("READY"));
    conn
}

fn unread(world: &mut World, conn: ConnId, topic: &str) {
    let mut bytes = Vec::new();
    encode_message(&[format!("\0{topic}")], &mut bytes);
    world.say(conn, bytes);
}

/// Lets seconds pass, one after the other.
fn wait(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        world.pass(1000);
    }
}

#[test]
fn a_reader_on_any_shard_hears_of_all_clients() {
    for shard in 0..SHARDS {
        let mut world = world();
        let reader = reads(&mut world, shard, &["conn", "sub"]);
        let other = reads(&mut world, (shard + 1) % SHARDS, &["message"]);
        let streams: Vec<ConnId> = (0..SHARDS).map(|at| world.stream(at, "news")).collect();
        wait(&mut world, 3);
        let told = world.told(reader);
        for stream in &streams {
            assert!(told.contains(&world.id_of(*stream)), "{told}");
        }
        assert!(told.contains(r#""channel":"news""#), "{told}");
        assert!(told.contains(r#""subscribers":3"#), "{told}");
        assert!(!told.contains("report J"), "it did not ask for those");
        assert_eq!(world.told(other), "");
        let publisher = world.connect(0, Port::Api);
        world.say(publisher, post("/publish/", "*/*", &[item("news", "x")]));
        wait(&mut world, 3);
        let told = world.told(other);
        assert!(told.contains("message J"), "{told}");
        assert!(told.contains(r#""transport":"http-stream""#), "{told}");
        assert_eq!(world.told(reader), "", "nobody came or went");
        // Closed ones are reported, too.
        world.close(streams[2]);
        wait(&mut world, 3);
        let told = world.told(reader);
        let id = world.id_of(streams[2]);
        assert!(told.contains(&id) && told.contains("unavailable"), "{told}");
    }
}

/// Messages are reported by form: for streams, and for responses that waited for one publication.
#[test]
fn a_message_is_told_for_each_form_that_somebody_got() {
    let mut world = world();
    let reader = reads(&mut world, 0, &["message"]);
    world.stream(1, "news");
    let waits = world.asks(2, "/a");
    let fields = [("Grip-Hold", "response"), ("Grip-Channel", "news")];
    world.answer(waits, 1, 200, &fields, "");
    wait(&mut world, 1);
    let publisher = world.connect(0, Port::Api);
    let forms = [
        r#""http-stream":{"content":"x"}"#,
        r#""http-response":{"body":"y"}"#,
        r#""ws-message":{"content":"z"}"#,
    ]
    .join(",");
    let item = format!(r#"{{"channel":"news",{forms}}}"#);
    world.say(publisher, post("/publish/", "*/*", &[item]));
    wait(&mut world, 3);
    let told = world.told(reader);
    for (form, is_told) in [
        ("http-stream", true),
        ("http-response", true),
        ("ws-message", false),
    ] {
        let form = format!(r#""transport":"{form}""#);
        assert_eq!(told.contains(&form), is_told, "{told}");
    }
}

/// Without readers, or after all have gone, no packets are made; the next reader gets the state of
/// then.
#[test]
fn packets_are_for_those_that_read() {
    for shard in 0..SHARDS {
        let mut world = world();
        let first = reads(&mut world, shard, &[""]);
        let second = reads(&mut world, shard, &[""]);
        world.stream(1, "a");
        wait(&mut world, 2);
        assert_ne!(world.told(first), "");
        assert_ne!(world.told(second), "");
        world.close(first);
        world.stream(1, "b");
        wait(&mut world, 2);
        assert!(
            world.told(second).contains(r#""b""#),
            "the other one still reads"
        );
        unread(&mut world, second, "");
        world.stream(1, "c");
        wait(&mut world, 2);
        assert_eq!(world.told(second), "");
        world.close(second);
        assert_eq!(world.shards[0].0.statistics.read_on, 0);
    }
}

/// A report has the number of clients, and their minutes.
#[test]
fn a_report_tells_of_a_route() {
    let mut world = world();
    let reader = reads(&mut world, 1, &["report"]);
    world.stream(2, "a");
    world.stream(0, "a");
    wait(&mut world, 10);
    let told = world.told(reader);
    assert!(told.contains(r#""route":"own""#), "{told}");
    assert!(told.contains(r#""connections":2"#), "{told}");
    // It is due again, and the shard with the sums wakes up for it.
    let deadline = world.shards[0].0.deadline().expect("the next one");
    let now = world.shards[0].1.now.mono;
    assert!(deadline.since(now) <= 10_000);
    wait(&mut world, 10);
    assert!(world.told(reader).contains("report J"));
}

/// A reader with more topics than any needs, or one that breaks the protocol, is closed.
#[test]
fn readers_are_bounded() {
    let mut world = world();
    let reader = reads(&mut world, 0, &[]);
    let mut bytes = Vec::new();
    for topic in 0..256 {
        encode_message(&[format!("\u{1}{topic}")], &mut bytes);
    }
    world.say(reader, &bytes);
    assert!(world.is_connected(reader));
    world.say(reader, b"\0\x02\x01x");
    assert!(!world.is_connected(reader));
    let reader = reads(&mut world, 0, &[]);
    world.say(reader, b"\xff\xff");
    assert!(!world.is_connected(reader));
    // A reader that repeats its handshake is entered once.
    let reader = reads(&mut world, 0, &["conn"]);
    world.say(reader, b"\0\x01\0");
    assert_eq!(world.shards[0].0.statistics.readers, [reader]);
}
