//! What no dialogue shows: flow control, crowds, answers at the end, and counts.

use throng_grip::zmtp::encode_message;
use throng_hub::ReplyTo;
use throng_metrics::{Counter, Gauge};
use throng_session::Gateway;

use super::world::{SHARDS, World, name_on};
use super::*;
use crate::{PortKind, ZmqSocket};

fn granted(world: &World) -> usize {
    world.played.0.borrow().granted
}

/// A backend may send as much again as its client has taken, and no more.
#[test]
fn a_backend_is_read_as_fast_as_its_client_takes_it() {
    let mut world = World::new();
    let conn = world.asks(1, "/a");
    world.backend(conn, 1, OriginEvent::Head(head(200, &[])));
    let send = |world: &mut World, bytes: usize| {
        world.backend(conn, 1, OriginEvent::Body(vec![b'x'; bytes]));
    };
    send(&mut world, 1000);
    assert_eq!(granted(&world), 1000);
    // More waits for the client than it may: nothing is granted until it has taken it.
    send(&mut world, 300_000);
    send(&mut world, 10_000);
    world.run();
    assert_eq!(granted(&world), 1000);
    world.told(conn);
    let (grip, floor) = &mut world.shards[1];
    grip.drained(conn);
    grip.turn(0, floor);
    assert_eq!(granted(&world), 311_000);
    world.shards[1].0.drained(conn);
    assert_eq!(granted(&world), 311_000, "once");
    world.backend(conn, 1, OriginEvent::End);
    assert_eq!(world.played.0.borrow().dropped, [(conn, 1)]);
}

/// A client that takes nothing of a long queue for five minutes is cut off, and its exchange ends.
#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let mut world = World::new();
    let [stuck, slow] = [1, 1].map(|shard| {
        let conn = world.asks(shard, "/a");
        world.backend(conn, 1, OriginEvent::Head(head(200, &[])));
        world.backend(conn, 1, OriginEvent::Body(vec![b'x'; 600_000]));
        conn
    });
    for minute in 0..6 {
        assert!(world.is_connected(stuck), "{minute}");
        world.client(slow).solo.out.truncate(500_000 - minute);
        world.pass(60_000);
    }
    assert!(!world.is_connected(stuck));
    assert_eq!(world.client(stuck).ended, Some(End::Now));
    assert!(world.is_connected(slow));
    assert_eq!(world.played.0.borrow().dropped, [(stuck, 1)]);
}

/// A publisher whose connection is to end while its items are on their way gets its answer first.
#[test]
fn a_publisher_is_answered_before_it_ends() {
    let mut client = Client::by(
        (Port::Api, Ipv4Addr::LOCALHOST.into()),
        ConnId::new(ShardId(0), 1, 1),
        Rc::new(GripShared::new(options())),
        Rc::new(throng_solo::shared()),
    );
    client.says(&post(
        "/publish/",
        "text/plain",
        &[item("a", "x"), item("a", "y")],
    ));
    let published: Vec<ReplyTo> = { client.orders.drain(..) }
        .filter_map(|order| match order {
            Order::Publish { reply_to, .. } => Some(reply_to),
            _ => None,
        })
        .collect();
    assert_eq!(published.len(), 2);
    let down = throng_session::CloseReason::Because(throng_types::Disconnect::Shutdown);
    client.happens(Event::Close(&down));
    for (at, reply_to) in published.iter().enumerate() {
        assert_eq!((client.told(), client.ended), (String::new(), None), "{at}");
        let token = reply_to.token;
        let answer = Answer::Published { result: Ok(None) };
        client.happens(Event::Answer { token, answer });
    }
    let told = client.told();
    assert!(
        told.starts_with("HTTP/1.1 200 ") && told.ends_with("\r\nPublished\n"),
        "{told}"
    );
    assert!(told.contains("Connection: close\r\n"), "{told}");
    assert_eq!(client.ended, Some(End::Flush));
}

/// Publishers' paths on the API port are told of while GRIP is off.
#[test]
fn paths_of_publishers_are_known() {
    for path in ["/publish", "/publish/", "/recover", "/recover/"] {
        assert!(Grip::off(Port::Api, path).is_some());
        assert!(Grip::off(Port::Client, path).is_none());
    }
    assert!(Grip::off(Port::Api, "/other").is_none());
}

/// A publisher by ZeroMQ that has finished its handshake, before all shards.
fn pushes() -> (World, ConnId) {
    let mut world = World::with(options_with(|options| {
        options.ports = vec![PortKind::Zmq(ZmqSocket::Pull)];
    }));
    let publisher = world.connect_own(0, 0);
    world.say(publisher, greeting("PUSH"));
    (world, publisher)
}

fn push(channel: &str, content: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(&[format!("J{}", item(channel, content))], &mut out);
    out
}

/// More than a publisher may have under way at once arrives whole and in order, and it is read
/// again once half of it was taken. Few items do not stop reading.
#[test]
fn what_is_pushed_arrives_whole_and_in_order() {
    for home in 0..SHARDS {
        let (mut world, publisher) = pushes();
        let name = name_on(home);
        let stream = world.stream(1, &name);
        for (numbers, is_paused) in [(100..355, false), (100..700, true)] {
            let all: Vec<u8> = { numbers.clone() }
                .flat_map(|number| push(&name, &number.to_string()))
                .collect();
            let client = world.client(publisher);
            client.feeds(&all);
            assert_eq!(client.is_paused, is_paused);
            world.run();
            assert!(!world.client(publisher).is_paused);
            let expected: String = numbers.map(|number| format!("3\r\n{number}\r\n")).collect();
            assert_eq!(world.told(stream), expected);
        }
    }
}

/// A peer without any bytes is closed; one after its greeting may be silent.
#[test]
fn a_publisher_has_to_greet() {
    let (mut world, good) = pushes();
    let silent = world.connect_own(0, 0);
    world.client(silent).due = Some(Millis(0));
    assert_eq!(world.client(good).due, None);
    world.pass(0);
    assert!(!world.is_connected(silent));
    assert!(world.is_connected(good));
}

/// Half minutes of connected clients add up to whole ones; the rest is kept.
#[test]
fn minutes_of_clients_are_counted_whole() {
    let mut world = World::new();
    world.pass(0);
    let shared = world.shards[0].1.shared.clone();
    shared.counters.set(Gauge::GripConnections, 3);
    let before = shared.counters.counter(Counter::GripConnectionMinutes);
    for (half_minutes, minutes) in [(1, 1), (2, 3), (3, 4)] {
        world.pass(30_000);
        let counted = shared.counters.counter(Counter::GripConnectionMinutes) - before;
        assert_eq!(counted, minutes, "{half_minutes}");
    }
}

/// Counts of sessions that took a publication with a receipt are added up after the last one.
#[test]
fn a_receipt_counts_who_took_it() {
    let own = GripShared::new(options());
    let plain = publication(r#"{"channel":"a","http-stream":{"content":"x"}}"#);
    let receipt = crate::forms::Receipt {
        shard: ShardId(1),
        number: 5,
    };
    let counted = |took: u32| {
        let mut publication = Publication::clone(&plain);
        publication.tags = Some(receipt.to_tags());
        // Two at a time, as fan-out has them.
        let others = [Publication::clone(&publication), Publication::clone(&plain)];
        others.iter().for_each(|other| own.took(other));
        (0..took).for_each(|_| own.took(&publication));
        own.carried(&others[0]).expect("a receipt");
        assert_eq!(own.carried(&others[1]), None);
        own.carried(&publication)
    };
    for took in [0, 1, 3] {
        assert_eq!(counted(took), Some((receipt, took.into())));
    }
}
