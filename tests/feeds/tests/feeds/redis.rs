//! A stream of Redis.

use serde_json::json;
use throng_testkit::{Proxy, RedisServer, Signal, until};

use crate::nodes::{PUBLISHED, healthy, hears, node, said, setup, subscriber};

fn feed(redis: &RedisServer) -> String {
    let url = redis.url();
    format!("kind = \"redis\"\nurl = \"{url}\"\nstream = \"events\"\nbatch = 50\n")
}

/// Entries with numbers up to this, at once.
fn add(redis: &RedisServer, channel: &str, from: u64, to: u64) {
    let entry = format!("redis.call('XADD','events','*','channel','{channel}','data',n)");
    let script = format!("for n={from},{to} do {entry} end return 'OK'");
    assert_eq!(redis.ask(&format!("EVAL \"{script}\" 0")), "OK");
}

/// Waits until the group has read and acknowledged so many entries.
#[track_caller]
fn done(redis: &RedisServer, count: u64) {
    let group = "local g = redis.call('XINFO','GROUPS','events')[1] \
                 return g and g[12] .. ' ' .. g[6] or 'none'";
    until("a group that has read all", || {
        (redis.ask(&format!("EVAL \"{group}\" 0")) == "0 0").then_some(())
    });
    let read = "return redis.call('XINFO','GROUPS','events')[1][10]";
    assert_eq!(redis.ask(&format!("EVAL \"{read}\" 0")), count.to_string());
}

#[test]
fn entries_become_publications() {
    let redis = RedisServer::start();
    add(&redis, "kept:a", 1, 120);
    let node = node(&feed(&redis), None);
    done(&redis, 120);
    let client = subscriber(node.clients(), "kept:a");
    add(&redis, "kept:a", 121, 130);
    hears(&client, 121..=130);
    let page = node.call("history", &json!({ "channel": "kept:a", "limit": 200 }));
    let page = page["result"]["publications"].as_array().expect("a page");
    let numbers: Vec<u64> = page.iter().filter_map(|it| it["data"].as_u64()).collect();
    assert_eq!(numbers, (1..=130).collect::<Vec<_>>());
    // What can never be published is left out, and what is behind it is not.
    for wrong in ["channel nobody:knows data 1", "data 2", "channel kept:a"] {
        redis.ask(&format!("XADD events * {wrong}"));
    }
    redis.ask("XADD events * channel kept:a data 131 tags '{\"city\":\"Bern\"}'");
    client.event("publication", &json!({ "data": 131 }));
    let newest = json!({ "channel": "kept:a", "limit": 1, "reverse": true });
    let newest = node.call("history", &newest)["result"]["publications"][0].clone();
    assert_eq!(newest["tags"], json!({ "city": "Bern" }), "{newest}");
    done(&redis, 134);
    assert_eq!(said(&node, "an event of the feed is left out"), 3);
    assert_eq!(node.metric("throng_feed_refused_total"), 3);
    assert_eq!(
        redis.ask("XLEN events"),
        "134",
        "entries stay in the stream"
    );
    healthy(&node, "ok");
}

/// Entries of 72 MB, and one of 70 MB: more than an answer may keep. What is too long to be
/// published is left out, and what is behind it is not.
#[test]
fn more_than_one_answer_keeps_is_read_one_after_the_other() {
    let redis = RedisServer::start();
    let long = "for n=1,13 do redis.call('XADD','events','*','channel','kept:a','data',\
                string.rep('x', n < 13 and 6000000 or 70000000)) end return 'OK'";
    assert_eq!(redis.ask(&format!("EVAL \"{long}\" 0")), "OK");
    add(&redis, "kept:a", 1, 3);
    let node = node(&feed(&redis), None);
    done(&redis, 16);
    let client = subscriber(node.clients(), "kept:a");
    add(&redis, "kept:a", 4, 4);
    hears(&client, 4..=4);
    assert_eq!(node.metric("throng_feed_refused_total"), 13);
    assert_eq!(node.metric(PUBLISHED), 4);
    healthy(&node, "ok");
}

/// An entry that the group has acknowledged does not come again: by then the disk has it.
#[test]
fn what_is_acknowledged_outlives_a_kill() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    let on_disk = format!("[history]\npath = \"{}\"\n", folder.path().display());
    let with_feed = setup(&format!("{}\n{on_disk}", feed(&redis)), None);
    let channel = "kept:a";
    for round in 1..=3_u64 {
        let mut dies = with_feed.start();
        add(&redis, channel, round * 3 - 2, round * 3);
        done(&redis, round * 3);
        dies.signal(Signal::KILL);
        dies.wait();
        // Nothing comes from the source to a node whose channel has it.
        let next = with_feed.start();
        let page = next.call("history", &json!({ "channel": channel, "limit": 200 }));
        let page = page["result"]["publications"].as_array().expect("a page");
        let numbers: Vec<u64> = page.iter().filter_map(|it| it["data"].as_u64()).collect();
        assert_eq!(numbers, (1..=round * 3).collect::<Vec<_>>());
        next.stop();
    }
}

#[test]
fn redis_is_killed_in_the_midst() {
    let mut redis = RedisServer::durable();
    let node = node(&feed(&redis), None);
    let client = subscriber(node.clients(), "kept:a");
    add(&redis, "kept:a", 1, 3000);
    hears(&client, 1..=100);
    redis.go_away();
    healthy(&node, "degraded: a feed cannot read its source");
    redis.come_back();
    healthy(&node, "ok");
    hears(&client, 101..=3000);
    add(&redis, "kept:a", 3001, 3010);
    hears(&client, 3001..=3010);
    done(&redis, 3010);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "cannot read its source"), 1);
    assert_eq!(said(&node, "reads its source again"), 1);
}

#[test]
fn throng_is_killed_in_the_midst() {
    let redis = RedisServer::start();
    let broker = RedisServer::start();
    let mut dies = node(&feed(&redis), Some(&broker));
    let proxy = Proxy::new(dies.clients());
    let client = subscriber(proxy.address(), "kept:a");
    add(&redis, "kept:a", 1, 3000);
    hears(&client, 1..=100);
    dies.signal(Signal::KILL);
    let _ = dies.wait();
    proxy.cut();
    let lives = node(&feed(&redis), Some(&broker));
    proxy.lead_to(lives.clients());
    proxy.mend();
    hears(&client, 101..=3000);
    add(&redis, "kept:a", 3001, 3010);
    hears(&client, 3001..=3010);
    done(&redis, 3010);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn two_nodes_read_one_stream_in_order_and_one_follows_the_other() {
    let redis = RedisServer::start();
    let broker = RedisServer::start();
    let [first, second] = [(); 2].map(|()| node(&feed(&redis), Some(&broker)));
    let client = subscriber(second.clients(), "kept:a");
    add(&redis, "kept:a", 1, 1000);
    hears(&client, 1..=1000);
    done(&redis, 1000);
    let (of_first, of_second) = (first.metric(PUBLISHED), second.metric(PUBLISHED));
    assert_eq!(of_first + of_second, 1000, "no entry was taken twice");
    // A feed that ends gives its lease back; the one that goes on has the whole stream.
    first.stop();
    add(&redis, "kept:a", 1001, 2000);
    hears(&client, 1001..=2000);
    done(&redis, 2000);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(second.metric(PUBLISHED), of_second + 1000);
}
