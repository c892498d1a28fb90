use std::net::IpAddr;

use throng_grip::stats::StatsFormat;
use throng_session::NodeKey;
use throng_types::{ConnId, ShardId};

use super::*;
use crate::forms::hub_channel;
use crate::stats::book::{Book, NewClient};

const OPTIONS: StatsOptions = StatsOptions {
    format: StatsFormat::Json,
    report_interval_ms: 10_000,
    sends_connections: true,
    connection_ttl_ms: 120_000,
    subscription_ttl_ms: 60_000,
    linger_ms: 60_000,
};

/// Two shards and their collector.
struct Stage {
    books: [Book; 2],
    collector: Collector,
    now: Millis,
}

impl Stage {
    fn new() -> Self {
        Self::with(OPTIONS)
    }

    fn with(options: StatsOptions) -> Self {
        let book = || Book::new(options.connection_ttl_ms);
        let mut collector = Collector::new(options, "me".to_owned(), Millis(0));
        collector.is_read = true;
        Self {
            books: [book(), book()],
            collector,
            now: Millis(0),
        }
    }

    fn open(&mut self, shard: usize, slot: u32, route: &str) -> ConnId {
        let conn = ConnId::new(ShardId(shard as u8), slot, 0);
        let client = NewClient {
            id: NodeKey::new([7; 32]).client_id(conn),
            route: Some(route),
            peer: IpAddr::from([192, 0, 2, 1]),
            is_websocket: false,
            is_tls: false,
        };
        self.books[shard].opened(conn, &client, self.now);
        conn
    }

    fn subscribe(&mut self, conn: ConnId, mode: SubscriptionMode) {
        let channel = hub_channel("", "a").expect("a name");
        self.books[conn.shard().index()].subscribed(conn, &channel, mode);
    }

    fn close(&mut self, conn: ConnId) {
        self.books[conn.shard().index()].closed(conn, self.now);
    }

    fn publish(&mut self, transports: Transports) {
        let channel = hub_channel("", "a").expect("a name");
        self.books[1].published(channel, Some("7".to_owned()), transports);
    }

    /// Lets time go by in steps, and gives the packets of some kinds without `from` and `id`.
    fn run(&mut self, for_ms: u64, kinds: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        for _ in 0..for_ms / STEP_MS {
            self.now = self.now + STEP_MS;
            for book in &mut self.books {
                book.step(self.now);
                for news in book.take() {
                    self.collector.add(news, self.now);
                }
            }
            self.collector.step(self.now);
            out.extend(self.collector.take());
        }
        let packets = out.iter().map(|packet| String::from_utf8_lossy(packet));
        let packets = packets.filter_map(|packet| {
            let (kind, json) = packet.split_once(" J")?;
            let mut fields: serde_json::Value = serde_json::from_str(json).ok()?;
            let object = fields.as_object_mut()?;
            assert_eq!(object.remove("from"), Some("me".into()));
            object.remove("id");
            kinds.contains(&kind).then(|| format!("{kind} {fields}"))
        });
        packets.collect()
    }
}

