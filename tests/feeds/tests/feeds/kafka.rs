//! Topics of Kafka.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use serde_json::json;
use throng_testkit::{Authority, KafkaServer, PemFiles, RedisServer, Signal, until};

use crate::nodes::{PUBLISHED, healthy, hears, history, node, said, setup, subscriber};

/// A Kafka for all tests that leave it alone: it takes seconds to start.
pub(crate) struct Shared {
    pub(crate) kafka: KafkaServer,
    _files: PemFiles,
    /// The file with the authority that its certificate is from.
    believed: String,
}

pub(crate) fn shared() -> Arc<Shared> {
    static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = shared.upgrade() {
        return shared;
    }
    let authority = Authority::new("of a company");
    let files = PemFiles::new();
    let believed = files.write("ca.pem", authority.pem());
    let new = Arc::new(Shared {
        kafka: KafkaServer::start_secure(&authority.issue(&["127.0.0.1"])),
        _files: files,
        believed,
    });
    *shared = Arc::downgrade(&new);
    new
}

/// A feed from one topic, whose group has its name.
pub(crate) fn feed(url: &str, topic: &str, more: &str) -> String {
    format!(
        "kind = \"kafka\"\nurl = \"{url}\"\ntopics = [\"{topic}\"]\ngroup = \"{topic}\"\n\
         batch = 50\n{more}\n"
    )
}

/// Waits until a group has committed all that there is in so many partitions.
#[track_caller]
pub(crate) fn done(kafka: &KafkaServer, group: &str, partitions: u32) {
    until("a group that has read all", || {
        (kafka.ask(&format!("left {group}")) == format!("{partitions} 0")).then_some(())
    });
}

#[test]
fn records_of_every_sort_become_publications() {
    let shared = shared();
    let kafka = &shared.kafka;
    kafka.ask("create sorts 1");
    for (n, packing) in (0..).zip(["none", "gzip", "snappy", "lz4", "zstd"]) {
        let (from, to) = (100 * n + 1, 100 * n + 100);
        kafka.ask(&format!("send sorts 0 {from} {to} {packing} kept:a"));
    }
    let node = node(&feed(&kafka.url(), "sorts", ""), None);
    done(kafka, "sorts", 1);
    assert_eq!(history(&node, "kept:a"), (1..=500).collect::<Vec<_>>());
    let client = subscriber(node.clients(), "kept:a");
    // What a transaction took back was never there.
    kafka.ask("commit sorts 0 501 505 kept:a");
    kafka.ask("abort sorts 0 900 905 kept:a");
    kafka.ask("commit sorts 0 506 510 kept:a");
    hears(&client, 501..=510);
    // By its key; and what can never be published is left out. A deleted key is no event.
    kafka.ask("record sorts 0 kept:a 511");
    for wrong in ["- 1", "nobody:knows 2", "kept:a 3 tags []", "kept:a -"] {
        kafka.ask(&format!("record sorts 0 {wrong}"));
    }
    kafka.ask("record sorts 0 - 512 channel nobody:knows channel kept:a tags {\"city\":\"Bern\"}");
    hears(&client, 511..=512);
    let newest = json!({ "channel": "kept:a", "limit": 1, "reverse": true });
    let newest = node.call("history", &newest)["result"]["publications"][0].clone();
    assert_eq!(newest["tags"], json!({ "city": "Bern" }), "{newest}");
    done(kafka, "sorts", 1);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "an event of the feed is left out"), 3);
    assert_eq!(node.metric("throng_feed_refused_total"), 3);
    assert_eq!(node.metric(PUBLISHED), 512);
    until("a lag that is gone", || {
        (node.metric("throng_feed_lag{source=\"kafka\"}") == 0).then_some(())
    });
    healthy(&node, "ok");
    // A feed that ends leaves the group, so the next one need not wait for the end of its session.
    // What was removed meanwhile is passed over.
    node.stop();
    until("a group that is left", || {
        kafka.ask("members sorts").is_empty().then_some(())
    });
    let (taken_back, ends, wrong) = (6, 3, 4);
    let end: u64 = 512 + taken_back + ends + wrong;
    kafka.ask("send sorts 0 1001 1020 gzip kept:a");
    kafka.ask(&format!("forget sorts 0 {}", end + 10));
    let next = self::node(&feed(&kafka.url(), "sorts", ""), None);
    done(kafka, "sorts", 1);
    assert_eq!(history(&next, "kept:a"), (1011..=1020).collect::<Vec<_>>());
    assert_eq!(said(&next, "were removed before they were read"), 1);
}

#[test]
fn a_group_may_begin_with_what_comes() {
    let shared = shared();
    let kafka = &shared.kafka;
    kafka.ask("create news 2");
    kafka.ask("send news 0 1 100 lz4 kept:a");
    let options = feed(
        &kafka.url(),
        "news",
        "begin = \"newest\"\nchannel = \"kept:b\"",
    );
    let first = node(&options, None);
    // Where it begins is kept, before there is anything to read.
    done(kafka, "news", 2);
    drop(first);
    kafka.ask("send news 0 101 110 none no-matter");
    let second = node(&options, None);
    done(kafka, "news", 2);
    assert_eq!(history(&second, "kept:b"), (101..=110).collect::<Vec<_>>());
}

