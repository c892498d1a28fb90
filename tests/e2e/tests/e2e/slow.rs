//! Slow consumers through real sockets: each policy costs the slow one alone, and is reported and
//! counted.

use serde_json::{Value, json};
use throng_testkit::{
    Deadline, EMULATED, HANDSHAKE, Proxy, SDKS, Server, Setup, Signal, TlsFiles, Wire, request,
    until,
};

use crate::support::{subscribed, ws};

/// Large, so that few of them fill what the kernel holds for a connection.
fn publication(n: u64) -> Value {
    json!({ "n": n, "pad": "x".repeat(60_000) })
}

fn config(policy: &str) -> String {
    format!(
        "[engine]\nout_buffer_bytes_max = \"256KiB\"\n[channel]\nslow_consumer = \"{policy}\"\n\
         [stream]\nkeepalive_interval = \"0s\"\n[websocket]\nping_interval = \"0s\"\n\
         [[namespace]]\nname = \"kept\"\nhistory_size = 10000\nhistory_ttl = \"5m\"\nrecovery = \
         true\n"
    )
}

fn start(policy: &str) -> Server {
    Setup::new(&config(policy)).shards(2).start()
}

/// Publishes until `enough`, with a healthy subscriber that receives all of it, and returns how
/// many it took.
fn publish_until(server: &Server, mut healthy: Wire, enough: impl Fn() -> bool) -> u64 {
    healthy.chunk();
    let mut n = 0;
    loop {
        server.publish("news", &publication(n).to_string());
        let line: Value = serde_json::from_str(&healthy.chunk()).unwrap();
        assert_eq!(
            line["data"]["n"], n,
            "others lose nothing and wait for nobody"
        );
        n += 1;
        if n % 20 == 0 && enough() {
            return n;
        }
        assert!(
            n < 20_000,
            "the queue never was full: {}",
            server.metrics().sum("throng_slow_consumers_total")
        );
    }
}

fn slow_consumers(server: &Server) -> u64 {
    server.metric("throng_slow_consumers_total")
}

/// Clients that read nothing and later go on: each gets whole frames without a gap, why it is
/// closed in the words of its protocol, and an end in order.
#[track_caller]
fn the_slow_hear_why(server: &Server, connect: impl Fn() -> Wire) {
    let subscribe = |target: &str| {
        let mut wire = connect();
        wire.ask(target, "");
        wire.head();
        wire
    };
    let mut events = subscribe("/sse?channel=news");
    events.through("subscribed");
    let [mut lines, healthy] = ["/stream?channel=news"; 2].map(subscribe);
    lines.chunk();
    let socket = |target: &str| {
        let mut wire = connect();
        wire.ask(target, HANDSHAKE);
        assert_eq!(wire.head().status, 101);
        wire
    };
    let mut plain = socket("/ws?channel=news");
    let mut centrifugo = socket("/connection/websocket");
    let connect = r#"{"id":1,"connect":{}}"#;
    let subscribe = r#"{"id":2,"subscribe":{"channel":"news"}}"#;
    centrifugo.say(&[connect, subscribe].join("\n"));
    until("all subscribers", || {
        server.metric("throng_subscriptions") == 5
    });

    let closed = "throng_connections_closed_total{reason=\"slow\"}";
    publish_until(server, healthy, || server.metric(closed) == 4);
    assert_eq!(slow_consumers(server), 4);
    assert!(server.metric("throng_dropped_total{policy=\"close\"}") >= 4);
    // An operator who looks later sees which clients it was.
    let told = request(server.api_address(), "GET", "/slow", &[], "");
    let told: Value = serde_json::from_str(&told.body).unwrap();
    let is_sse = |one: &&Value| one["transport"] == "sse";
    let sse = told["closed"]
        .as_array()
        .and_then(|all| all.iter().find(is_sse));
    assert_eq!(
        sse.expect("the stream")["channels"],
        json!(["news"]),
        "{told}"
    );
    for (name, wire) in [("sse", &mut events), ("stream", &mut lines)] {
        let told = wire.rest();
        gapless(name, &told);
        let tail = &told[told.len().saturating_sub(120)..];
        assert!(
            tail.contains("disconnect") && tail.contains("3008"),
            "{name}: {tail:?}"
        );
        assert!(!wire.was_cut(), "{name}");
    }
    for (name, wire) in [("ws", &mut plain), ("centrifugo", &mut centrifugo)] {
        let mut told = String::new();
        let end = loop {
            match wire.frame() {
                (8, payload) => break payload,
                (_, payload) => told.push_str(str::from_utf8(&payload).unwrap()),
            }
        };
        gapless(name, &told);
        assert_eq!(
            (&end[..2], &end[2..]),
            (&3008_u16.to_be_bytes()[..], &b"slow"[..]),
            "{name}"
        );
        assert!(wire.rest_bytes().is_empty() && !wire.was_cut(), "{name}");
    }
    server.counts(closed, 4);
}

