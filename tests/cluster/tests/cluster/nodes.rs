//! Nodes, clients, and the counter that knows what each client must have received.

use std::net::SocketAddr;

use serde_json::{Value, json};
use throng_testkit::{Proxy, Sdk, Server, Setup, Wire, post, script, until};

use crate::broker::Kind;

/// Broker timeout in the configuration of these tests.
pub(crate) const TIMEOUT: &str = "1s";

/// Broker timeout for tests in which a busy machine is no fault of the broker's.
pub(crate) const PATIENT: &str = "30s";

/// A node on the broker at this address.
#[track_caller]
pub(crate) fn node(kind: Kind, broker: SocketAddr) -> Server {
    let node = node_of(&lines(kind, broker));
    up(&node, true);
    node
}

/// A node that gives its broker thirty seconds for an answer, where a busy machine is no fault of
/// the broker's.
#[track_caller]
pub(crate) fn patient_node(kind: Kind, broker: SocketAddr) -> Server {
    let node = setup_with(&lines(kind, broker), PATIENT).start();
    up(&node, true);
    node
}

/// Returns the configuration lines for the broker at this address.
pub(crate) fn lines(kind: Kind, broker: SocketAddr) -> String {
    match kind {
        Kind::Redis => format!("kind = \"redis\"\nurl = \"redis://{broker}/0\""),
        Kind::Nats => format!("kind = \"nats\"\nurl = \"nats://{broker}\""),
    }
}

/// A node that may not have its broker yet, with these options of it.
#[track_caller]
pub(crate) fn node_of(broker: &str) -> Server {
    setup(broker).start()
}

/// Returns the setup of a node with [`TIMEOUT`].
pub(crate) fn setup(broker: &str) -> Setup {
    setup_with(broker, TIMEOUT)
}

fn setup_with(broker: &str, timeout: &str) -> Setup {
    Setup::new(&config(broker, timeout)).shards(2)
}

/// The configuration of a node.
pub(crate) fn config(broker: &str, timeout: &str) -> String {
    format!(
        r#"
[broker]
{broker}
timeout = "{timeout}"

[[namespace]]
name = "kept"
history_size = 1000
history_ttl = "5m"
recovery = true

[[namespace]]
name = "crowd"
presence = true

[[namespace]]
name = "room"
presence = true
join_leave = true
force_push_join_leave = true
"#
    )
}

/// Waits until a node knows that its broker is there, or is not.
#[track_caller]
pub(crate) fn up(node: &Server, is_up: bool) {
    let expected = if is_up {
        "ok"
    } else {
        "degraded: the broker is unavailable"
    };
    health(node, expected);
    assert_eq!(node.metric("throng_broker_up"), u64::from(is_up));
}

/// Waits until a node reports this state of its broker.
#[track_caller]
pub(crate) fn health(node: &Server, expected: &str) {
    until("this state of the broker", || {
        let health = node.ask("GET", "/healthz", "");
        health.status == 200 && health.body.trim() == expected
    });
}

/// Number of clients in a channel, as a node counts them.
pub(crate) fn members(node: &Server, channel: &str) -> u64 {
    let answer = node.call("presence_stats", &json!({ "channel": channel }));
    answer["result"]["num_clients"].as_u64().unwrap_or_default()
}

/// Where an SDK connects.
pub(crate) fn url(address: SocketAddr) -> Value {
    json!({ "url": format!("ws://{address}/connection/websocket") })
}

/// An SDK that subscribes to a channel there.
#[track_caller]
pub(crate) fn subscriber(address: SocketAddr, channel: &str) -> Sdk {
    let mut client = Sdk::javascript();
    client.connect(&url(address));
    client.subscribe(channel);
    // What comes of these from here on is not of its beginning.
    client.forget("connecting");
    client.forget("subscribing");
    client
}

/// An `EventSource` that follows a channel there.
#[track_caller]
pub(crate) fn event_source(address: SocketAddr, channel: &str) -> Sdk {
    let source = script("events.mjs", &[&stream(address, channel)]);
    source.event("subscribed", &json!({}));
    source
}

pub(crate) fn stream(address: SocketAddr, channel: &str) -> String {
    format!("http://{address}/sse?channel={channel}")
}

/// Publications with numbers, and what became of each.
pub(crate) struct Publisher {
    channel: String,
    published: u64,
}

impl Publisher {
    pub(crate) fn new(channel: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            published: 0,
        }
    }

    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    pub(crate) const fn published(&self) -> u64 {
        self.published
    }

    fn call(&self, node: &Server, number: u64) -> Value {
        let body = json!({
            "channel": self.channel,
            "data": number,
            "idempotency_key": format!("{} {number}", self.channel),
        });
        node.call("publish", &body)
    }

    /// Publishes the next number once; gives the error if there is one, and then it is the next
    /// number still.
    pub(crate) fn try_one(&mut self, node: &Server) -> Result<(), String> {
        let answer = self.call(node, self.published + 1);
        if let Some(message) = answer["error"]["message"].as_str() {
            return Err(message.to_owned());
        }
        self.published += 1;
        Ok(())
    }

    /// Publishes the next numbers at once on a connection to a node's API.
    #[track_caller]
    pub(crate) fn publish_by(&mut self, wire: &mut Wire, count: u64) {
        let target = format!("/pub?channel={}", self.channel);
        let request = |number: u64| post(&target, &number.to_string());
        let requests = self.published + 1..=self.published + count;
        wire.send(&requests.map(request).collect::<String>());
        for _ in 0..count {
            let response = wire.response("POST");
            assert_eq!(response.status, 200, "{response:?}");
            self.published += 1;
        }
    }

    /// Publishes once more what was published last.
    #[track_caller]
    pub(crate) fn repeat_last(&self, node: &Server) {
        let answer = self.call(node, self.published);
        assert!(answer["error"].is_null(), "{answer}");
    }

    /// Publishes the next numbers by these nodes in turn, each until it is taken.
    #[track_caller]
    pub(crate) fn publish(&mut self, nodes: &[&Server], count: u64) {
        for n in 0..count {
            let node = nodes[n as usize % nodes.len()];
            until("a publication that is taken", || self.try_one(node).ok());
        }
    }

    /// Checks that a client has received each number since `after`, in order, once. Its next
    /// publication would come behind them.
    #[track_caller]
    pub(crate) fn heard_by(&self, client: &Sdk, after: u64) {
        for number in after + 1..=self.published {
            let heard = client.event("publication", &json!({}));
            assert_eq!(heard["data"], json!(number), "{heard}");
        }
        assert_eq!(client.left("publication"), 0);
    }
}

/// Lets the broker lose the last three of ten publications. The client that had heard them is told,
/// and the one behind the network, which had heard five, gets the others. New ones reach both.
#[track_caller]
pub(crate) fn after_losing_three(
    publisher: &mut Publisher,
    nodes: &[&Server],
    proxy: &Proxy,
    [ahead, behind]: [&Sdk; 2],
) {
    let back = ahead.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], false, "{back}");
    assert_eq!(back["offset"], 7, "{back}");
    proxy.mend();
    let back = behind.event("subscribed", &json!({ "was_recovering": true }));
    assert_eq!(back["recovered"], true, "{back}");
    publisher.publish(nodes, 4);
    publisher.heard_by(ahead, 10);
    // The sixth and the seventh, and what comes now; the others no longer exist.
    for number in [6, 7, 11, 12, 13, 14] {
        let heard = behind.event("publication", &json!({}));
        assert_eq!(heard["data"], json!(number), "{heard}");
    }
    assert_eq!(behind.left("publication"), 0);
}
