//! The table: every option once, with its key, type, default, bounds and meaning.
//!
//! The comments here are the reference that users read, so each says what the option
//! does and in which unit. Adding an option is adding an entry.

use std::net::{Ipv4Addr, SocketAddr};

use throng_grip::proxy::XffRule;

use crate::kind::{
    Address, Bool, Choice, Count, Duration, Endpoint, ForwardedFor, HttpUrl, List, MetricPrefix,
    Named, Opt, PathPrefix, Pem, Permission, RedisUrl, Rule, SecretText, Size, Text, WebOrigin,
};
use crate::secret::Secret;
use crate::section::section;

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What an unset permission means.
const OPEN: &str = "true in open mode, else false";

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

section! {
    /// Where Throng listens. An address that other machines can reach needs keys, see `[auth]`.
    "listen" Listen {
        /// Addresses for clients: WebSocket, SSE and HTTP streaming.
        "client" client: Vec<SocketAddr>, List<Address>, vec![loopback(8000)], Rule::ANY.flag("--listen");
        /// Address of the server API, the metrics and the dashboard.
        "api" api: SocketAddr, Address, loopback(8001), Rule::ANY.flag("--api");
    }
}

section! {
    /// Threads, queues and how many connections one process takes.
    "engine" Engine {
        /// How many shards, each a thread with its own connections. 0 means one per core.
        "shards" shards: u32, Count, 0, Rule::ANY.range(0, 256).flag("--shards");
        /// How many connections the kernel may hold for us before we accept them, per listener and
        /// shard.
        "backlog" backlog: u32, Count, 4096, Rule::ANY.range(1, 65_535);
        /// The most that waits for one slow connection, in bytes; then the channel's
        /// `slow_consumer` rule applies.
        "out_buffer_bytes_max" out_buffer_bytes_max: u64, Size, MIB, Rule::ANY.range(4 * KIB, GIB);
        /// The most connections of the whole process. 0 means as many as the descriptors allow.
        "connections_max" connections_max: u32, Count, 0, Rule::ANY;
    }
}

section! {
    /// What one client, address or request may use.
    "limits" Limits {
        /// The most connections from one IP address. 0 means no limit.
        "connections_per_ip" connections_per_ip: u32, Count, 0, Rule::ANY;
        /// The most channels that one connection may be subscribed to.
        "channels_per_connection" channels_per_connection: u32, Count, 128, Rule::ANY.range(1, 65_535);
        /// The largest message from a client, in bytes.
        "message_bytes_max" message_bytes_max: u64, Size, 64 * KIB, Rule::ANY.range(128, 64 * MIB);
        /// The most messages a second from one connection, over which it is closed. 0 means no
        /// limit.
        "messages_per_second_max" messages_per_second_max: u32, Count, 100, Rule::ANY;
        /// The largest request head (request line and headers), in bytes.
        "head_bytes_max" head_bytes_max: u64, Size, 16 * KIB, Rule::ANY.range(KIB, MIB);
        /// How long a client may take to send a request head.
        "head_timeout" head_timeout_ms: u64, Duration, 10 * SECOND, Rule::ANY.range(100, HOUR);
        /// How long an HTTP connection may stay without a request.
        "keepalive_timeout" keepalive_timeout_ms: u64, Duration, 60 * SECOND, Rule::ANY.range(SECOND, HOUR);
        /// The memory for the history of all channels together, in bytes; the oldest goes first.
        "history_bytes_max" history_bytes_max: u64, Size, 256 * MIB, Rule::ANY.range(MIB, 1024 * GIB);
        /// The most publications in one answer with history. A longer page is cut; a client that
        /// missed more is told `recovered: false`.
        "history_reply_max" history_reply_max: u32, Count, 1000, Rule::ANY.range(1, 1_000_000);
        /// The most bytes in one answer with history, unless it is a single publication.
        "history_reply_bytes_max" history_reply_bytes_max:
            u64, Size, MIB, Rule::ANY.range(4 * KIB, GIB);
        /// How many channels without subscribers and history have their position remembered, so
        /// that a client that comes back is told that it missed nothing. The oldest goes first.
        "streams_max" streams_max: u32, Count, 2_000_000, Rule::ANY.range(1, 1_000_000_000);
        /// The largest request body on the server API, in bytes.
        "publish_bytes_max" publish_bytes_max: u64, Size, MIB, Rule::ANY.range(KIB, GIB);
    }
}