#[test]
fn records_come_by_tls_to_who_proves_itself() {
    let shared = shared();
    let kafka = &shared.kafka;
    kafka.ask("create secrets 1");
    kafka.ask("user me it's-me");
    let stranger = node(
        &feed(&kafka.secure_url("me", "it's-me"), "secrets", ""),
        None,
    );
    healthy(&stranger, "degraded: a feed cannot read its source");
    drop(stranger);
    let start = |url: &str| {
        let setup = setup(&feed(url, "secrets", ""), None);
        setup.variable("SSL_CERT_FILE", &shared.believed).start()
    };
    let mistaken = start(&kafka.secure_url("me", "it's-you"));
    healthy(&mistaken, "degraded: a feed cannot read its source");
    drop(mistaken);
    for (n, (user, password, sasl)) in (0..).zip([
        ("me", "it's-me", "scram-sha-512"),
        ("me", "it's-me", "scram-sha-256"),
        ("plain", "secret", "plain"),
    ]) {
        let (from, to) = (10 * n + 1, 10 * n + 10);
        kafka.ask(&format!("send secrets 0 {from} {to} zstd kept:a"));
        let url = kafka.secure_url(user, password);
        let node = start(&format!("{url}?sasl={sasl}"));
        done(kafka, "secrets", 1);
        assert_eq!(history(&node, "kept:a"), (from..=to).collect::<Vec<_>>());
        node.stop();
    }
}

#[test]
fn kafka_is_killed_in_the_midst() {
    let mut kafka = KafkaServer::start();
    kafka.ask("create events 2");
    let node = node(&feed(&kafka.url(), "events", ""), None);
    let clients = ["kept:0", "kept:1"].map(|channel| subscriber(node.clients(), channel));
    let producer = kafka.client();
    thread::scope(|scope| {
        // It waits for Kafka where that is away.
        scope.spawn(|| producer.ask("send events 0,1 1 20000 snappy kept:%"));
        hears(&clients[0], 1..=100);
        kafka.go_away();
        healthy(&node, "degraded: a feed cannot read its source");
        assert_eq!(node.metric("throng_feeds_waiting"), 1);
        kafka.come_back();
    });
    healthy(&node, "ok");
    kafka.ask("send events 0,1 20001 20010 none kept:%");
    hears(&clients[0], 101..=20010);
    hears(&clients[1], 1..=20010);
    done(&kafka, "events", 2);
    for client in &clients {
        assert_eq!(client.left("publication"), 0);
    }
    assert_eq!(said(&node, "cannot read its source"), 1);
    assert_eq!(said(&node, "reads its source again"), 1);
}

#[test]
fn a_broker_of_three_is_killed_and_the_others_are_read_on() {
    let mut brokers = KafkaServer::start_three();
    brokers[0].ask("create spread 6");
    let addresses = brokers.each_ref().map(|it| it.address().to_string());
    let url = format!("kafka://{}", addresses.join(","));
    let node = node(&feed(&url, "spread", ""), None);
    let whole = |to: u64| {
        let whole: Vec<u64> = (1..=to).collect();
        let channels = (0..6).map(|n| history(&node, &format!("kept:{n}")));
        channels.filter(|channel| *channel == whole).count()
    };
    brokers[0].ask("send spread 0,1,2,3,4,5 1 500 lz4 kept:%");
    until("all partitions", || (whole(500) == 6).then_some(()));
    brokers[2].go_away();
    let producer = brokers[0].client();
    thread::scope(|scope| {
        // It waits for the broker that is away.
        scope.spawn(|| producer.ask("send spread 0,1,2,3,4,5 501 900 lz4 kept:%"));
        until("the partitions of two", || (whole(900) == 4).then_some(()));
        brokers[2].come_back();
    });
    until("all partitions again", || (whole(900) == 6).then_some(()));
    done(&brokers[0], "spread", 6);
    healthy(&node, "ok");
}

#[test]
fn two_nodes_share_partitions_and_one_is_killed_in_the_midst() {
    let shared = shared();
    let kafka = &shared.kafka;
    let redis = RedisServer::start();
    kafka.ask("create shared 4");
    let options = feed(&kafka.url(), "shared", "");
    let [mut dies, lives] = [(); 2].map(|()| node(&options, Some(&redis)));
    let clients = [0, 1, 2, 3].map(|n| subscriber(lives.clients(), &format!("kept:{n}")));
    let all_hear = |from: u64, to: u64| {
        for client in &clients {
            hears(client, from..=to);
        }
    };
    until("partitions that are shared", || {
        (kafka.ask("members shared") == "2 2").then_some(())
    });
    kafka.ask("send shared 0,1,2,3 1 500 lz4 kept:%");
    all_hear(1, 500);
    until("all that is counted", || {
        (dies.metric(PUBLISHED) + lives.metric(PUBLISHED) == 2000).then_some(())
    });
    assert_eq!(dies.metric(PUBLISHED), 1000);
    let producer = kafka.client();
    thread::scope(|scope| {
        scope.spawn(|| producer.ask("send shared 0,1,2,3 501 5000 lz4 kept:%"));
        until("a node in the midst", || {
            (dies.metric(PUBLISHED) > 1000).then_some(())
        });
        dies.signal(Signal::KILL);
        let _ = dies.wait();
    });
    assert_ne!(kafka.ask("left shared"), "4 0", "it had not done all");
    all_hear(501, 5000);
    kafka.ask("send shared 0,1,2,3 5001 5010 zstd kept:%");
    all_hear(5001, 5010);
    done(kafka, "shared", 4);
    assert_eq!(kafka.ask("members shared"), "4");
    for client in &clients {
        assert_eq!(client.left("publication"), 0);
    }
}
