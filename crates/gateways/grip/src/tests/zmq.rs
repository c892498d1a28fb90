//! Publishers by ZeroMQ: pushed items, topics, and commands.

use throng_grip::Value;
use throng_grip::tnet;
use throng_grip::zmtp::encode_message;

use super::world::{SHARDS, World, name_on};
use super::*;
use crate::{PortKind, ZmqSocket};

/// The numbers of the ports.
const PULL: u8 = 0;
const SUB: u8 = 1;
const REP: u8 = 2;

fn world() -> World {
    let sockets = [ZmqSocket::Pull, ZmqSocket::Sub, ZmqSocket::Rep];
    World::with(options_with(|options| {
        options.ports = sockets.map(PortKind::Zmq).to_vec();
        options.tells_topics = true;
        options.uris.publish_pull = Some("tcp://here:1".to_owned());
    }))
}

fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(parts, &mut out);
    out
}

/// Connects a publisher that has finished its handshake.
fn connects(world: &mut World, shard: u8, port: u8, kind: &str) -> ConnId {
    let conn = world.connect_own(shard, port);
    world.say(conn, greeting(kind));
    let mut told = world.told_bytes(conn);
    let rest = told.split_off(66 + usize::from(told[65]));
    assert!(String::from_utf8_lossy(&told).contains("READY"));
    world.client(conn).solo.out = rest;
    conn
}

fn push(channel: &str, content: &str) -> Vec<u8> {
    message(&[format!("J{}", item(channel, content)).as_bytes()])
}

/// Takes the topics sent to a subscriber's socket: `+` for a subscription, `-` for its end.
fn topics(world: &mut World, conn: ConnId) -> Vec<String> {
    let bytes = world.told_bytes(conn);
    let mut rest = &bytes[..];
    let mut topics = Vec::new();
    while let [0, count, frame @ ..] = rest {
        let (frame, after) = frame.split_at(usize::from(*count));
        let mark = if frame[0] == 1 { '+' } else { '-' };
        topics.push(format!("{mark}{}", String::from_utf8_lossy(&frame[1..])));
        rest = after;
    }
    assert!(rest.is_empty(), "{rest:?}");
    topics
}

/// The reply to a command, as success and value or condition.
fn command(
    world: &mut World,
    conn: ConnId,
    method: &str,
    args: &[(&str, Value)],
) -> (bool, String) {
    let text = |text: &str| Value::Text(text.to_owned());
    let args = args
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    let request = Value::Object(vec![
        ("id".to_owned(), text("7")),
        ("method".to_owned(), text(method)),
        ("args".to_owned(), Value::Object(args.collect())),
    ]);
    let mut body = Vec::new();
    tnet::encode(&request, &mut body);
    world.say(conn, message(&[b"", &body]));
    reply(&world.told_bytes(conn))
}

fn reply(bytes: &[u8]) -> (bool, String) {
    let [1, 0, 0, _, body @ ..] = bytes else {
        panic!("no reply: {bytes:?}");
    };
    let text = String::from_utf8_lossy(body).into_owned();
    assert!(text.contains("2:id,1:7,"), "{text}");
    (text.contains("7:success,4:true!"), text)
}

fn list(ids: &[&str]) -> Value {
    Value::List(ids.iter().map(|id| Value::Text((*id).to_owned())).collect())
}

