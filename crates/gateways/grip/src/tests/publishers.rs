//! Publishers by HTTP, and the deliveries to clients on all shards.

use throng_hub::ReplyTo;
use throng_metrics::Counter;
use throng_session::{Gateway, Page, Pages};

use super::world::{SHARDS, World, name_on};
use super::*;
use crate::PortKind;

fn world() -> World {
    World::with(options_with(|options| {
        options.ports = vec![PortKind::Http, PortKind::Metrics, PortKind::Stats];
    }))
}

fn parts(answer: &str) -> (&str, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (&head[9..12], body)
}

/// Publications on any shard reach every client of the channel once, in order, and nobody else; the
/// publisher is answered, and its connection may go on.
#[test]
fn what_is_published_reaches_the_clients_of_all_shards() {
    for home in 0..SHARDS {
        let mut world = world();
        let name = name_on(home);
        let streams: Vec<ConnId> = (0..SHARDS)
            .map(|shard| world.stream(shard, &name))
            .collect();
        let other = world.stream(1, "other");
        for (port, path) in [
            (Port::Api, "/publish"),
            (Port::Api, "/publish/"),
            (
                Port::Own {
                    gateway: 0,
                    port: 0,
                },
                "/publish/",
            ),
        ] {
            let publisher = world.connect(1, port);
            for _ in 0..2 {
                let items = [item(&name, "one"), item(&name, "two")];
                world.say(publisher, post(path, "text/plain", &items));
                let told = world.told(publisher);
                assert_eq!(parts(&told), ("200", "Published\n"), "{path}");
                assert!(told.contains("Content-Type: text/plain\r\n"), "{told}");
                for &stream in &streams {
                    assert_eq!(world.told(stream), "3\r\none\r\n3\r\ntwo\r\n");
                }
            }
        }
        assert_eq!(world.told(other), "");
        let counters = &world.shards[0].1.shared.counters;
        assert_eq!(counters.counter(Counter::GripDeliveries), 12);
    }
}

/// A publisher that asks for it gets the number of connections that took its items, on all shards.
/// An item that waits for the one before it is not counted, and then no number is sent.
#[test]
fn a_publisher_may_ask_how_many_took_its_items() {
    for home in 0..SHARDS {
        let mut world = world();
        let [name, unknown] = [name_on(home), format!("{}x", name_on(home))];
        let (one, two) = (world.stream(0, &name), world.stream(2, &name));
        world.stream(2, &name);
        let publisher = world.connect(0, Port::Api);
        let ask = |world: &mut World, accept: &str, items: &[String]| {
            world.say(publisher, post("/publish/?receivers=1", accept, items));
            let told = world.told(publisher);
            let (status, body) = parts(&told);
            assert_eq!(status, "200");
            body.to_owned()
        };
        let [a, b] = [item(&name, "a"), item(&unknown, "b")];
        let text = "text/plain";
        let told = ask(&mut world, text, std::slice::from_ref(&a));
        assert_eq!(told, "Published, receivers: 3\n");
        let told = ask(&mut world, text, &[a.clone(), b.clone(), a.clone()]);
        assert_eq!(told, "Published, receivers: 6\n");
        assert_eq!(ask(&mut world, text, &[b]), "Published, receivers: 0\n");
        let waits = format!(
            r#"{{"channel":"{name}","id":"3","prev-id":"2","http-stream":{{"content":"x"}}}}"#
        );
        let first = waits.replace(r#""id":"3","prev-id":"2""#, r#""id":"1""#);
        // What was published before reaches nobody again.
        for receivers in [3, 0] {
            let told = ask(&mut world, text, std::slice::from_ref(&first));
            assert_eq!(told, format!("Published, receivers: {receivers}\n"));
        }
        let json = "application/json";
        let told = ask(&mut world, json, &[waits, a]);
        assert_eq!(told, "{\"message\":\"Published\",\"receivers\":null}\n");
        // Publishers that do not ask get no numbers.
        let items = [item(&name, "z")];
        world.say(publisher, post("/publish/?receivers=0", text, &items));
        let told = world.told(publisher);
        assert_eq!(parts(&told).1, "Published\n");
        assert!(world.told(one).ends_with("z\r\n"));
        assert!(world.told(two).ends_with("z\r\n"));
    }
}

/// A client that took its answer is counted, too; one whose filters leave the item out is not.
#[test]
fn a_held_response_is_a_receiver() {
    let mut world = world();
    let name = name_on(1);
    let filtered = world.stream(1, &format!("{name}; filter=require-sub"));
    let fields = [("Grip-Hold", "response"), ("Grip-Channel", &*name)];
    let held = world.asks(0, "/a");
    world.answer(held, 1, 200, &fields, "nothing");
    let publisher = world.connect(2, Port::Api);
    let item = format!(
        r#"{{"channel":"{name}","meta":{{"require_sub":"b"}},
            "http-response":{{"body":"news"}},"http-stream":{{"content":"x"}}}}"#
    );
    for receivers in [1, 0] {
        let wish = post(
            "/publish/?receivers=1",
            "text/plain",
            std::slice::from_ref(&item),
        );
        world.say(publisher, wish);
        let expected = format!("Published, receivers: {receivers}\n");
        assert_eq!(parts(&world.told(publisher)).1, expected);
    }
    assert!(world.told(held).ends_with("\r\n\r\nnews"));
    assert_eq!(world.told(filtered), "");
    // Its connection takes the next request.
    world.say(held, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        world
            .asked()
            .iter()
            .any(|(conn, _, request)| { (*conn, &*request.path) == (held, "/b") })
    );
}