section! {
    /// Heartbeats of WebSocket connections.
    "websocket" Websocket {
        /// How often an idle client is pinged. "0s" sends no pings.
        "ping_interval" ping_interval_ms: u64, Duration, 25 * SECOND, Rule::ANY.range(SECOND, HOUR).zero("off");
        /// How long a client may take to answer a ping; shorter than `ping_interval`.
        "pong_timeout" pong_timeout_ms: u64, Duration, 8 * SECOND, Rule::ANY.range(100, HOUR);
    }
}

section! {
    /// Heartbeats of SSE and HTTP streaming connections.
    "stream" Stream {
        /// How often an idle stream carries a sign of life, so that proxies keep it. "0s" sends
        /// none.
        "keepalive_interval" keepalive_interval_ms: u64, Duration, 25 * SECOND, Rule::ANY.range(SECOND, HOUR).zero("off");
    }
}

section! {
    /// Who may connect and who may use the server API. With nothing set and all addresses on
    /// loopback, Throng runs in open mode: everyone on this machine may do everything.
    "auth" Auth {
        /// The secret that signs client tokens (HS256, HS384, HS512); 32 bytes or more.
        "hmac_secret" hmac_secret: Option<Secret>, Opt<SecretText>, None, Rule::ANY.secret().example("\"a long random text\"");
        /// The file that holds the HMAC secret.
        "hmac_secret_file" hmac_secret_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/throng/hmac-secret\"");
        /// The RSA public key that checks client tokens (RS256, RS384, RS512), in PEM form.
        "rsa_public_key" rsa_public_key: Option<String>, Opt<Pem>, None, Rule::ANY.example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the RSA public key.
        "rsa_public_key_file" rsa_public_key_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/throng/rsa.pem\"");
        /// The ECDSA public key that checks client tokens (ES256, ES384), in PEM form.
        "ecdsa_public_key" ecdsa_public_key: Option<String>, Opt<Pem>, None, Rule::ANY.example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the ECDSA public key.
        "ecdsa_public_key_file" ecdsa_public_key_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/throng/ecdsa.pem\"");
        /// The Ed25519 public key that checks client tokens (EdDSA), in PEM form.
        "eddsa_public_key" eddsa_public_key: Option<String>, Opt<Pem>, None, Rule::ANY.example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the Ed25519 public key.
        "eddsa_public_key_file" eddsa_public_key_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/throng/ed25519.pem\"");
        /// The audience that a token must name in its `aud` claim.
        "audience" audience: Option<String>, Opt<Text>, None, Rule::ANY.example("\"throng\"").unset("any audience");
        /// The issuer that a token must name in its `iss` claim.
        "issuer" issuer: Option<String>, Opt<Text>, None, Rule::ANY.example("\"https://login.example.com\"").unset("any issuer");
        /// Whether clients may connect without a token.
        "anonymous" anonymous: Option<bool>, Opt<Bool>, None, Rule::ANY.example("false").unset(OPEN);
        /// The web origins whose pages may connect. `*` allows all; without a list, pages of the
        /// same host may, and in open mode only pages of this machine (localhost).
        "allowed_origins" allowed_origins: Vec<String>, List<WebOrigin>, Vec::new(), Rule::ANY;
        /// The keys of the server API, sent as `X-API-Key`.
        "api_keys" api_keys: Vec<Secret>, List<SecretText>, Vec::new(), Rule::ANY.secret();
        /// The file that holds the keys of the server API, one on each line.
        "api_keys_file" api_keys_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/throng/api-keys\"");
        /// Accept addresses that other machines can reach although no keys are set. Everyone who
        /// reaches them may use them.
        "insecure" insecure: bool, Bool, false, Rule::ANY;
    }
}

