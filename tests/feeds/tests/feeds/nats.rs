//! Subjects of NATS JetStream.

use serde_json::{Value, json};
use throng_testkit::{Authority, NatsServer, PemFiles, Proxy, RedisServer, Server, Signal, until};

use crate::nodes::{PUBLISHED, healthy, hears, history, node, said, setup, subscriber};

/// The pair of keys that the documentation of NATS shows.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
/// Permissions that a user needs, as in docs/guides/feeds.md.
const PERMISSIONS: &str = "publish: [\"$JS.API.STREAM.INFO.EVENTS\", \
    \"$JS.API.CONSUMER.INFO.EVENTS.throng\", \"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.throng\", \
    \"$JS.API.CONSUMER.MSG.NEXT.EVENTS.throng\", \"$JS.ACK.EVENTS.throng.>\"], \
    subscribe: [\"_INBOX.throng.>\"]";
const CHANNEL: (&str, &str) = ("channel", "kept:a");

fn feed(nats: &NatsServer, more: &str) -> String {
    let url = nats.url();
    format!("kind = \"nats\"\nurl = \"{url}\"\nstream = \"EVENTS\"\nbatch = 50\n{more}\n")
}

/// Asks JetStream, which must not refuse.
#[track_caller]
fn api(nats: &NatsServer, verb: &str, body: &Value) -> Value {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let subject = format!("$JS.API.{verb}");
    let answer = nats.tell(&subject, &[], &[&body]).pop();
    let answer = answer.unwrap_or_else(|| panic!("{verb}: no answer"));
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert!(answer["error"].is_null(), "{verb}: {answer}");
    answer
}

/// The user's own stream.
#[track_caller]
fn stream(nats: &NatsServer, more: &Value) {
    let mut config = json!({ "name": "EVENTS", "subjects": ["events.>"], "storage": "file" });
    for (name, value) in more.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    api(nats, "STREAM.CREATE.EVENTS", &config);
}

/// Messages with numbers up to this, for one channel.
#[track_caller]
fn send(nats: &NatsServer, from: u64, to: u64) {
    let bodies: Vec<String> = (from..=to).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let stored = nats.tell("events.a", &[CHANNEL], &bodies);
    assert_eq!(stored.len(), bodies.len());
}

/// Waits until there is a consumer.
#[track_caller]
fn consumes(nats: &NatsServer) {
    until("a consumer", || {
        let info = nats.ask("$JS.API.CONSUMER.INFO.EVENTS.throng")?;
        info.contains("num_pending").then_some(())
    });
}

/// Waits until the consumer has given everything, and all is acknowledged.
#[track_caller]
fn done(nats: &NatsServer) {
    until("a consumer that has nothing left", || {
        let info = nats.ask("$JS.API.CONSUMER.INFO.EVENTS.throng")?;
        let info: Value = serde_json::from_str(&info).ok()?;
        (info["num_pending"] == 0 && info["num_ack_pending"] == 0).then_some(())
    });
}

