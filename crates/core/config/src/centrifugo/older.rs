//! Flat option names of version 5, mapped to the tree of version 6.

use toml::Value;

/// Options of channels, which had the same names at the root.
const CHANNEL: &[&str] = &[
    "allowed_delta_types",
    "delta_publish",
    "presence",
    "join_leave",
    "force_push_join_leave",
    "history_size",
    "history_ttl",
    "history_meta_ttl",
    "force_positioning",
    "allow_positioning",
    "force_recovery",
    "allow_recovery",
    "force_recovery_mode",
    "allow_subscribe_for_anonymous",
    "allow_subscribe_for_client",
    "allow_publish_for_anonymous",
    "allow_publish_for_client",
    "allow_publish_for_subscriber",
    "allow_presence_for_anonymous",
    "allow_presence_for_client",
    "allow_presence_for_subscriber",
    "allow_history_for_anonymous",
    "allow_history_for_client",
    "allow_history_for_subscriber",
    "allow_user_limited_channels",
    "channel_regex",
    "subscribe_proxy_name",
    "publish_proxy_name",
    "sub_refresh_proxy_name",
    "subscribe_stream_proxy_name",
];

/// Options with entirely new names.
const RENAMED: &[(&str, &str)] = &[
    ("allowed_origins", "client.allowed_origins"),
    (
        "allow_anonymous_connect_without_token",
        "client.allow_anonymous_connect_without_token",
    ),
    (
        "disallow_anonymous_connection_tokens",
        "client.disallow_anonymous_connection_tokens",
    ),
    ("ping_interval", "client.ping_interval"),
    ("pong_timeout", "client.pong_timeout"),
    (
        "separate_subscription_token_config",
        "client.subscription_token.enabled",
    ),
    ("global_history_meta_ttl", "channel.history_meta_ttl"),
    ("global_presence_ttl", "presence_manager.presence_ttl"),
    (
        "global_redis_presence_user_mapping",
        "presence_manager.redis.presence_user_mapping",
    ),
    ("address", "http_server.address"),
    ("port", "http_server.port"),
    ("internal_address", "http_server.internal_address"),
    ("internal_port", "http_server.internal_port"),
    ("http3", "http_server.http3.enabled"),
    ("tls", "http_server.tls.enabled"),
    ("tls_external", "http_server.tls_external"),
    ("name", "node.name"),
    ("engine", "engine.type"),
    ("broker", "broker.type"),
    ("websocket_disable", "websocket.disabled"),
    ("api_disable", "http_api.disabled"),
    ("usage_stats_disable", "usage_stats.disabled"),
    (
        "user_subscribe_to_personal",
        "client.subscribe_to_user_personal_channel.enabled",
    ),
    (
        "user_personal_channel_namespace",
        "client.subscribe_to_user_personal_channel.personal_channel_namespace",
    ),
    (
        "user_personal_single_connection",
        "client.subscribe_to_user_personal_channel.single_connection",
    ),
    ("connect_proxy_name", "client.proxy.connect.name"),
    ("refresh_proxy_name", "client.proxy.refresh.name"),
    ("rpc_proxy_name", "rpc.proxy.name"),
];

/// Beginnings, and the sections that they became.
const SECTIONS: &[(&str, &str)] = &[
    ("token_", "client.token."),
    ("subscription_token_", "client.subscription_token."),
    ("client_", "client."),
    ("channel_", "channel."),
    ("tls_", "http_server.tls_"),
    ("api_", "http_api."),
    ("grpc_api_", "grpc_api."),
    ("admin_", "admin."),
    ("uni_websocket_", "uni_websocket."),
    ("uni_http_stream_", "uni_http_stream."),
    ("uni_sse_", "uni_sse."),
    ("uni_grpc_", "uni_grpc."),
    ("websocket_", "websocket."),
    ("webtransport_", "webtransport."),
    ("http_stream_", "http_stream."),
    ("sse_", "sse."),
    ("sockjs_", "sockjs."),
    ("emulation_", "emulation."),
    ("prometheus_", "prometheus."),
    ("health_", "health."),
    ("swagger_", "swagger."),
    ("debug_", "debug."),
    ("graphite_", "graphite."),
    ("opentelemetry_", "opentelemetry."),
    ("shutdown_", "shutdown."),
    ("log_", "log."),
    ("proxy_", "proxies."),
    ("rpc_", "rpc."),
    ("redis_", "engine.redis."),
    ("nats_", "broker.nats."),
    ("tarantool_", "engine.tarantool."),
    ("node_", "node."),
];

/// Switches that became sections with `enabled`.
const SWITCHES: &[&str] = &[
    "grpc_api",
    "admin",
    "uni_websocket",
    "uni_http_stream",
    "uni_sse",
    "uni_grpc",
    "webtransport",
    "http_stream",
    "sse",
    "sockjs",
    "prometheus",
    "health",
    "swagger",
    "debug",
    "graphite",
    "opentelemetry",
];

/// The path of a root option in version 6; a path that has parts already is one.
pub(super) fn root(path: &str, value: &Value) -> String {
    if let Some(name) = path.strip_prefix("proxy_static_http_headers.") {
        return format!("proxies.static_http_headers.{name}");
    }
    if path.contains('.') {
        return path.to_owned();
    }
    if CHANNEL.contains(&path) || of_channels(path).is_some() {
        return format!("channel.without_namespace.{}", namespace(path, value));
    }
    if let Some((_, renamed)) = RENAMED.iter().find(|(name, _)| *name == path) {
        return (*renamed).to_owned();
    }
    if SWITCHES.contains(&path) {
        return format!("{path}.enabled");
    }
    let of_section = |(prefix, section): &(&str, &str)| {
        let rest = path.strip_prefix(prefix)?;
        Some(format!("{section}{rest}"))
    };
    SECTIONS
        .iter()
        .find_map(of_section)
        .unwrap_or_else(|| path.to_owned())
}

/// The name of a channel option in version 6.
pub(super) fn namespace(path: &str, _: &Value) -> String {
    of_channels(path).unwrap_or(path).to_owned()
}

fn of_channels(name: &str) -> Option<&'static str> {
    Some(match name {
        "proxy_subscribe" => "subscribe_proxy_enabled",
        "proxy_publish" => "publish_proxy_enabled",
        "proxy_sub_refresh" => "sub_refresh_proxy_enabled",
        "proxy_subscribe_stream" => "subscribe_stream_proxy_enabled",
        _ => return None,
    })
}
