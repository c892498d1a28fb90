//! Brokers, nodes and clients of the stories that are no text.

use std::net::SocketAddr;

use serde_json::{Value, json};
use throng_testkit::{NatsServer, RedisServer, Sdk, Server, Setup, until};

/// Time that a node waits for an answer of its broker.
pub(crate) const TIMEOUT: &str = "1s";

/// Timeout of tests in which a busy machine is no fault of the broker's.
pub(crate) const PATIENT: &str = "30s";

/// A broker of a test's own.
pub(crate) enum Broker {
    Redis(RedisServer),
    Nats(NatsServer),
}

impl Broker {
    #[track_caller]
    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    #[track_caller]
    pub(crate) fn nats() -> Self {
        Self::Nats(NatsServer::start())
    }

    /// By its name in the log.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "Redis",
            Self::Nats(_) => "NATS",
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        match self {
            Self::Redis(redis) => redis.address(),
            Self::Nats(nats) => nats.address(),
        }
    }

    /// A node on it, which finds it at this address.
    #[track_caller]
    pub(crate) fn node(&self, address: SocketAddr, timeout: &str) -> Server {
        node(&self.lines(address), timeout)
    }

    /// Lines of the section of a broker at this address.
    pub(crate) fn lines(&self, address: SocketAddr) -> String {
        match self {
            Self::Redis(_) => format!("kind = \"redis\"\nurl = \"redis://{address}/0\""),
            Self::Nats(_) => format!("kind = \"nats\"\nurl = \"nats://{address}\""),
        }
    }
}

/// A node with these lines in the section of its broker, which it has.
#[track_caller]
pub(crate) fn node(broker: &str, timeout: &str) -> Server {
    let config = format!(
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
"#
    );
    let node = Setup::new(&config).shards(2).start();
    has_its_broker(&node);
    node.counts("throng_broker_up", 1);
    node
}

/// Waits until a node has its broker.
#[track_caller]
pub(crate) fn has_its_broker(node: &Server) {
    until("a node that has its broker", || {
        let health = node.ask("GET", "/healthz", "");
        health.status == 200 && health.body.trim() == "ok"
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
    // What comes of it from here on is not of its beginning.
    client.forget("subscribing");
    client
}