#[test]
fn messages_become_publications() {
    let nats = NatsServer::start();
    let node = node(&feed(&nats, ""), None);
    // The stream is the user's own: the feed waits for it.
    healthy(&node, "degraded: a feed cannot read its source");
    stream(&nats, &Value::Null);
    send(&nats, 1, 120);
    healthy(&node, "ok");
    consumes(&nats);
    done(&nats);
    let client = subscriber(node.clients(), "kept:a");
    send(&nats, 121, 130);
    hears(&client, 121..=130);
    assert_eq!(history(&node, "kept:a"), (1..=130).collect::<Vec<_>>());
    // What can never be published is left out, and what is behind it is not. A key of a bucket
    // that is deleted is no event.
    let long = format!("\"{}\"", "x".repeat(1 << 20 >> 1));
    for (headers, body) in [
        (&[("channel", "nobody:knows")][..], "1"),
        (&[CHANNEL, ("tags", "[]")], "2"),
        (&[CHANNEL], &long),
        (&[CHANNEL, ("KV-Operation", "DEL")], ""),
    ] {
        assert_eq!(nats.tell("events.a", headers, &[body]).len(), 1);
    }
    let tags = ("tags", "{\"city\":\"Bern\"}");
    nats.tell("events.a", &[CHANNEL, tags], &["131"]);
    hears(&client, 131..=131);
    let newest = json!({ "channel": "kept:a", "limit": 1, "reverse": true });
    let newest = node.call("history", &newest)["result"]["publications"][0].clone();
    assert_eq!(newest["tags"], json!({ "city": "Bern" }), "{newest}");
    // Without the header the subject is the channel.
    let by_subject = subscriber(node.clients(), "events.b");
    nats.tell("events.b", &[], &["1"]);
    hears(&by_subject, 1..=1);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "an event of the feed is left out"), 3);
    assert_eq!(node.metric("throng_feed_refused_total"), 3);
    assert_eq!(node.metric(PUBLISHED), 132);
    until("a lag that is gone", || {
        (node.metric("throng_feed_lag{source=\"nats\"}") == 0).then_some(())
    });
    let info = api(&nats, "STREAM.INFO.EVENTS", &Value::Null);
    assert_eq!(
        info["state"]["messages"], 136,
        "messages stay in the stream"
    );
    healthy(&node, "ok");
}

#[test]
fn subjects_are_chosen_and_make_channels() {
    let nats = NatsServer::start();
    stream(&nats, &json!({ "retention": "workqueue" }));
    for (subject, body) in [
        ("events.42.paid", "1"),
        ("events.7.paid", "2"),
        ("events.42.sent", "3"),
    ] {
        nats.tell(subject, &[], &[body]);
    }
    let options = "subject = \"events.*.paid\"\nchannel = \"kept:{2}\"\ngroup = \"paid\"";
    let node = node(&feed(&nats, options), None);
    until("both", || (node.metric(PUBLISHED) == 2).then_some(()));
    assert_eq!(history(&node, "kept:42"), [1]);
    assert_eq!(history(&node, "kept:7"), [2]);
    // Of a work queue what is done is removed.
    until("a queue with what is left", || {
        let info = api(&nats, "STREAM.INFO.EVENTS", &Value::Null);
        (info["state"]["messages"] == 1).then_some(())
    });
    nats.tell("events.42.paid", &[], &["4"]);
    until("three", || (node.metric(PUBLISHED) == 3).then_some(()));
    assert_eq!(history(&node, "kept:42"), [1, 4]);
}

#[test]
fn nats_is_killed_in_the_midst() {
    let mut nats = NatsServer::durable();
    stream(&nats, &Value::Null);
    let node = node(&feed(&nats, ""), None);
    let client = subscriber(node.clients(), "kept:a");
    send(&nats, 1, 3000);
    hears(&client, 1..=100);
    nats.go_away();
    healthy(&node, "degraded: a feed cannot read its source");
    assert_eq!(node.metric("throng_feeds_waiting"), 1);
    nats.come_back();
    healthy(&node, "ok");
    hears(&client, 101..=3000);
    send(&nats, 3001, 3010);
    hears(&client, 3001..=3010);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "cannot read its source"), 1);
    assert_eq!(said(&node, "reads its source again"), 1);
}

/// Two nodes with the same feed, of which the first reads.
#[track_caller]
fn two_nodes(nats: &NatsServer, broker: &RedisServer) -> [Server; 2] {
    let first = node(&feed(nats, ""), Some(broker));
    until("a node that reads", || {
        let info = nats.ask("$JS.API.CONSUMER.INFO.EVENTS.throng")?;
        info.contains("\"num_waiting\":1").then_some(())
    });
    [first, node(&feed(nats, ""), Some(broker))]
}