#[track_caller]
fn gapless(name: &str, told: &str) {
    let texts = told.split("\"n\":").skip(1);
    let numbers = texts.filter_map(|rest| rest.split(',').next()?.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    assert!(!numbers.is_empty(), "{name}");
    assert!(
        numbers.iter().copied().eq(0..numbers.len() as u64),
        "{name}: {numbers:?}"
    );
}

#[test]
fn the_slow_hear_why_they_are_closed() {
    let server = start("close");
    the_slow_hear_why(&server, || Wire::connect(server.clients()));
    server.stop();
}

#[test]
fn the_slow_hear_why_they_are_closed_by_tls() {
    let tls = TlsFiles::default();
    let setup = Setup::new(&format!("{}{}", config("close"), tls.config("")));
    let server = setup.shards(2).tls_clients().start();
    the_slow_hear_why(&server, || {
        Wire::connect_secure(server.clients(), tls.authority.pem())
    });
    server.stop();
}

/// Numbers that a subscriber heard, and deliveries that it was told were dropped.
#[derive(Default)]
struct Heard {
    numbers: Vec<u64>,
    dropped: u64,
}

impl Heard {
    /// Reads a publication's number, or a loss, from a text.
    fn take(&mut self, text: &str) {
        // Some wire forms put our JSON into a string of theirs.
        let text = text.replace('\\', "");
        self.numbers.extend(number(&text, "\"n\":"));
        let lost = number(&text, "\"dropped\":").or_else(|| number(&text, "dropped="));
        self.dropped += lost.unwrap_or_default();
    }

    /// Whether the newest is there, and every other one has arrived or was reported lost.
    fn is_whole(&self, published: u64) -> bool {
        let newest = self.numbers.last() == Some(&(published - 1));
        newest && self.numbers.len() as u64 + self.dropped >= published
    }

    /// Takes more until it is whole. A queue may have been full more than once, and each time is
    /// reported.
    #[track_caller]
    fn until_whole(name: &str, published: u64, mut more: impl FnMut() -> String) -> (&str, Self) {
        let mut heard = Self::default();
        while !heard.is_whole(published) {
            heard.take(&more());
        }
        assert!(
            heard.numbers.is_sorted_by(|a, b| a < b),
            "{name}: {:?}",
            heard.numbers
        );
        assert!(heard.dropped > 0, "{name}");
        assert_eq!(
            heard.numbers.len() as u64 + heard.dropped,
            published,
            "{name}"
        );
        (name, heard)
    }
}

fn number(text: &str, key: &str) -> Option<u64> {
    let rest = text.split(key).nth(1)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[track_caller]
fn shedding(policy: &str) {
    let server = start(policy);
    let mut plain = ws(&server, "/ws?channel=news");
    let mut sdk = ws(&server, "/connection/websocket");
    sdk.say(r#"send {"id":1,"connect":{}}"#);
    sdk.event("message", &json!({}));
    sdk.say(r#"send {"id":2,"subscribe":{"channel":"news"}}"#);
    sdk.event("message", &json!({}));
    for client in [&mut plain, &mut sdk] {
        client.say("pause");
        client.event("paused", &json!({}));
    }
    let mut lines = server.stream("/stream?channel=news");
    lines.chunk();
    let mut events = server.stream("/sse?channel=news");
    events.through("subscribed");

    let healthy = server.stream("/stream?channel=news");
    let published = publish_until(&server, healthy, || slow_consumers(&server) == 4);
    plain.say("resume");
    sdk.say("resume");
    let heard = [
        Heard::until_whole("stream", published, || lines.chunk()),
        Heard::until_whole("sse", published, || events.through("\n\n")),
        Heard::until_whole("ws", published, || plain.next_event()["data"].to_string()),
        Heard::until_whole("centrifugo", published, || {
            sdk.next_event()["data"].to_string()
        }),
    ];
    let counted = server.metric(&format!("throng_dropped_total{{policy=\"{policy}\"}}"));
    assert_eq!(
        heard.iter().map(|(_, heard)| heard.dropped).sum::<u64>(),
        counted
    );
    // They are as good as new.
    server.publish("news", "\"again\"");
    assert!(lines.chunk().contains("again"));
    events.through("again");
    for client in [&plain, &sdk] {
        assert!(client.next_event()["data"].to_string().contains("again"));
    }
    server.counts("throng_connections_closed_total{reason=\"slow\"}", 0);
    server.stop();
}

#[test]
fn drop_oldest_sheds_the_oldest() {
    shedding("drop-oldest");
}

#[test]
fn latest_only_keeps_the_newest() {
    shedding("latest-only");
}

/// With `max_delay`, "latest only" conflates for clients that keep up too: the newest publication
/// of each window for each subscription, with positions that hold over a cut.
#[test]
fn each_subscription_gets_the_newest_of_each_window() {
    let config = "[[namespace]]\nname = \"price\"\nslow_consumer = \"latest-only\"\n\
                  max_delay = \"300ms\"\nhistory_size = 1000\nhistory_ttl = \"5m\"\n\
                  recovery = true\n";
    let server = Setup::new(config).shards(2).start();
    let burst = |from: u64| {
        let commands: Vec<Value> = (from..from + 100)
            .flat_map(|n| ["price:a", "price:b"].map(|channel| (channel, n)))
            .map(|(channel, n)| json!({ "publish": { "channel": channel, "data": { "n": n } } }))
            .collect();
        server.call("batch", &json!({ "commands": commands }));
    };
    // What listens alone: two channels each, so that each gets the newest of both.
    let both = "channel=price:a&channel=price:b";
    let mut lines = server.stream(&format!("/stream?{both}"));
    lines.chunk();
    let mut events = server.stream(&format!("/sse?{both}"));
    events.through("subscribed");
    let ws = ws(&server, &format!("/ws?{both}"));
    let wish = "%7B%22subs%22%3A%7B%22price%3Aa%22%3A%7B%7D%2C%22price%3Ab%22%3A%7B%7D%7D%7D";
    let mut uni = server.stream(&format!("/connection/uni_sse?cf_connect={wish}"));
    uni.through("connect");
    let proxy = Proxy::new(server.clients());
    let mut clients: Vec<_> = { SDKS.into_iter().chain(EMULATED) }
        .map(|(name, start)| {
            let mut client = subscribed(start, proxy.address(), "price:a");
            client.subscribe("price:b");
            (name, client)
        })
        .collect();
    burst(0);
    // Both channels' last, and what came before it: less than all.
    let few = |name: &str, mut more: Box<dyn FnMut() -> String + '_>| -> u64 {
        let (mut heard, mut last) = (0, 0);
        while last < 2 {
            let text = more().replace('\\', "");
            heard += text.matches("\"n\":").count() as u64;
            last += text.matches("\"n\":99").count();
        }
        assert!(heard < 200, "{name} heard {heard}");
        heard
    };
    let mut heard = few("stream", Box::new(|| lines.chunk()));
    heard += few("sse", Box::new(|| events.through("\n\n")));
    heard += few("ws", Box::new(|| ws.next_event()["data"].to_string()));
    heard += few("uni_sse", Box::new(|| uni.through("\n\n")));
    for (name, client) in &clients {
        let next = || client.event("publication", &json!({}))["data"].to_string();
        heard += few(name, Box::new(next));
    }
    let subscribers = 4 + clients.len() as u64;
    let saved = server.metric("throng_conflated_total");
    assert_eq!(heard + saved, subscribers * 200, "delivered or conflated");
    server.counts("throng_deliveries_total", heard);
    // A client that comes back gets all that it missed, from the newest that it had.
    proxy.cut();
    for (_, client) in &clients {
        client.event("connecting", &json!({}));
    }
    burst(100);
    proxy.mend();
    for (name, client) in &clients {
        for channel in ["price:a", "price:b"] {
            let told = json!({ "channel": channel, "recovered": true });
            client.event("subscribed", &told);
            let data = client.publications(channel, 100);
            let numbers: Vec<u64> = data.iter().filter_map(|data| data["n"].as_u64()).collect();
            assert!(numbers.iter().copied().eq(100..200), "{name}: {numbers:?}");
        }
        assert_eq!(client.left("publication"), 0, "{name}");
    }
    clients.clear();
    server.stop();
}

/// An SDK whose process is stopped is cut off, and when it goes on it comes back for all that it
/// missed.
#[test]
fn a_stopped_sdk_recovers_everything() {
    let server = start("close");
    for (name, start) in SDKS {
        let channel = format!("kept:{name}");
        let client = subscribed(start, server.clients(), &channel);
        client.forget("connecting");
        let before = server.metric("throng_slow_consumers_total");
        client.signal(Signal::STOP);
        let mut count = 0;
        let deadline = Deadline::default();
        while server.metric("throng_slow_consumers_total") == before {
            deadline.check("a client that is closed");
            for _ in 0..20 {
                server.publish(&channel, &publication(count).to_string());
                count += 1;
            }
        }
        client.signal(Signal::CONT);
        client.event("connecting", &json!({}));
        client.recovers(&channel);
        server.publish(&channel, &publication(count).to_string());
        let heard = client.publications(&channel, count as usize + 1);
        let numbers: Vec<u64> = heard.iter().filter_map(|data| data["n"].as_u64()).collect();
        assert!(numbers.iter().copied().eq(0..=count), "{name}: {numbers:?}");
    }
    server.stop();
}

/// Answers with history to clients that read nothing: one carries only so much, and the part of
/// them in a queue is bounded as deliveries are.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    const CLIENTS: usize = 10;
    let config = "[engine]\nout_buffer_bytes_max = \"256KiB\"\n\
                  [limits]\nhistory_reply_max = 20\nhistory_reply_bytes_max = \"512KiB\"\n\
                  [[namespace]]\nname = \"kept\"\nhistory_size = 10000\nhistory_ttl = \"5m\"\n\
                  recovery = true\n";
    let server = Setup::new(config).shards(2).start();
    for n in 0..300 {
        server.publish("kept:large", &publication(n).to_string());
    }
    for _ in 0..30 {
        server.publish("kept:small", "1");
    }
    // A client that reads gets a page.
    let page = |channel: &str| {
        let told = server.call("history", &json!({ "channel": channel, "limit": -1 }));
        told["result"]["publications"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert_eq!((page("kept:large"), page("kept:small")), (8, 20));
    let resident = || server.metric("throng_process_resident_bytes");
    let before = resident();
    let connect = r#"{"id":1,"connect":{}}"#;
    let history = r#"{"id":2,"history":{"channel":"kept:large","limit":-1}}"#;
    let recover = r#"{"id":3,"subscribe":{"channel":"kept:large","recover":true}}"#;
    let mut clients: Vec<Wire> = (0..CLIENTS)
        .map(|_| {
            let mut wire = server.websocket("/connection/websocket");
            wire.say(&[connect, history].join("\n"));
            // The answer is there, and the rest of it stays where it is.
            wire.through("\"id\":2,");
            wire
        })
        .collect();
    let grown = resident().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes for {CLIENTS} answers");
    let mut recovers = server.websocket("/connection/websocket");
    recovers.say(&[connect, recover].join("\n"));
    recovers.through("\"id\":3,");
    let told = recovers.through("}}");
    let is_lost = told.contains("\"was_recovering\":true") && !told.contains("\"recovered\"");
    assert!(is_lost, "{told}");
    // A client that goes on asking without reading is too slow.
    for wire in &mut clients {
        wire.say(&[history; 40].join("\n"));
    }
    let closed = "throng_connections_closed_total{reason=\"slow\"}";
    until("the end of all of them", || {
        server.metric(closed) == CLIENTS as u64
    });
    server.stop();
}