#[test]
fn subscribers_of_all_shards_are_one_number() {
    let mut stage = Stage::new();
    let (one, two) = (stage.open(0, 1, "r"), stage.open(1, 1, "s"));
    stage.subscribe(one, SubscriptionMode::Stream);
    // Saying it twice changes nothing.
    stage.subscribe(one, SubscriptionMode::Stream);
    let told = |count: u64| {
        format!(r#"sub {{"channel":"a","mode":"stream","subscribers":{count},"ttl":60}}"#)
    };
    assert_eq!(stage.run(1000, &["sub"]), [told(1)]);
    // Another number is told within a second.
    stage.subscribe(two, SubscriptionMode::Stream);
    assert_eq!(stage.run(1000, &["sub"]), [told(2)]);
    // And again before readers forget it.
    assert!(stage.run(30_000, &["sub"]).contains(&told(2)));
    stage.close(one);
    assert_eq!(stage.run(1000, &["sub"]), [told(1)]);
    stage.close(two);
    let gone = r#"sub {"channel":"a","mode":"stream","unavailable":true}"#;
    assert_eq!(stage.run(100_000, &["sub"]), [gone]);
    assert!(stage.collector.subscribers.is_empty() && stage.collector.changed.is_empty());
}

#[test]
fn reports_may_be_left_out() {
    for (report_interval_ms, reports) in [(10_000, 2), (0, 0)] {
        let mut stage = Stage::with(StatsOptions {
            report_interval_ms,
            ..OPTIONS
        });
        stage.open(0, 1, "r");
        assert_eq!(stage.run(20_000, &["report"]).len(), reports);
    }
}

#[test]
fn a_channel_of_long_polls_lingers() {
    let mut stage = Stage::new();
    let poll = stage.open(0, 1, "");
    stage.subscribe(poll, SubscriptionMode::Response);
    assert_eq!(stage.run(100, &["sub"]).len(), 1);
    stage.close(poll);
    assert_eq!(stage.run(59_000, &["sub"]), [] as [&str; 0]);
    // It asks again in time: a new number, and no end.
    let poll = stage.open(0, 1, "");
    stage.subscribe(poll, SubscriptionMode::Response);
    assert_eq!(stage.run(100, &["sub"]).len(), 1);
    assert!(stage.collector.lingering.is_empty());
    stage.close(poll);
    let gone = r#"sub {"channel":"a","mode":"response","unavailable":true}"#;
    assert_eq!(stage.run(60_100, &["sub"]), [gone]);
    assert!(stage.collector.subscribers.is_empty() && stage.collector.lingering.is_empty());
}

#[test]
fn channels_that_linger_are_bounded() {
    let mut stage = Stage::new();
    for number in 0..=LINGERING_MAX {
        let channel = hub_channel("", &number.to_string()).expect("a name");
        let subscriber = Subscriber {
            channel,
            mode: SubscriptionMode::Response,
            route: RouteId::default(),
        };
        stage.collector.subscribed(subscriber.clone());
        stage.collector.left(subscriber, Millis(1));
    }
    assert_eq!(stage.collector.lingering.len(), LINGERING_MAX);
    assert_eq!(stage.collector.subscribers.len(), LINGERING_MAX);
    let last = stage.collector.take().pop().expect("an end");
    assert!(String::from_utf8_lossy(&last).contains("unavailable"));
}

/// A client that waits in another form than the publication's gets nothing and is not counted.
#[test]
fn a_message_is_told_in_its_own_forms() {
    let mut stage = Stage::new();
    for (slot, mode) in [
        (1, SubscriptionMode::Stream),
        (2, SubscriptionMode::Response),
        (3, SubscriptionMode::WebSocket),
    ] {
        let conn = stage.open(0, slot, "r");
        stage.subscribe(conn, mode);
    }
    stage.run(STEP_MS, &[]);
    stage.publish(bit(SubscriptionMode::Response));
    let told = r#"message {"channel":"a","count":1,"item-id":"7","transport":"http-response"}"#;
    assert_eq!(stage.run(STEP_MS, &["message"]), [told]);
}

#[test]
fn items_count_for_the_routes_of_those_who_get_them() {
    let mut stage = Stage::new();
    for (shard, route) in [(0, "r"), (0, "r"), (1, "s")] {
        let slot = stage.now.0 as u32;
        let conn = stage.open(shard, slot, route);
        stage.subscribe(conn, SubscriptionMode::Stream);
        stage.run(STEP_MS, &[]);
    }
    stage.publish(bit(SubscriptionMode::Stream) | bit(SubscriptionMode::WebSocket));
    let told = r#"message {"channel":"a","count":3,"item-id":"7","transport":"http-stream"}"#;
    assert_eq!(stage.run(STEP_MS, &["message"]), [told]);
    let reports = stage.run(10_000, &["report"]);
    let expected = |route: &str, connections, minutes, received, sent, duration| {
        [
            &format!(r#"report {{"connections":{connections},"duration":{duration},"#),
            &format!(r#""http-response-sent":0,"minutes":{minutes},"received":{received},"#),
            &format!(r#"{route}"sent":{sent}}}"#),
        ]
        .map(String::as_str)
        .concat()
    };
    assert_eq!(
        reports,
        [
            expected("", 0, 0, 1, 0, 9600),
            expected(r#""route":"r","#, 2, 2, 0, 2, 9900),
            expected(r#""route":"s","#, 1, 1, 0, 1, 9700),
        ]
    );
}

#[test]
fn the_last_report_of_a_route_says_that_nobody_is_left() {
    let mut stage = Stage::new();
    let conn = stage.open(0, 1, "r");
    // A minute counts when it begins, the next one when it is over and told of.
    let minutes = |packets: &[String]| -> Vec<u64> {
        let fields = packets.iter().map(|packet| &packet["report ".len()..]);
        let fields = fields.filter_map(|json| serde_json::from_str(json).ok());
        fields
            .map(|fields: serde_json::Value| fields["minutes"].as_u64().unwrap_or_default())
            .collect()
    };
    let reports = stage.run(130_000, &["report"]);
    assert_eq!(minutes(&reports).iter().sum::<u64>(), 3, "{reports:?}");
    stage.close(conn);
    let reports = stage.run(60_000, &["report"]);
    let connections = |packet: &String| packet.contains(r#""connections":1"#);
    let found: Vec<bool> = reports.iter().map(connections).collect();
    assert_eq!(found, [true, false], "{reports:?}");
    assert!(stage.collector.routes.is_empty());
    assert_eq!(stage.collector.deadline(), None);
    assert!(stage.books.iter().all(|book| book.deadline().is_none()));
}

#[test]
fn connections_are_told_of_again_until_they_have_gone() {
    let mut stage = Stage::new();
    let conn = stage.open(1, 4, "r");
    let told = r#"conn {"peer-address":"192.0.2.1","route":"r","ttl":120,"type":"http"}"#;
    assert_eq!(stage.run(59_900, &["conn"]), [told]);
    assert_eq!(stage.run(100, &["conn"]), [told]);
    // The same connection takes another request.
    assert_eq!(stage.open(1, 4, "r"), conn);
    let gone = r#"conn {"route":"r","unavailable":true}"#;
    assert_eq!(stage.run(100, &["conn"]), [gone, told]);
    stage.close(conn);
    stage.close(conn);
    assert_eq!(stage.run(100, &["conn"]), [gone]);
}

#[test]
fn activity_is_added_up_by_route() {
    let mut stage = Stage::new();
    let conn = stage.open(0, 1, "r");
    stage.open(1, 1, "r");
    stage.open(1, 2, "");
    stage.books[0].beat(conn);
    let told = [
        r#"activity {"count":1}"#,
        r#"activity {"count":3,"route":"r"}"#,
        r#"counts {"requests-received":3}"#,
    ];
    assert_eq!(stage.run(1000, &["activity", "counts"]), told);
    // What a client says counts once a minute.
    for _ in 0..3 {
        let now = Millis(60_000);
        stage.books[0].said(conn, now);
    }
    let told = [r#"activity {"count":1,"route":"r"}"#];
    assert_eq!(stage.run(1000, &["activity", "counts"]), told);
}

#[test]
fn without_readers_nothing_is_made() {
    let mut stage = Stage::new();
    stage.collector.is_read = false;
    let conn = stage.open(0, 1, "r");
    stage.subscribe(conn, SubscriptionMode::Stream);
    let kinds = ["conn", "sub", "activity", "counts", "report"];
    assert_eq!(stage.run(20_000, &kinds), [] as [&str; 0]);
    // Who comes later hears of what is there.
    stage.collector.is_read = true;
    let later = stage.run(60_000, &kinds);
    for kind in ["conn", "sub", "report"] {
        assert!(
            later.iter().any(|packet| packet.starts_with(kind)),
            "{kind}"
        );
    }
}
