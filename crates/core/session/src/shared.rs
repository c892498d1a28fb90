//! What the sessions of a shard share: limits, keys, counters, documents.

use std::cell::Cell;
use std::sync::Arc;

use throng_auth::{ApiKeys, Verifier};
use throng_broker::Namespaces;
use throng_metrics::Counters;
use throng_types::Millis;

use crate::{DateCell, Forwarded, Guards, Meter, NodeKey, Notices};

/// Bounds and intervals. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Bytes of an HTTP request's head.
    pub head_bytes_max: usize,
    /// Bytes of a message from a client.
    pub message_bytes_max: usize,
    /// Bytes of a request to the server API.
    pub publish_bytes_max: usize,
    /// Channels that one connection may have.
    pub channels_max: usize,
    /// How long a request's head may take, and its body beyond what `body_bytes_per_s_min` allows.
    pub head_timeout_ms: u64,
    /// How fast a body has to come, in bytes of data a second on the average.
    pub body_bytes_per_s_min: u64,
    /// How long an HTTP connection may be idle between requests.
    pub keepalive_timeout_ms: u64,
    /// Between two pings; zero sends none.
    pub ping_interval_ms: u64,
    /// How long a client may take to answer one.
    pub pong_timeout_ms: u64,
    /// Between two signs of life on event and line streams; zero sends none.
    pub stream_keepalive_ms: u64,
    /// How long a client may take to say who it is.
    pub connect_timeout_ms: u64,
    /// How far a reconnect is spread when the server drains.
    pub drain_jitter_ms: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            message_bytes_max: 64 << 10,
            publish_bytes_max: 1 << 20,
            channels_max: 128,
            head_timeout_ms: 10_000,
            body_bytes_per_s_min: 256,
            keepalive_timeout_ms: 60_000,
            ping_interval_ms: 25_000,
            pong_timeout_ms: 8_000,
            stream_keepalive_ms: 25_000,
            connect_timeout_ms: 10_000,
            drain_jitter_ms: 10_000,
        }
    }
}

/// A document of the API port.
pub struct Page {
    /// The value of Content-Type.
    pub content_type: &'static str,
    /// What it may load and run (Content Security Policy Level 3); `None` for nothing at all.
    pub policy: Option<&'static str>,
    /// The document.
    pub body: Vec<u8>,
}

/// The documents that the API port shows: dashboard, metrics, state.
pub trait Pages: Send + Sync {
    /// The document at a path, as it is now.
    fn page(&self, path: &str) -> Option<Page>;

    /// What the server lacks though it runs, for `/healthz`.
    fn lacks(&self) -> Option<&'static str> {
        None
    }

    /// Who has signed in, where people may.
    fn logins(&self) -> Option<&dyn Logins> {
        None
    }
}

/// People who have shown an API key to the dashboard, and are known by a secret since.
pub trait Logins: Send + Sync {
    /// Lets somebody in; gives the secret, which nobody can guess.
    fn begin(&self, now: Millis) -> String;
    /// Whether a secret is good.
    fn knows(&self, secret: &str, now: Millis) -> bool;
    /// Forgets a secret.
    fn end(&self, secret: &str);
    /// How long one is good.
    fn lifetime_s(&self) -> u64;
}

/// The [`Pages`] of a server without any; for tests.
pub struct NoPages;

impl Pages for NoPages {
    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// What all sessions of a shard share. One per shard, owned by its thread.
pub struct Shared {
    /// Bounds and intervals.
    pub limits: SessionLimits,
    /// The options of channels.
    pub namespaces: Arc<Namespaces>,
    /// Namespaces in which clients have no business, whatever their tokens say.
    pub closed_namespaces: Arc<[&'static str]>,
    /// Checks tokens; without it there are no tokens, only anonymous clients.
    pub verifier: Option<Arc<Verifier>>,
    /// Whether a client without a token may connect.
    pub anonymous: bool,
    /// Whether a connection with a user begins with the channel `#USER`.
    pub personal_channel: bool,
    /// Whether the server API is served on the client ports.
    pub api_for_clients: bool,
    /// Pages that may connect from a browser, and by which names.
    pub guards: Arc<Guards>,
    /// Keys of the server API; without any, everybody who reaches the port may call it.
    pub api_keys: Arc<ApiKeys>,
    /// Makes public ids.
    pub node: NodeKey,
    /// What is to be logged.
    pub notices: Notices,
    /// Proxies in front, and the clients behind them.
    pub forwarded: Forwarded,
    /// What clients have spent of their allowances.
    pub meter: Meter,
    /// Whether the connection that is being served speaks TLS with us.
    pub is_tls: Cell<bool>,
    /// The shard's counters.
    pub counters: Arc<Counters>,
    /// The API port's documents.
    pub pages: Arc<dyn Pages>,
    /// What the header `Date` says.
    pub dates: DateCell,
    /// The server's version.
    pub version: &'static str,
    /// When the process started, in Unix milliseconds.
    pub started_unix_ms: u64,
    /// Whether new connections are sent away because the server is going down.
    pub draining: bool,
}