#[test]
fn throng_is_killed_in_the_midst_and_another_node_goes_on() {
    let nats = NatsServer::start();
    let broker = RedisServer::start();
    stream(&nats, &Value::Null);
    let [mut dies, lives] = two_nodes(&nats, &broker);
    let client = subscriber(lives.clients(), "kept:a");
    send(&nats, 1, 5000);
    hears(&client, 1..=100);
    dies.signal(Signal::KILL);
    let _ = dies.wait();
    hears(&client, 101..=5000);
    send(&nats, 5001, 5010);
    hears(&client, 5001..=5010);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert!(lives.metric(PUBLISHED) > 0);
}

#[test]
fn a_node_that_slept_in_the_midst_gives_way() {
    let nats = NatsServer::start();
    let broker = RedisServer::start();
    stream(&nats, &Value::Null);
    let [sleeps, lives] = two_nodes(&nats, &broker);
    let client = subscriber(lives.clients(), "kept:a");
    send(&nats, 1, 5000);
    hears(&client, 1..=100);
    sleeps.signal(Signal::STOP);
    until("a node that takes over", || {
        (lives.metric(PUBLISHED) > 0).then_some(())
    });
    send(&nats, 5001, 8000);
    sleeps.signal(Signal::CONT);
    hears(&client, 101..=8000);
    send(&nats, 8001, 8010);
    hears(&client, 8001..=8010);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn a_node_that_ends_in_the_midst_gives_back_what_it_has() {
    let nats = NatsServer::start();
    let broker = RedisServer::start();
    stream(&nats, &Value::Null);
    // A consumer that the user has made. What is not given back would not come again in time.
    let config = json!({
        "durable_name": "throng", "ack_policy": "explicit", "ack_wait": 600_000_000_000_u64,
        "deliver_policy": "all", "max_ack_pending": 70,
    });
    let body = json!({ "stream_name": "EVENTS", "config": config });
    api(&nats, "CONSUMER.DURABLE.CREATE.EVENTS.throng", &body);
    let [ends, lives] = two_nodes(&nats, &broker);
    let client = subscriber(lives.clients(), "kept:a");
    send(&nats, 1, 5000);
    hears(&client, 1..=100);
    ends.stop();
    hears(&client, 101..=5000);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert!(lives.metric(PUBLISHED) > 0);
}

#[test]
fn throng_is_killed_alone_and_comes_back() {
    let nats = NatsServer::start();
    let broker = RedisServer::start();
    stream(&nats, &Value::Null);
    let mut dies = node(&feed(&nats, ""), Some(&broker));
    let proxy = Proxy::new(dies.clients());
    let client = subscriber(proxy.address(), "kept:a");
    send(&nats, 1, 3000);
    hears(&client, 1..=100);
    dies.signal(Signal::KILL);
    let _ = dies.wait();
    proxy.cut();
    let lives = node(&feed(&nats, ""), Some(&broker));
    proxy.lead_to(lives.clients());
    proxy.mend();
    hears(&client, 101..=3000);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn two_nodes_read_one_stream_in_order_and_one_follows_the_other() {
    let nats = NatsServer::start();
    let broker = RedisServer::start();
    stream(&nats, &Value::Null);
    let [first, second] = [(); 2].map(|()| node(&feed(&nats, ""), Some(&broker)));
    let client = subscriber(second.clients(), "kept:a");
    send(&nats, 1, 1000);
    hears(&client, 1..=1000);
    done(&nats);
    let (of_first, of_second) = (first.metric(PUBLISHED), second.metric(PUBLISHED));
    assert_eq!(of_first + of_second, 1000, "no message was taken twice");
    // A feed that ends gives back what it has; the one that goes on has the whole stream.
    first.stop();
    send(&nats, 1001, 2000);
    hears(&client, 1001..=2000);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(second.metric(PUBLISHED), of_second + 1000);
}

#[test]
fn the_broker_goes_away_and_messages_wait() {
    let nats = NatsServer::start();
    let mut redis = RedisServer::durable();
    stream(&nats, &Value::Null);
    let node = node(&feed(&nats, ""), Some(&redis));
    let client = subscriber(node.clients(), "kept:a");
    send(&nats, 1, 500);
    hears(&client, 1..=10);
    redis.go_away();
    healthy(&node, "degraded: the broker is unavailable");
    send(&nats, 501, 600);
    until("a feed that waits", || {
        (node.metric("throng_feeds_waiting") == 1).then_some(())
    });
    redis.come_back();
    healthy(&node, "ok");
    hears(&client, 11..=600);
    done(&nats);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "the broker takes nothing from the feed"), 1);
}

