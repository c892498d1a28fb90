//! State that the sessions of a shard share: limits, keys, counters, documents.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use throng_auth::{ApiKeys, Caller, Verifier};
use throng_broker::{HookConnection, Hooks, NamespaceOptions};
use throng_metrics::{Counters, Histogram, TurnTimes};
use throng_types::json::Object;
use throng_types::{ConnId, Http2, Millis};

use crate::{
    ClientTraces, DateCell, Follow, FollowEvent, Forwarded, Guards, Meter, NodeKey, Notices,
    TracedCall, Tracer, Users,
};

/// Bounds and intervals. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Bytes of an HTTP request's head.
    pub head_bytes_max: usize,
    /// Bytes of a message from a client.
    pub message_bytes_max: usize,
    /// Bytes of a request to the server API.
    pub publish_bytes_max: usize,
    pub channels_max: usize,
    /// Milliseconds for a request's head, and for its body beyond `body_bytes_per_s_min`.
    pub head_timeout_ms: u64,
    /// Minimum rate of a request's body, in bytes of data a second on average.
    pub body_bytes_per_s_min: u64,
    /// Milliseconds that an HTTP connection may be idle between requests.
    pub keepalive_timeout_ms: u64,
    /// Between two pings; zero sends none.
    pub ping_interval_ms: u64,
    /// Milliseconds until a ping must be answered.
    pub pong_timeout_ms: u64,
    /// Between two signs of life on event and line streams; zero sends none.
    pub stream_keepalive_ms: u64,
    /// Milliseconds until a client must have sent its `connect` or its equivalent.
    pub connect_timeout_ms: u64,
    /// Whether HTTP/2 may begin: without TLS, and with it.
    pub http2: [bool; 2],
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
            http2: [false; 2],
        }
    }
}

/// A document of the API port.
pub struct Page {
    pub content_type: &'static str,
    /// Content Security Policy (Level 3) of the page; `None` forbids all loading and scripts.
    pub policy: Option<&'static str>,
    pub body: Vec<u8>,
}

/// The documents that the API port shows: dashboard, metrics, state.
pub trait Pages: Send + Sync {
    /// Finds the document at a path, in the form that this field `Accept` asks for.
    fn page(&self, path: &str, accept: Option<&str>) -> Option<Page>;

    /// Returns the reason why the server is not healthy, for `/healthz`.
    fn lacks(&self) -> Option<&'static str> {
        None
    }

    /// Returns the store of browser sessions; `None` if people cannot sign in.
    fn logins(&self) -> Option<&dyn Logins> {
        None
    }

    /// Returns the way to an OpenID provider; `None` if there is none.
    fn sign_in(&self) -> Option<&dyn SignIn> {
        None
    }
}

/// Sign-in of browsers by an OpenID provider.
pub trait SignIn: Send + Sync {
    /// Begins for a browser. Error: a sentence, if the provider is not reached.
    fn begin(&self, now: Millis) -> Result<SignInBegun, &'static str>;

    /// Takes a browser that comes back, by its secret, with `state`, `code` and `iss` of the
    /// provider; `from` is for the log. Returns the secret that is one of [`Logins`] as soon as the
    /// provider has said who it is. Error: a sentence on what does not belong together.
    fn back(
        &self,
        secret: &str,
        told: (&str, &str, Option<&str>),
        from: (ConnId, IpAddr),
        now: Millis,
    ) -> Result<String, &'static str>;

    /// Returns how far the sign-in is to which [`Self::back`] gave this secret.
    fn state(&self, secret: &str, now: Millis) -> SignInState;
}

/// Begin of a sign-in by a provider.
pub struct SignInBegun {
    /// Address to which the browser goes.
    pub location: String,
    /// Secret that it brings back.
    pub secret: String,
    /// Seconds within which it has to be back.
    pub lifetime_s: u64,
}

