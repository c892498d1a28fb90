//! Nodes with a feed, and the counter that knows what each client must have received.

use std::net::SocketAddr;

use serde_json::json;
use throng_testkit::{RedisServer, Sdk, Server, Setup, until};

/// Metric of a node for publications of its feeds.
pub(crate) const PUBLISHED: &str = "throng_publications_total{source=\"feed\"}";

/// A node with one feed; with a broker that outlives it, if there is one.
#[track_caller]
pub(crate) fn node(feed: &str, broker: Option<&RedisServer>) -> Server {
    setup(feed, broker).start()
}

/// Setup of a node with this feed, and with a Redis broker if there is one.
pub(crate) fn setup(feed: &str, broker: Option<&RedisServer>) -> Setup {
    let broker = broker.map_or_else(String::new, |broker| {
        let url = broker.url();
        format!("[broker]\nkind = \"redis\"\nurl = \"{url}\"\ntimeout = \"1s\"\n")
    });
    let config = format!(
        r#"
{broker}

[[namespace]]
name = "kept"
history_size = 10000
history_ttl = "5m"
recovery = true

[[feed]]
name = "orders"
{feed}
"#
    );
    Setup::new(&config).shards(2)
}

/// Waits until a node reports this health.
#[track_caller]
pub(crate) fn healthy(node: &Server, expected: &str) {
    until(expected, || {
        let health = node.ask("GET", "/healthz", "");
        (health.status == 200 && health.body.trim() == expected).then_some(())
    });
}

/// An SDK that subscribes to a channel there.
#[track_caller]
pub(crate) fn subscriber(address: SocketAddr, channel: &str) -> Sdk {
    let mut client = Sdk::javascript();
    client.connect(&json!({ "url": format!("ws://{address}/connection/websocket") }));
    client.subscribe(channel);
    client
}

/// Checks that a client receives these numbers next, in order, each once.
#[track_caller]
pub(crate) fn hears(client: &Sdk, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let heard = client.event("publication", &json!({}));
        assert_eq!(heard["data"], json!(number), "{heard}");
    }
}

/// Number of log lines that contain this text.
pub(crate) fn said(node: &Server, words: &str) -> usize {
    let has = |line: &serde_json::Value| {
        line["message"]
            .as_str()
            .is_some_and(|message| message.contains(words))
    };
    node.log().iter().filter(|line| has(line)).count()
}

/// The numbers in a channel's history.
#[track_caller]
pub(crate) fn history(node: &Server, channel: &str) -> Vec<u64> {
    let page = node.call("history", &json!({ "channel": channel, "limit": 1000 }));
    let page = page["result"]["publications"].as_array().expect("a page");
    page.iter().filter_map(|it| it["data"].as_u64()).collect()
}
