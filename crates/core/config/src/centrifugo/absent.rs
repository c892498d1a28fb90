//! Options without a counterpart: reported with the reason, unless they have their default.

use toml::Value;

use super::given::Given;
use super::note::{Effect, Notes};

/// Beginnings of paths, the longer ones first, and the note for each. An empty note: not reported,
/// since the option belongs to a missing feature or needs no counterpart.
const ABSENT: &[(&str, Effect, &str)] = &[
    (
        "channel.without_namespace.force_positioning",
        Effect::Changed,
        "channels with `recovery` have positions, others none",
    ),
    (
        "channel.without_namespace.allow_positioning",
        Effect::Changed,
        "channels with `recovery` have positions, others none",
    ),
    (
        "channel.without_namespace.delta_publish",
        Effect::Changed,
        "not needed: subscribers with deltas get them of all publications",
    ),
    (
        "channel.without_namespace.history_meta_ttl",
        Effect::Changed,
        "positions are kept as long as limits.streams_max has room",
    ),
    (
        "channel.history_meta_ttl",
        Effect::Changed,
        "positions are kept as long as limits.streams_max has room",
    ),
    (
        "channel.without_namespace.sub_refresh_proxy",
        Effect::Missing,
        "no backend is asked",
    ),
    (
        "channel.without_namespace.subscribe_proxy_name",
        Effect::Missing,
        "",
    ),
    (
        "channel.without_namespace.subscribe_stream_proxy_name",
        Effect::Missing,
        "",
    ),
    (
        "channel.without_namespace.subscribe_stream_proxy_bidirectional",
        Effect::Missing,
        "subscribe streams are not offered",
    ),
    (
        "channel.without_namespace.auto_cache_recover",
        Effect::Missing,
        "clients get the newest publication when they ask for recovery",
    ),
    (
        "shared_poll",
        Effect::Missing,
        "shared polls are not offered",
    ),
    (
        "channel.without_namespace.publish_proxy_name",
        Effect::Missing,
        "",
    ),
    (
        "channel.without_namespace.map",
        Effect::Missing,
        "map subscriptions are not offered",
    ),
    (
        "channel.without_namespace.shared_poll",
        Effect::Missing,
        "shared polls are not offered",
    ),
    (
        "channel.without_namespace.publication_data_format",
        Effect::Wider,
        "data are not checked",
    ),
    (
        "channel.publication_data_format",
        Effect::Wider,
        "data are not checked",
    ),
    (
        "channel.max_length",
        Effect::Changed,
        "names have 255 bytes at most",
    ),
    (
        "channel.proxy",
        Effect::Missing,
        "not taken over; see [proxy] for what is",
    ),
    (
        "client.proxy",
        Effect::Narrower,
        "not taken over; see [proxy] for what is",
    ),
    ("rpc.proxy.name", Effect::Missing, ""),
    (
        "rpc",
        Effect::Missing,
        "not taken over; see [proxy] for what is",
    ),
    (
        "proxies",
        Effect::Missing,
        "not taken over; see [proxy] for what is",
    ),
    ("client.token.insecure", Effect::Missing, ""),
    ("client.subscription_token", Effect::Missing, ""),
    (
        "client.user_id_http_header",
        Effect::Narrower,
        "users come only from tokens",
    ),
    (
        "client.subscribe_to_user_personal_channel",
        Effect::Missing,
        "",
    ),
    (
        "client.user_connection_limit",
        Effect::Wider,
        "a user may have any number of connections; limits.connections_per_ip bounds addresses",
    ),
    (
        "client.connection_rate_limit",
        Effect::Wider,
        "connections are bounded by what they cost (limits.address_work_max)",
    ),
    ("client.concurrency", Effect::Changed, ""),
    ("client.presence_update_interval", Effect::Changed, ""),
    ("client.channel_position", Effect::Changed, ""),
    (
        "client.stale_close_delay",
        Effect::Changed,
        "a client has 10 s to send its connect command",
    ),
    (
        "client.expired",
        Effect::Changed,
        "an expired token has its own time to be refreshed",
    ),
    (
        "client.connect_include_server_time",
        Effect::Missing,
        "the answer to connect has no time",
    ),
    (
        "client.connect_code",
        Effect::Missing,
        "codes are not changed",
    ),
    (
        "http_server.tls_autocert",
        Effect::Wider,
        "no certificates are fetched: without tls.certificate and tls.key clients connect \
         without TLS",
    ),
    (
        "http_server.internal_tls",
        Effect::Changed,
        "listen.api uses the certificates of [tls] too, if it begins with tls://",
    ),
    (
        "http_server.tls",
        Effect::Changed,
        "not taken over; see [tls] for what is",
    ),
    (
        "http_server",
        Effect::Missing,
        "HTTP/2 and HTTP/3 end in front of this server",
    ),
    (
        "http_api.handler_prefix",
        Effect::Changed,
        "the API is at /api",
    ),
    (
        "http_api.error_mode",
        Effect::Changed,
        "errors come with status 200, as by default",
    ),
    ("grpc_api", Effect::Missing, "there is no API by GRPC"),
    ("uni_grpc", Effect::Missing, "there is no GRPC"),
    ("webtransport", Effect::Missing, "there is no WebTransport"),
    ("sockjs", Effect::Missing, "SockJS is not offered"),
    (
        "websocket.disabled",
        Effect::Wider,
        "WebSockets are always on",
    ),
    (
        "websocket.compression",
        Effect::Changed,
        "with `compression` publications of 96 bytes and more are compressed, once for all",
    ),
    (
        "websocket.handler_prefix",
        Effect::Changed,
        "paths are fixed",
    ),
    ("websocket", Effect::Changed, ""),
    (
        "uni_websocket",
        Effect::Changed,
        "always on, at its usual path",
    ),
    ("uni_sse", Effect::Changed, "always on, at its usual path"),
    (
        "uni_http_stream",
        Effect::Changed,
        "always on, at its usual path",
    ),
    ("sse", Effect::Changed, "always on, at its usual path"),
    (
        "http_stream",
        Effect::Changed,
        "always on, at its usual path",
    ),
    ("emulation", Effect::Changed, "paths and sizes are fixed"),
    (
        "admin",
        Effect::Changed,
        "the dashboard is on listen.api, and asks for a key of auth.api_keys",
    ),
    (
        "prometheus",
        Effect::Changed,
        "metrics are at /metrics of listen.api, under other names",
    ),
    ("health", Effect::Changed, "it is at /healthz of both ports"),
    (
        "swagger",
        Effect::Missing,
        "docs/PROTOCOLS.md describes the API",
    ),
    ("debug", Effect::Missing, "there is no pprof"),
    ("opentelemetry", Effect::Missing, "there are no traces"),
    ("graphite", Effect::Missing, "metrics are read, not sent"),
    (
        "consumers",
        Effect::Missing,
        "a [[feed]] reads PostgreSQL, Redis, Kafka or NATS; nothing was taken over",
    ),
    (
        "engine",
        Effect::Changed,
        "not taken over; see [broker] for what is",
    ),
    (
        "broker",
        Effect::Changed,
        "not taken over; see [broker] for what is",
    ),
    (
        "presence_manager",
        Effect::Changed,
        "members are kept by the broker ([broker])",
    ),
    (
        "map_broker",
        Effect::Missing,
        "map subscriptions are not offered",
    ),
    (
        "controller",
        Effect::Missing,
        "nodes do not know each other",
    ),
    (
        "shutdown",
        Effect::Changed,
        "clients are told of a shutdown at once",
    ),
    ("usage_stats", Effect::Missing, ""),
    ("node", Effect::Missing, ""),
    (
        "gomaxprocs",
        Effect::Changed,
        "a shard for each core: engine.shards",
    ),
    ("log.file", Effect::Changed, "logs go to standard error"),
    ("pid_file", Effect::Missing, "no such file is written"),
    ("init", Effect::Missing, "there is no such page"),
    ("enable_unreleased_features", Effect::Missing, ""),
];

/// Reports the remaining options.
pub(super) fn tell(given: Given, notes: &mut Notes) {
    for (path, leaf) in given.rest() {
        if is_nothing(&leaf.value) {
            continue;
        }
        let is_of = |prefix: &str| {
            let rest = path.strip_prefix(prefix);
            rest.is_some()
        };
        match ABSENT.iter().find(|(prefix, _, _)| is_of(prefix)) {
            Some((_, _, "")) => {}
            Some((_, effect, text)) => notes.add(*effect, &leaf.option, *text),
            None => {
                let text = "unknown option: from a later version, from PRO, or mistyped";
                notes.add(Effect::Missing, &leaf.option, text);
            }
        }
    }
}

/// Whether a value is off, empty or zero: the default of each option without a counterpart.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Boolean(is_on) => !is_on,
        Value::String(text) => matches!(text.as_str(), "" | "false" | "0"),
        Value::Integer(number) => *number == 0,
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}