/// Stage of a sign-in by a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInState {
    /// None is known, or it was over some time ago.
    Unknown,
    /// Provider has yet to answer.
    Pending,
    Done,
    /// Refusal, with the reason why nobody signed in.
    Refused(String),
}

/// Sessions of browsers that sent an API key to the dashboard, each known by a secret.
pub trait Logins: Send + Sync {
    /// Begins a session of a caller and returns its secret, which cannot be guessed.
    fn begin(&self, caller: Caller, now: Millis) -> String;
    /// Returns the caller who began the session, if there is one.
    fn caller(&self, secret: &str, now: Millis) -> Option<Caller>;
    fn end(&self, secret: &str);
    /// Seconds that a secret stays valid.
    fn lifetime_s(&self) -> u64;
}

/// State that all sessions of a shard share. One per shard, owned by its thread.
pub struct Shared {
    pub limits: SessionLimits,
    pub namespaces: Arc<NamespaceOptions>,
    /// Namespaces that are closed to clients, whatever their tokens allow.
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
    /// Keys of the server API; without any, the API port needs no key.
    pub api_keys: Arc<ApiKeys>,
    /// Key that makes public ids of connections.
    pub node: NodeKey,
    pub notices: Notices,
    /// Operators who follow a user or a channel.
    pub follow: Follow,
    /// Proxies in front, and the clients behind them.
    pub forwarded: Forwarded,
    /// Allowances spent by clients and addresses.
    pub meter: Meter,
    /// Users that have connections, while there are limits for them.
    pub users: Users,
    /// Whether the connection that is being served speaks TLS with us.
    pub is_tls: Cell<bool>,
    /// Part that HTTP/2 has in it.
    pub http2: Cell<Http2>,
    pub counters: Arc<Counters>,
    pub pages: Arc<dyn Pages>,
    /// Listener for what clients do, if there are webhooks.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Codes and reasons of connections that end, by their index, while there are webhooks or
    /// followers. Bound: the connections of this shard.
    pub ends: RefCell<BTreeMap<u32, (u16, Box<str>)>>,
    /// Traces of clients, while there are webhooks and a collector.
    pub client_traces: ClientTraces,
    /// Durations of what this turn completes.
    pub turn_times: TurnTimes,
    /// Spans for callers who trace what they ask for, while there is a collector.
    pub tracer: Option<Tracer>,
    /// Cached value of the header `Date`.
    pub dates: DateCell,
    pub version: &'static str,
    pub started_unix_ms: u64,
    /// Whether new connections are sent away because the server is going down.
    pub draining: bool,
}

impl Shared {
    /// Notes that a call of the server API is answered in this turn, which began at `now`.
    pub fn note_answered(&self, call: Histogram, began: Millis, now: Millis) {
        self.turn_times.note(call, now.since(began), &self.counters);
    }

    /// Notes that a call, if it is traced, is answered in this turn.
    pub fn end_traced(&self, call: Option<&TracedCall>, method: &'static str, failed: bool) {
        if let (Some(call), Some(tracer)) = (call, &self.tracer) {
            tracer.end(call, method, failed, &self.counters);
        }
    }

    /// Tells followers of an event; see [`Follow::tell`].
    pub fn tell_followers(&self, event: &FollowEvent<'_>, more: impl Fn(&mut Object<'_>, bool)) {
        self.follow.tell(event, &self.node, more);
    }

    /// Returns how logs call a key of the server API. One without a name is one of these.
    pub fn key_name<'a>(&self, name: &'a str) -> &'a str {
        match name {
            "" if !self.api_keys.is_empty() => "auth.api_keys",
            name => name,
        }
    }

    /// Client of no app that has connected, for webhooks.
    pub fn client(&self, conn: ConnId, user: &str) -> HookConnection {
        HookConnection {
            id: self.node.client_id(conn).as_str().into(),
            user: user.into(),
            node: self.node.name().into(),
            trace: self.client_traces.of(conn),
            ..HookConnection::default()
        }
    }
}
