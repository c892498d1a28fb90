//! An outbox in PostgreSQL.

use serde_json::json;
use throng_testkit::{Authority, PemFiles, PostgresServer, Proxy, RedisServer, Signal, until};

use crate::nodes::{PUBLISHED, healthy, hears, node, said, setup, subscriber};

pub(crate) const OUTBOX: &str = "CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel text NOT NULL,
    data jsonb NOT NULL,
    tags jsonb)";

pub(crate) fn feed(postgres: &PostgresServer, more: &str) -> String {
    let url = postgres.url();
    format!("kind = \"postgres\"\nurl = \"{url}\"\npoll = \"200ms\"\nbatch = 50\n{more}\n")
}

/// Rows with numbers up to this, in one transaction.
pub(crate) fn insert(postgres: &PostgresServer, channel: &str, from: u64, to: u64) {
    postgres.sql(&format!(
        "INSERT INTO outbox (channel, data) \
         SELECT '{channel}', to_jsonb(n) FROM generate_series({from}, {to}) AS n"
    ));
}

#[track_caller]
pub(crate) fn empty(postgres: &PostgresServer) {
    until("an empty table", || {
        (postgres.sql("SELECT count(*) FROM outbox").trim() == "0").then_some(())
    });
}

#[test]
fn rows_become_publications_and_go() {
    let postgres = PostgresServer::start();
    postgres.sql(OUTBOX);
    postgres.sql(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN NOTIFY outbox; RETURN NULL; END $$",
    );
    postgres.sql(
        "CREATE TRIGGER tell AFTER INSERT ON outbox \
         FOR EACH STATEMENT EXECUTE FUNCTION tell()",
    );
    insert(&postgres, "kept:a", 1, 10);
    // Rows are looked for once a minute, so the others come because of notifications.
    let options = feed(&postgres, "notify = \"outbox\"").replace("200ms", "1m");
    let node = node(&options, None);
    empty(&postgres);
    let client = subscriber(node.clients(), "kept:a");
    for (from, to) in [(11, 20), (21, 30)] {
        insert(&postgres, "kept:a", from, to);
        hears(&client, from..=to);
        empty(&postgres);
    }
    let page = node.call("history", &json!({ "channel": "kept:a", "limit": 100 }));
    let page = page["result"]["publications"].as_array().expect("a page");
    assert_eq!(page.len(), 30, "the first ten are there, too");
    // What can never be published is left out, and what is behind it is not.
    postgres.sql(
        "INSERT INTO outbox (channel, data, tags) VALUES \
         ('nobody:knows', '1', NULL), ('', '2', NULL), ('kept:a', '3', '{\"a\": 1}'), \
         ('kept:a', '31', '{\"city\": \"Bern\"}')",
    );
    client.event("publication", &json!({ "data": 31 }));
    let newest = json!({ "channel": "kept:a", "limit": 1, "reverse": true });
    let newest = node.call("history", &newest)["result"]["publications"][0].clone();
    assert_eq!(newest["tags"], json!({ "city": "Bern" }), "{newest}");
    empty(&postgres);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "an event of the feed is left out"), 3);
    assert_eq!(node.metric("throng_feed_refused_total"), 3);
    assert_eq!(node.metric(PUBLISHED), 31);
    assert_eq!(node.metric("throng_feeds_waiting"), 0);
    healthy(&node, "ok");
}

#[test]
fn rows_come_by_tls_from_a_server_that_is_believed() {
    let authority = Authority::new("of a company");
    let files = PemFiles::new();
    let believed = files.write("ca.pem", authority.pem());
    let postgres = PostgresServer::start_secure(&authority.issue(&["127.0.0.1"]));
    postgres.sql(OUTBOX);
    insert(&postgres, "kept:a", 1, 10);
    let with = |mode: &str| {
        let url = postgres.url();
        feed(&postgres, "").replace(&url, &format!("{url}?sslmode={mode}"))
    };
    let stranger = node(&with("verify-full"), None);
    healthy(&stranger, "degraded: a feed cannot read its source");
    assert_eq!(postgres.sql("SELECT count(*) FROM outbox").trim(), "10");
    assert_eq!(said(&stranger, "cannot read its source"), 1);
    drop(stranger);
    // `require` asks for no proof, as in libpq.
    for (mode, from, to) in [("verify-full", 1, 10), ("require", 11, 20)] {
        let node = { setup(&with(mode), None).variable("SSL_CERT_FILE", &believed) }.start();
        let client = subscriber(node.clients(), "kept:b");
        empty(&postgres);
        let page = node.call("history", &json!({ "channel": "kept:a", "limit": 100 }));
        let page = page["result"]["publications"].as_array().expect("a page");
        let numbers: Vec<u64> = page.iter().filter_map(|it| it["data"].as_u64()).collect();
        assert_eq!(numbers, (from..=to).collect::<Vec<_>>(), "{mode}");
        let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE ssl AND application_name = 'throng'";
        assert_eq!(postgres.sql(encrypted).trim(), "1", "{mode}");
        insert(&postgres, "kept:b", from, to);
        hears(&client, from..=to);
        drop(node);
        insert(&postgres, "kept:a", to + 1, to + 10);
    }
}