/// A client's WebSocket over HTTP on a shard, in a channel, and its public id.
fn socket(world: &mut World, shard: u8, channel: &str) -> (ConnId, String) {
    let control = format!(r#"c:{{"type":"subscribe","channel":"{channel}"}}"#);
    let body = format!("TEXT {:x}\r\n{control}\r\n", control.len());
    let conn = world.socket(shard, &body);
    (conn, world.id_of(conn))
}

/// More than a publisher may have under way at once arrives whole and in order, and it is read
/// again once half of it was taken.
#[test]
fn what_is_pushed_arrives_whole_and_in_order() {
    for home in 0..SHARDS {
        let mut world = world();
        let name = name_on(home);
        let stream = world.stream(1, &name);
        let publisher = connects(&mut world, 0, PULL, "PUSH");
        let numbers = 100..700;
        let all: Vec<u8> = { numbers.clone() }
            .flat_map(|number| push(&name, &number.to_string()))
            .collect();
        let client = world.client(publisher);
        client.feeds(&all);
        assert!(client.is_paused);
        world.run();
        assert!(!world.client(publisher).is_paused);
        let expected: String = numbers.map(|number| format!("3\r\n{number}\r\n")).collect();
        assert_eq!(world.told(stream), expected);
    }
}

/// Few items do not stop reading from a publisher, and unreadable ones do not end it.
#[test]
fn a_publisher_is_read_on() {
    let mut world = world();
    let stream = world.stream(0, "a");
    let publisher = connects(&mut world, 0, PULL, "PUSH");
    let client = world.client(publisher);
    let all: Vec<u8> = (0..255).flat_map(|_| push("a", "x")).collect();
    client.feeds(&all);
    assert!(!client.is_paused);
    world.run();
    world.say(publisher, message(&[b"nonsense"]));
    world.say(publisher, push("a", "y"));
    assert!(world.told(stream).ends_with("1\r\ny\r\n"));
    // No frame begins so.
    world.say(publisher, b"\xff\xff\xff");
    assert!(!world.is_connected(publisher));
    // A peer without any bytes is closed; one after its greeting may be silent.
    let silent = world.connect_own(0, PULL);
    let good = connects(&mut world, 0, PULL, "PUSH");
    world.client(silent).due = Some(Millis(0));
    assert_eq!(world.client(good).due, None);
    world.pass(0);
    assert!(!world.is_connected(silent));
    assert!(world.is_connected(good));
}

/// A publisher is told of a channel when its first subscriber comes, on any shard, and half a
/// minute after the last one has gone; a later publisher gets those that are there.
#[test]
fn publishers_hear_which_channels_have_subscribers() {
    let mut world = world();
    let early = connects(&mut world, 0, SUB, "XPUB");
    let [one, two] = [world.stream(1, "a"), world.stream(2, "a")];
    assert_eq!(topics(&mut world, early), ["+a"]);
    let late = connects(&mut world, 1, SUB, "XPUB");
    assert_eq!(topics(&mut world, late), ["+a"]);
    let other = world.stream(1, "b");
    for publisher in [early, late] {
        assert_eq!(topics(&mut world, publisher), ["+b"]);
    }
    world.pass(30_000);
    world.close(one);
    world.close(other);
    world.pass(30_000);
    assert_eq!(topics(&mut world, early), ["-b"]);
    world.close(late);
    world.close(two);
    world.pass(30_000);
    assert_eq!(topics(&mut world, early), ["-a"]);
    // Its publications then reach no client, and those to subscribers do.
    let three = world.stream(2, "a");
    let json = br#"J{"channel":"a","http-stream":{"content":"x"}}"#;
    world.say(early, message(&[b"a", json]));
    assert_eq!(world.told(three), "1\r\nx\r\n");
}

#[test]
fn commands_are_answered_as_pushpin_does() {
    let mut world = world();
    let conn = connects(&mut world, 0, REP, "REQ");
    let (is_good, uris) = command(&mut world, conn, "get-zmq-uris", &[]);
    assert!(
        is_good && uris.contains("12:publish-pull,12:tcp://here:1,"),
        "{uris}"
    );
    for (method, condition) in [
        ("publish", "bad-request"),
        ("refresh", "bad-request"),
        ("conncheck", "bad-request"),
        ("nonsense", "method-not-found"),
    ] {
        let (is_good, reply) = command(&mut world, conn, method, &[]);
        assert!(!is_good && reply.contains(condition), "{method}: {reply}");
    }
    assert!(command(&mut world, conn, "recover", &[]).0);
    // A publication.
    let stream = world.stream(1, "a");
    let text = |text: &str| Value::Text(text.to_owned());
    let content = Value::Object(vec![("content".to_owned(), text("x"))]);
    let formats = Value::Object(vec![("http-stream".to_owned(), content)]);
    let item = Value::Object(vec![
        ("channel".to_owned(), text("a")),
        ("formats".to_owned(), formats),
    ]);
    let (is_good, reply) = command(
        &mut world,
        conn,
        "publish",
        &[("items", Value::List(vec![item]))],
    );
    assert!(is_good, "{reply}");
    assert_eq!(world.told(stream), "1\r\nx\r\n");
    // A message that is no request ends a REQ socket, which would wait for ever.
    for bytes in [message(&[b"", b"5:hello,"]), message(&[b"hello"])] {
        let conn = connects(&mut world, 0, REP, "REQ");
        world.say(conn, bytes);
        assert!(!world.is_connected(conn));
    }
}

/// Which connections are there is known wherever they are, also when they are on several shards
/// and some have never been.
#[test]
fn connections_are_looked_for_on_all_shards() {
    let mut world = world();
    let asker = connects(&mut world, 0, REP, "REQ");
    let sockets: Vec<(ConnId, String)> = (0..SHARDS)
        .map(|shard| socket(&mut world, shard, "a"))
        .collect();
    let ids: Vec<&str> = sockets.iter().map(|(_, id)| id.as_str()).collect();
    let wanted = list(&[ids[0], "nobody", ids[1], ids[2]]);
    let found = |world: &mut World| {
        let (is_good, reply) = command(world, asker, "conncheck", &[("ids", wanted.clone())]);
        assert!(is_good, "{reply}");
        ids.iter().map(|id| reply.contains(*id)).collect::<Vec<_>>()
    };
    assert_eq!(found(&mut world), [true; 3]);
    world.close(sockets[1].0);
    assert_eq!(found(&mut world), [true, false, true]);
    // A publisher is no client.
    let own = world.id_of(asker);
    let (is_good, reply) = command(&mut world, asker, "conncheck", &[("ids", list(&[&own]))]);
    assert!(is_good && !reply.contains(&own), "{reply}");
    let (is_good, _) = command(&mut world, asker, "conncheck", &[("ids", list(&[]))]);
    assert!(is_good);
    // A shard that cannot be asked fails the question.
    world.shards[0].1.is_full = true;
    let (is_good, reply) = command(&mut world, asker, "conncheck", &[("ids", list(&ids[2..]))]);
    assert!(
        !is_good && reply.contains("proxy-request-failed"),
        "{reply}"
    );
}

/// A backend is asked for one WebSocket, or for all of a channel, on every shard; streams are not.
#[test]
fn a_publisher_has_backends_asked() {
    let mut world = world();
    let asker = connects(&mut world, 0, REP, "REQ");
    let sockets: Vec<(ConnId, String)> = (0..SHARDS)
        .map(|shard| socket(&mut world, shard, "a"))
        .collect();
    socket(&mut world, 1, "b");
    let stream = world.stream(1, "a");
    world.asked();
    let text = |text: &str| Value::Text(text.to_owned());
    for (conn, id) in &sockets {
        let (is_good, reply) = command(&mut world, asker, "refresh", &[("cid", text(id))]);
        assert!(is_good, "{reply}");
        let asked = world.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!((asked[0].0, &*asked[0].2.body), (*conn, &b""[..]));
        world.answer(*conn, asked[0].1, 200, &[EVENTS], "");
    }
    let of_stream = world.id_of(stream);
    for id in [&*of_stream, "nobody"] {
        let (is_good, reply) = command(&mut world, asker, "refresh", &[("cid", text(id))]);
        assert!(!is_good && reply.contains("item-not-found"), "{reply}");
    }
    assert!(command(&mut world, asker, "refresh", &[("channel", text("a"))]).0);
    let mut asked: Vec<ConnId> = world.asked().iter().map(|(conn, ..)| *conn).collect();
    asked.sort_unstable();
    let conns: Vec<ConnId> = sockets.iter().map(|(conn, _)| *conn).collect();
    assert_eq!(asked, conns);
    assert!(command(&mut world, asker, "refresh", &[("channel", text("nobody"))]).0);
    assert!(world.asked().is_empty());
}