section! {
    /// How the server leaves.
    "drain" Drain {
        /// How long connections get to leave after the server was asked to stop.
        "timeout" timeout_ms: u64, Duration, 30 * SECOND, Rule::ANY.range(0, 24 * HOUR);
        /// Over how long the clients are told to spread their return.
        "jitter" jitter_ms: u64, Duration, 10 * SECOND, Rule::ANY.range(0, HOUR);
    }
}

/// What happens to a subscriber that does not keep up, when its queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowConsumer {
    /// The connection is closed and may come back and recover.
    #[default]
    Close,
    /// Its oldest waiting deliveries are dropped and counted.
    DropOldest,
    /// Only the newest delivery of each channel waits.
    LatestOnly,
}

impl Named for SlowConsumer {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("close", Self::Close),
        ("drop-oldest", Self::DropOldest),
        ("latest-only", Self::LatestOnly),
    ];
}

section! {
    /// The options of channels without a namespace. The options of a namespace have the same names,
    /// and the same defaults: nothing is inherited from here.
    "channel" ChannelOptions {
        /// How many publications the channel keeps. 0 keeps no history.
        "history_size" history_size: u32, Count, 0, Rule::ANY.range(0, 1_000_000);
        /// How long publications are kept. "0s" keeps no history.
        "history_ttl" history_ttl_ms: u64, Duration, 0, Rule::ANY.range(0, 366 * 24 * HOUR);
        /// Whether clients that come back get what they missed. It needs `history_size` and
        /// `history_ttl`.
        "recovery" recovery: bool, Bool, false, Rule::ANY;
        /// What happens to a subscriber whose queue is full: `close` it, `drop-oldest` or keep the
        /// `latest-only`.
        "slow_consumer" slow_consumer: SlowConsumer, Choice<SlowConsumer>, SlowConsumer::Close, Rule::ANY;
        /// Whether clients without a token may subscribe.
        "anonymous_subscribe" anonymous_subscribe: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
        /// Whether clients without a token may publish.
        "anonymous_publish" anonymous_publish: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
        /// Whether subscribing needs a subscription token (a private channel).
        "subscribe_token" subscribe_token: bool, Bool, false, Rule::ANY;
        /// Whether clients with a token may publish.
        "publish" publish: bool, Permission, false, Rule::ANY.example("false").unset(OPEN);
    }
}

/// The least severe lines that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogLevel {
    /// Only what needs somebody's attention now.
    Error,
    /// And what may need it soon.
    Warn,
    /// And what an operator wants to know.
    #[default]
    Info,
    /// And what helps to find a fault.
    Debug,
    /// And everything else.
    Trace,
}

impl LogLevel {
    /// The level's text, as tracing filters spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, level)| *level == self);
        found.map_or("info", |(name, _)| name)
    }
}