#[test]
fn a_consumer_that_is_deleted_goes_on_and_a_new_stream_begins_anew() {
    let nats = NatsServer::start();
    stream(&nats, &Value::Null);
    let node = node(&feed(&nats, "begin = \"newest\""), None);
    consumes(&nats);
    let client = subscriber(node.clients(), "kept:a");
    send(&nats, 1, 3000);
    hears(&client, 1..=100);
    api(&nats, "CONSUMER.DELETE.EVENTS.throng", &Value::Null);
    send(&nats, 3001, 3100);
    hears(&client, 101..=3100);
    done(&nats);
    let published = node.metric(PUBLISHED);
    assert!(
        (3100..=3150).contains(&published),
        "{published}: no more than a batch again"
    );
    // The same numbers of another stream are other messages.
    api(&nats, "STREAM.DELETE.EVENTS", &Value::Null);
    healthy(&node, "degraded: a feed cannot read its source");
    stream(&nats, &Value::Null);
    healthy(&node, "ok");
    consumes(&nats);
    send(&nats, 3101, 3110);
    hears(&client, 3101..=3110);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn what_others_had_and_what_was_deleted_since_stops_nobody() {
    let nats = NatsServer::start();
    stream(&nats, &json!({ "max_msgs_per_subject": 10 }));
    send(&nats, 1, 10);
    let config = json!({
        "durable_name": "throng", "ack_policy": "explicit", "ack_wait": 2_000_000_000_u64,
        "deliver_policy": "all",
    });
    let body = json!({ "stream_name": "EVENTS", "config": config });
    api(&nats, "CONSUMER.DURABLE.CREATE.EVENTS.throng", &body);
    // A consumer takes five messages and is never seen again; two of them are deleted.
    let next = "$JS.API.CONSUMER.MSG.NEXT.EVENTS.throng";
    assert_eq!(nats.tell(next, &[], &["1", "1", "1", "1", "1"]).len(), 5);
    for number in [2, 4] {
        api(&nats, "STREAM.MSG.DELETE.EVENTS", &json!({ "seq": number }));
    }
    let node = node(&feed(&nats, ""), None);
    until("all that is left", || {
        (node.metric(PUBLISHED) == 8).then_some(())
    });
    assert_eq!(history(&node, "kept:a"), [1, 3, 5, 6, 7, 8, 9, 10]);
    let client = subscriber(node.clients(), "kept:a");
    send(&nats, 11, 20);
    hears(&client, 11..=20);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn one_of_three_servers_dies_and_then_another() {
    let mut servers = NatsServer::cluster(None);
    until("a cluster with a leader", || {
        let info = servers[0].ask("$JS.API.INFO")?;
        (!info.contains("\"error\"")).then_some(())
    });
    until("a stream on three servers", || {
        let config = json!({ "name": "EVENTS", "subjects": ["events.>"], "num_replicas": 3 });
        let made = servers[0].tell("$JS.API.STREAM.CREATE.EVENTS", &[], &[&config.to_string()]);
        made.first()?.contains("\"config\"").then_some(())
    });
    let urls = servers.each_ref().map(NatsServer::url).join(",");
    let options = feed(&servers[0], "").replace(&servers[0].url(), &urls);
    let node = node(&options, None);
    let client = subscriber(node.clients(), "kept:a");
    send(&servers[2], 1, 3000);
    hears(&client, 1..=100);
    // The one that the feed is connected to.
    servers[0].go_away();
    hears(&client, 101..=3000);
    until("a stream that takes more", || {
        let stored = servers[2].tell("events.a", &[CHANNEL], &["3001"]);
        stored.first()?.contains("\"seq\"").then_some(())
    });
    hears(&client, 3001..=3001);
    servers[0].come_back();
    until("three servers again", || {
        let info = servers[2].ask("$JS.API.STREAM.INFO.EVENTS")?;
        (info.matches("\"current\":true").count() == 2).then_some(())
    });
    send(&servers[2], 3002, 6000);
    hears(&client, 3002..=3100);
    servers[1].go_away();
    hears(&client, 3101..=6000);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn users_read_with_no_more_permissions_than_they_need() {
    let files = PemFiles::new();
    let authority = Authority::new("of a company");
    let believed = files.write("ca.pem", authority.pem());
    let [certificate, key] = files.write_issued("server", &authority.issue(&["127.0.0.1"]));
    let may = format!("permissions: {{ {PERMISSIONS} }}");
    // An anonymous client may do everything, without TLS: that is the test.
    let config = format!(
        "authorization {{ users: [ {{ user: anybody, password: x }}, \
         {{ user: throng, password: \"s3cret\", {may} }}, {{ nkey: {PUBLIC}, {may} }} ] }}\n\
         no_auth_user: anybody\nallow_non_tls: true\n\
         tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n"
    );
    let config = files.write("nats.conf", &config);
    let nats = NatsServer::with(&["--config", &config]);
    stream(&nats, &Value::Null);
    let url = |who: &str| format!("tls://{who}{}", nats.address());
    let start = |who: &str, more: &str, is_believed: bool| {
        let options = feed(&nats, more).replace(&nats.url(), &url(who));
        let setup = setup(&options, None);
        match is_believed {
            true => setup.variable("SSL_CERT_FILE", &believed).start(),
            false => setup.start(),
        }
    };
    for (who, is_believed) in [("throng:s3cret@", false), ("throng:s3cret2@", true)] {
        let stranger = start(who, "", is_believed);
        healthy(&stranger, "degraded: a feed cannot read its source");
        let log = stranger.log();
        let mut lines = log.iter().map(ToString::to_string);
        assert!(lines.all(|line| !line.contains("s3cret")));
    }
    let seed = files.write("seed", SEED);
    let by_key = format!("credentials = \"{seed}\"");
    for (n, (who, more)) in (0..).zip([("throng:s3cret@", ""), ("", by_key.as_str())]) {
        let (from, to) = (10 * n + 1, 10 * n + 10);
        send(&nats, from, to);
        let node = start(who, more, true);
        until("all of them", || {
            (history(&node, "kept:a") == (from..=to).collect::<Vec<_>>()).then_some(())
        });
        done(&nats);
        node.stop();
    }
}

#[test]
fn a_message_that_is_longer_than_what_is_asked_for_stops_nobody() {
    let files = PemFiles::new();
    let config = files.write("nats.conf", "max_payload: 8MB\n");
    let nats = NatsServer::with(&["--config", &config]);
    stream(&nats, &Value::Null);
    let long = "x".repeat(5 << 20);
    for (from, to) in [(1, 10), (11, 20), (21, 30)] {
        send(&nats, from, to);
        assert_eq!(nats.tell("events.a", &[CHANNEL], &[&long]).len(), 1);
    }
    let node = node(&feed(&nats, ""), None);
    done(&nats);
    assert_eq!(history(&node, "kept:a"), (1..=30).collect::<Vec<_>>());
    assert_eq!(node.metric("throng_feed_refused_total"), 3);
    healthy(&node, "ok");
}