#[test]
fn postgres_is_killed_in_the_midst() {
    let mut postgres = PostgresServer::start();
    postgres.sql(OUTBOX);
    let node = node(&feed(&postgres, ""), None);
    let client = subscriber(node.clients(), "kept:a");
    insert(&postgres, "kept:a", 1, 3000);
    hears(&client, 1..=100);
    postgres.go_away();
    healthy(&node, "degraded: a feed cannot read its source");
    assert_eq!(node.metric("throng_feeds_waiting"), 1);
    postgres.come_back();
    healthy(&node, "ok");
    hears(&client, 101..=3000);
    empty(&postgres);
    insert(&postgres, "kept:a", 3001, 3010);
    hears(&client, 3001..=3010);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "cannot read its source"), 1);
    assert_eq!(said(&node, "reads its source again"), 1);
}

#[test]
fn throng_is_killed_in_the_midst() {
    let postgres = PostgresServer::start();
    let redis = RedisServer::start();
    postgres.sql(OUTBOX);
    let options = feed(&postgres, "");
    let mut dies = node(&options, Some(&redis));
    let proxy = Proxy::new(dies.clients());
    let client = subscriber(proxy.address(), "kept:a");
    insert(&postgres, "kept:a", 1, 3000);
    hears(&client, 1..=100);
    dies.signal(Signal::KILL);
    let _ = dies.wait();
    proxy.cut();
    let lives = node(&options, Some(&redis));
    proxy.lead_to(lives.clients());
    proxy.mend();
    hears(&client, 101..=3000);
    empty(&postgres);
    insert(&postgres, "kept:a", 3001, 3010);
    hears(&client, 3001..=3010);
    assert_eq!(client.left("publication"), 0);
}

#[test]
fn the_broker_goes_away_and_rows_wait() {
    let postgres = PostgresServer::start();
    let mut redis = RedisServer::durable();
    postgres.sql(OUTBOX);
    let node = node(&feed(&postgres, ""), Some(&redis));
    let client = subscriber(node.clients(), "kept:a");
    insert(&postgres, "kept:a", 1, 500);
    hears(&client, 1..=10);
    redis.go_away();
    healthy(&node, "degraded: the broker is unavailable");
    insert(&postgres, "kept:a", 501, 600);
    until("a feed that waits", || {
        (node.metric("throng_feeds_waiting") == 1).then_some(())
    });
    redis.come_back();
    healthy(&node, "ok");
    hears(&client, 11..=600);
    empty(&postgres);
    assert_eq!(client.left("publication"), 0);
    assert_eq!(said(&node, "the broker takes nothing from the feed"), 1);
}

#[test]
fn two_nodes_read_one_table_in_order() {
    let postgres = PostgresServer::start();
    let redis = RedisServer::start();
    postgres.sql(OUTBOX);
    let options = feed(&postgres, "");
    let nodes = [(); 2].map(|()| node(&options, Some(&redis)));
    let clients = nodes
        .each_ref()
        .map(|node| subscriber(node.clients(), "kept:a"));
    insert(&postgres, "kept:a", 1, 1000);
    insert(&postgres, "kept:a", 1001, 2000);
    for client in &clients {
        hears(client, 1..=2000);
    }
    empty(&postgres);
    for client in &clients {
        assert_eq!(client.left("publication"), 0);
    }
    let published: u64 = nodes.iter().map(|node| node.metric(PUBLISHED)).sum();
    assert_eq!(published, 2000, "no row was taken twice");
}