impl Named for LogLevel {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Named for LogFormat {
    const NAMES: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

section! {
    /// What is logged, on standard error.
    "log" Log {
        /// The least severe lines that are logged: `error`, `warn`, `info`, `debug` or `trace`.
        "level" level: LogLevel, Choice<LogLevel>, LogLevel::Info, Rule::ANY.flag("--log-level");
        /// The form of log lines: `text` for people, `json` for machines.
        "format" format: LogFormat, Choice<LogFormat>, LogFormat::Text, Rule::ANY.flag("--log-format");
    }
}

section! {
    /// Appwrite Realtime at `/v1/realtime`. It is on when this section is there.
    "appwrite" Appwrite {
        /// The Redis server on which Appwrite announces events.
        "redis" redis: Option<Secret>, Opt<RedisUrl>, None, Rule::ANY.secret().example("\"redis://127.0.0.1:6379\"").unset("events come from the server API alone");
        /// The address of Appwrite's own API, which knows sessions and users.
        "api" api: Option<String>, Opt<HttpUrl>, None, Rule::ANY.example("\"http://127.0.0.1:80/v1\"").unset("every client is a guest");
        /// How long events are kept for clients that come back. "0s" keeps none.
        "history" history_ms: u64, Duration, 0, Rule::ANY.range(0, 24 * HOUR);
        /// How long one request to Appwrite's API may take.
        "api_timeout" api_timeout_ms: u64, Duration, 3 * SECOND, Rule::ANY.range(100, 60 * SECOND);
        /// How many connections one address may open a minute. The address is the last of
        /// `X-Forwarded-For` if a proxy in a private network sends it; this machine's own programs
        /// are not counted. 0 means no limit.
        "connections_per_minute" connections_per_minute: u32, Count, 128, Rule::ANY;
        /// How many messages one connection may send a minute; those beyond are answered with an
        /// error. 0 means no limit.
        "messages_per_minute" messages_per_minute: u32, Count, 32, Rule::ANY;
        /// Whether a refused client gets a close code on which SDKs stop retrying. Appwrite's own
        /// server sends none.
        "close_codes" close_codes: bool, Bool, true, Rule::ANY;
        /// Whether clients get `Error: Server Error` instead of most reasons, as from an Appwrite
        /// in production.
        "hide_errors" hide_errors: bool, Bool, false, Rule::ANY;
    }
    lists {
        /// The projects that are served.
        projects: Vec<AppwriteProject>;
    }
}

section! {
    /// One Appwrite project. Repeat the section for each.
    "appwrite.project" AppwriteProject {
        /// The project's id in Appwrite.
        "id" id: String, Text, String::new(), Rule::ANY.example("\"my-project\"");
        /// The host names of the web platforms whose pages may connect; `*` allows all.
        "platforms" platforms: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
    }
}

section! {
    /// GRIP: requests go to a backend, which says what to hold and what to stream. It is on when
    /// this section is there.
    "grip" Grip {
        /// Address of the HTTP port for publishing (`POST /publish/`). Anyone who reaches it may
        /// publish.
        "http_publish" http_publish: Option<SocketAddr>, Opt<Endpoint>, None, Rule::ANY.example("\"127.0.0.1:5561\"");
        /// Address of the ZeroMQ PULL socket for publishing. Anyone who reaches it may publish.
        "zmq_pull" zmq_pull: Option<SocketAddr>, Opt<Endpoint>, None, Rule::ANY.example("\"tcp://127.0.0.1:5560\"");
        /// Address of the ZeroMQ SUB socket for publishing. Anyone who reaches it may publish.
        "zmq_sub" zmq_sub: Option<SocketAddr>, Opt<Endpoint>, None, Rule::ANY.example("\"tcp://127.0.0.1:5562\"");
        /// Address of the ZeroMQ REP socket for commands. Anyone who reaches it may give them.
        "zmq_command" zmq_command: Option<SocketAddr>, Opt<Endpoint>, None, Rule::ANY.example("\"tcp://127.0.0.1:5563\"");
        /// The key that signs the `Grip-Sig` header of requests to backends.
        "sig_key" sig_key: Option<Secret>, Opt<SecretText>, None, Rule::ANY.secret().example("\"a long random text\"").unset("requests are not signed");
        /// Who signs, the claim `iss` of that header.
        "sig_iss" sig_iss: String, Text, "pushpin".to_owned(), Rule::ANY;
        /// A file of routes in Pushpin's format, read beside the routes here.
        "routes_file" routes_file: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/pushpin/routes\"");
        /// A configuration file of Pushpin's (`pushpin.conf`). What it says holds unless it is set
        /// here; what of it has no effect is told by `throng config check` and at the start.
        "pushpin_conf" pushpin_conf: Option<String>, Opt<Text>, None, Rule::ANY.example("\"/etc/pushpin/pushpin.conf\"");
        /// The key of proxies in front. A request whose `Grip-Sig` it signed keeps its `Grip-*`
        /// fields, and its answer is passed on untouched.
        "upstream_key" upstream_key: Option<Secret>, Opt<SecretText>, None, Rule::ANY.secret().example("\"a long random text\"").unset("nobody in front is trusted");
        /// Whether the field `Pushpin-Route` of a request chooses the route, by its id.
        "accept_pushpin_route" accept_pushpin_route: bool, Bool, false, Rule::ANY;
        /// Whether CORS headers are filled in on all routes, whatever the route says.
        "cross_origin" cross_origin: bool, Bool, false, Rule::ANY;
        /// Whether clients are told what went wrong with a backend on all routes, whatever the
        /// route says.
        "debug" debug: bool, Bool, false, Rule::ANY;
        /// What becomes of `X-Forwarded-For`: `append` adds the client's address, `truncate:N`
        /// keeps the last N before that. An empty text leaves it as it is.
        "forwarded_for" forwarded_for: XffRule, ForwardedFor, XffRule { truncate: None, append: true }, Rule::ANY;
        /// The same for requests that `upstream_key` has signed.
        "forwarded_for_trusted" forwarded_for_trusted: XffRule, ForwardedFor, XffRule { truncate: None, append: false }, Rule::ANY;
        /// Whether a client's own `X-Forwarded-Proto` says if it came by TLS, for the routes'
        /// condition `ssl` and for backends. Only for a port that a proxy of yours alone can reach.
        "accept_forwarded_proto" accept_forwarded_proto: bool, Bool, false, Rule::ANY;
        /// Whether `X-Forwarded-Proto` tells backends of TLS; one that is not accepted is then
        /// removed.
        "set_forwarded_proto" set_forwarded_proto: bool, Bool, false, Rule::ANY;
        /// Added to `CDN-Loop` on requests to backends.
        "cdn_loop" cdn_loop: Option<String>, Opt<Text>, None, Rule::ANY.example("\"push.example.com\"");
        /// How long an item waits for the one before it, which its `prev-id` names.
        "message_wait" message_wait_ms: u64, Duration, 5 * SECOND, Rule::ANY.range(0, HOUR);
        /// How long an item's `id` is remembered, so that it is not delivered twice. "0s" remembers
        /// none.
        "id_cache_ttl" id_cache_ttl_ms: u64, Duration, 60 * SECOND, Rule::ANY.range(0, 24 * HOUR);
        /// The most channels that a backend may hold one client in; more are cut off. 0 means as
        /// many as `limits.channels_per_connection`.
        "channels_per_connection" channels_per_connection: u32, Count, 0, Rule::ANY.range(0, 65_535);
        /// Address of a port with Pushpin's metrics alone, without a key.
        "prometheus" prometheus: Option<SocketAddr>, Opt<Endpoint>, None, Rule::ANY.example("\"127.0.0.1:9797\"").unset("they are among those of the API port");
        /// What stands in front of their names. Without a `pushpin_conf` the default is `pushpin_`.
        "prometheus_prefix" prometheus_prefix: Option<String>, Opt<MetricPrefix>, None, Rule::ANY.example("\"pushpin_\"").unset("`pushpin_`, or with a `pushpin_conf` nothing");
    }
    lists {
        /// The routes, the longest matching path first.
        routes: Vec<GripRoute>;
    }
}

section! {
    /// One GRIP route. Repeat the section for each.
    "grip.route" GripRoute {
        /// Requests whose path begins with this take the route.
        "path" path: String, PathPrefix, String::new(), Rule::ANY.example("\"/\"");
        /// The backends; the first that answers is used.
        "origin" origin: Vec<String>, List<HttpUrl>, Vec::new(), Rule::ANY.example("[\"http://127.0.0.1:9000\"]");
        /// Whether WebSockets reach the backends as HTTP requests with events. Without it the
        /// backends speak WebSocket, with or without the extension `grip`.
        "over_http" over_http: bool, Bool, false, Rule::ANY;
        /// Goes in front of the channel names that the backends use.
        "channel_prefix" channel_prefix: Option<String>, Opt<Text>, None, Rule::ANY.example("\"site-\"");
        /// Whether CORS headers that the backends leave out are filled in, so that pages of any
        /// origin may ask.
        "cross_origin" cross_origin: bool, Bool, false, Rule::ANY;
        /// Whether clients are told what went wrong with a backend, addresses included.
        "debug" debug: bool, Bool, false, Rule::ANY;
        /// How long connecting to a backend may take.
        "connect_timeout" connect_timeout_ms: u64, Duration, 5 * SECOND, Rule::ANY.range(10, HOUR);
        /// How long a backend may take to answer.
        "response_timeout" response_timeout_ms: u64, Duration, 60 * SECOND, Rule::ANY.range(10, HOUR);
    }
}