/// Requests that are no publication are answered as in Pushpin.
#[test]
fn requests_that_publish_nothing_are_answered_too() {
    let mut world = world();
    let publisher = world.connect(0, Port::Api);
    let get = "GET /publish/ HTTP/1.1\r\nHost: a\r\n\r\n";
    for _ in 0..2 {
        world.say(publisher, get);
        let told = world.told(publisher);
        assert_eq!(parts(&told).0, "405");
        assert!(told.contains("Allow: POST\r\n"), "{told}");
    }
    world.say(publisher, post("/publish/", "text/plain", &[]));
    let told = world.told(publisher);
    assert_eq!(parts(&told), ("200", "Published\n"));
    assert!(!told.contains("Allow:"), "{told}");
    // A request before the answer to the last one is answered next.
    let both = post("/publish/", "text/plain", &[item("a", "x")]) + get;
    world.say(publisher, both);
    let told = world.told(publisher);
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(told.contains("HTTP/1.1 405"), "{told}");
    // Other paths of the API are not GRIP's.
    for path in ["/publisher", "/", "/metrics"] {
        let conn = world.connect(0, Port::Api);
        world.say(conn, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(parts(&world.told(conn)).0, "404", "{path}");
    }
    for path in ["/publish", "/publish/", "/recover", "/recover/"] {
        assert!(Grip::off(Port::Api, path).is_some());
        assert!(Grip::off(Port::Client, path).is_none());
    }
    assert!(Grip::off(Port::Api, "/other").is_none());
    // The port for metrics has them at its root, too, and nothing else.
    world.shards[0].1.shared = Rc::new(Shared {
        pages: Arc::new(Metrics),
        ..throng_solo::shared()
    });
    for (path, status) in [("/", "200"), ("/metrics", "200"), ("/publish/", "404")] {
        let conn = world.connect_own(0, 1);
        world.say(conn, format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(parts(&world.told(conn)).0, status, "{path}");
    }
}

/// Pages with nothing but Pushpin's metrics.
struct Metrics;

impl Pages for Metrics {
    fn page(&self, path: &str) -> Option<Page> {
        let is_it = path == crate::PUSHPIN_METRICS;
        is_it.then(|| Page {
            content_type: "text/plain",
            policy: None,
            body: b"metrics".to_vec(),
        })
    }
}

/// `POST /recover` makes every reliable stream ask its backend, on all shards.
#[test]
fn recover_reaches_all_shards() {
    let mut world = world();
    let fields = [
        ("Grip-Hold", "stream"),
        ("Grip-Channel", "a; prev-id=1"),
        ("Grip-Link", "</next>; rel=next; timeout=60"),
    ];
    let streams: Vec<ConnId> = (0..SHARDS)
        .map(|shard| {
            let conn = world.asks(shard, "/a");
            world.answer(conn, 1, 200, &fields, "");
            conn
        })
        .collect();
    let plain = world.stream(1, "a");
    world.asked();
    let publisher = world.connect(1, Port::Api);
    world.say(
        publisher,
        "POST /recover HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(parts(&world.told(publisher)), ("200", "Updated\n"));
    let mut asked: Vec<ConnId> = world.asked().iter().map(|(conn, ..)| *conn).collect();
    asked.sort_unstable();
    assert_eq!(asked, streams);
    assert!(!asked.contains(&plain));
}

/// Items that other shards have no room for are refused, and the publisher is told so.
#[test]
fn a_server_without_room_says_that_nothing_was_published() {
    let mut world = world();
    let name = name_on(2);
    let stream = world.stream(2, &name);
    world.shards[0].1.is_full = true;
    let publisher = world.connect(0, Port::Api);
    for target in ["/publish/", "/publish/?receivers=1"] {
        world.say(publisher, post(target, "text/plain", &[item(&name, "x")]));
        assert_eq!(parts(&world.told(publisher)).0, "503", "{target}");
    }
    // One of two items cannot be taken.
    let items = [item(&name_on(0), "x"), item(&name, "x")];
    world.say(publisher, post("/publish/", "text/plain", &items));
    assert_eq!(parts(&world.told(publisher)).0, "503");
    assert_eq!(world.told(stream), "");
    world.shards[0].1.is_full = false;
    world.say(publisher, post("/publish/", "text/plain", &items));
    assert_eq!(parts(&world.told(publisher)).0, "200");
    assert_eq!(world.told(stream), "1\r\nx\r\n");
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
    assert_eq!(parts(&told), ("200", "Published\n"));
    assert!(told.contains("Connection: close\r\n"), "{told}");
    assert_eq!(client.ended, Some(End::Flush));
}
