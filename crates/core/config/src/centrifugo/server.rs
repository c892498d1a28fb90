//! Addresses, tokens, keys and limits.

use super::given::Given;
use super::note::{Effect, Notes};
use super::output::Output;
use crate::secret::signing_secret_fault;

const LISTEN: &str = "[listen]";
const AUTH: &str = "[auth]";
const LIMITS: &str = "[limits]";

/// Writes everything that is not about channels.
pub(super) fn translate(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    listen(given, out, notes);
    tokens(given, out, notes);
    origins(given, out, notes);
    api(given, out, notes);
    limits(given, out, notes);
    others(given, out, notes);
}

/// `host:port`, with brackets where an address needs them.
fn address(host: &str, port: &str) -> String {
    match host {
        "" => format!("0.0.0.0:{port}"),
        "localhost" => format!("127.0.0.1:{port}"),
        v6 if v6.contains(':') && !v6.starts_with('[') => format!("[{v6}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

fn listen(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    let host = given.text("http_server.address").map(|(_, host)| host);
    let host = host.unwrap_or_default();
    let port = given.text("http_server.port");
    let port = port.map_or_else(|| "8000".to_owned(), |(_, port)| port);
    out.put(LISTEN, "client", vec![address(&host, &port)]);
    let internal = given.text("http_server.internal_address");
    let internal = internal.map_or_else(|| host.clone(), |(_, host)| host);
    match given.text("http_server.internal_port") {
        Some((_, own)) if own != port => out.put(LISTEN, "api", address(&internal, &own)),
        _ => notes.add(
            Effect::Changed,
            "http_server.internal_port",
            "the server API, metrics and dashboard have a port of their own, by default \
             127.0.0.1:8001 (listen.api)",
        ),
    }
    if let Some(option) = given.is_on("http_server.tls.enabled") {
        notes.add(
            Effect::Missing,
            &option,
            "TLS ends in front of this server; name that proxy in listen.trusted_proxies",
        );
    }
}

fn tokens(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    for (path, key) in [
        ("client.token.hmac_secret_key", "hmac_secret"),
        (
            "client.token.hmac_previous_secret_key",
            "hmac_previous_secret",
        ),
    ] {
        let Some((option, secret)) = given.text(path) else {
            continue;
        };
        let Some(fault) = signing_secret_fault(&secret) else {
            out.put(AUTH, key, secret);
            continue;
        };
        out.comment(AUTH, &format!("{key} = \"…\"   # {option} is too weak"));
        let text = format!("not taken over (auth.{key}): {fault}, and sign tokens with that");
        notes.add(Effect::Narrower, &option, text);
    }
    for (path, key) in [
        ("client.token.rsa_public_key", "rsa_public_key"),
        ("client.token.ecdsa_public_key", "ecdsa_public_key"),
        ("client.token.audience", "audience"),
        ("client.token.issuer", "issuer"),
    ] {
        if let Some((_, text)) = given.text(path) {
            out.put(AUTH, key, text);
        }
    }
    if let Some((option, url)) = given.text("client.token.jwks_public_endpoint") {
        if url.contains("{{") {
            let text = "not taken over: parts of a token do not choose the address; name the one \
                        of your issuer as auth.jwks_url";
            notes.add(Effect::Narrower, &option, text);
        } else {
            out.put(AUTH, "jwks_url", url);
        }
    }
    for (path, text) in [
        (
            "client.token.audience_regex",
            "tokens for any audience are accepted, unless auth.audience names one",
        ),
        (
            "client.token.issuer_regex",
            "tokens of any issuer are accepted, unless auth.issuer names one",
        ),
        (
            "client.token.hmac_previous_secret_key_valid_until",
            "the previous secret is accepted until you take it out",
        ),
        (
            "client.token.user_id_claim",
            "the user is the claim `sub`, whatever else a token says",
        ),
    ] {
        if let Some((option, _)) = given.text(path) {
            notes.add(Effect::Wider, &option, text);
        }
    }
    if let Some(option) = given.is_on("client.disallow_anonymous_connection_tokens") {
        let text = "a token with an empty `sub` connects; sign none";
        notes.add(Effect::Wider, &option, text);
    }
    if let Some(option) = given.is_on("client.subscription_token.enabled") {
        let text = "subscription tokens are checked with the keys of connection tokens: those \
                    that were signed with their own keys are refused, and whoever signs the \
                    others can sign these";
        notes.add(Effect::Wider, &option, text);
    }
    let anonymous = given.is_on("client.allow_anonymous_connect_without_token");
    out.put(AUTH, "anonymous", anonymous.is_some());
}

fn origins(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    const PATH: &str = "client.allowed_origins";
    let Some((option, origins)) = given.texts(PATH) else {
        let text = "without a list Centrifugo refuses every page; here pages of the host that \
                    they connect to may (auth.allowed_origins)";
        return notes.add(Effect::Wider, PATH, text);
    };
    let (good, patterns): (Vec<String>, Vec<String>) = origins
        .into_iter()
        .partition(|origin| origin == "*" || !origin.contains('*'));
    if !patterns.is_empty() {
        let text = format!(
            "patterns are not taken: name each origin instead of {}",
            patterns.join(", ")
        );
        notes.add(Effect::Narrower, &option, text);
    }
    let good: Vec<String> = good
        .into_iter()
        .map(|origin| origin.trim_end_matches('/').to_owned())
        .collect();
    if !good.is_empty() {
        out.put(AUTH, "allowed_origins", good);
    }
}

fn api(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    if let Some((_, key)) = given.text("http_api.key") {
        out.put(AUTH, "api_keys", vec![key]);
    }
    if let Some(option) = given.is_on("http_api.insecure") {
        let text = "not taken over: without auth.api_keys only this machine may call the API";
        notes.add(Effect::Narrower, &option, text);
    }
    if let Some(option) = given.is_on("client.insecure") {
        let text = "not taken over: clients have the rights that their channels give";
        notes.add(Effect::Narrower, &option, text);
    }
    if let Some(option) = given.is_on("client.insecure_skip_token_signature_verify") {
        notes.add(Effect::Narrower, &option, "signatures are always checked");
    }
}

fn limits(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    for (path, head, key) in [
        ("client.channel_limit", LIMITS, "channels_per_connection"),
        ("websocket.message_size_limit", LIMITS, "message_bytes_max"),
        ("client.connection_limit", "[engine]", "connections_max"),
        ("client.queue_max_size", "[engine]", "out_buffer_bytes_max"),
    ] {
        if let Some((_, number)) = given.number(path) {
            out.put(head, key, number as i64);
        }
    }
    let history = given.number("client.history_max_publication_limit");
    let recovery = given.number("client.recovery_max_publication_limit");
    let most = history.into_iter().chain(recovery).map(|(_, most)| most);
    // Both are 300 there, unless they are set.
    out.put(
        LIMITS,
        "history_reply_max",
        most.max().unwrap_or(300) as i64,
    );
    // Centrifugo knows no such limit.
    out.put(LIMITS, "messages_per_second_max", 0);
    notes.add(
        Effect::Changed,
        "limits.messages_per_second_max",
        "written as 0, as Centrifugo has no such limit; 100 is the default here, and protects",
    );
}

fn others(given: &mut Given, out: &mut Output, notes: &mut Notes) {
    for (path, head, key) in [
        ("client.ping_interval", "[websocket]", "ping_interval"),
        ("client.pong_timeout", "[websocket]", "pong_timeout"),
        ("shutdown.timeout", "[drain]", "timeout"),
    ] {
        if let Some((option, text)) = given.text(path) {
            match duration(&text) {
                Some(text) => out.put(head, key, text),
                None => notes.add(Effect::Missing, &option, format!("{text:?} is no duration")),
            }
        }
    }
    if let Some((option, level)) = given.text("log.level") {
        match level.as_str() {
            "trace" | "debug" | "info" | "warn" | "error" => out.put("[log]", "level", level),
            "fatal" | "none" => out.put("[log]", "level", "error"),
            _ => notes.add(Effect::Missing, &option, format!("{level:?} is no level")),
        }
    }
    if let Some((option, kind)) = given
        .text("engine.type")
        .filter(|(_, kind)| kind != "memory")
    {
        let text = format!("channels live in this process, and nodes do not share them: {kind:?}");
        notes.add(Effect::Missing, &option, text);
    }
}

/// A duration of Go's as one of ours; whole seconds may stand without a unit.
pub(super) fn duration(text: &str) -> Option<String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(format!("{seconds}s"));
    }
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(digits);
        number.parse::<f64>().ok()?;
        let end = unit.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = unit.split_at(end.unwrap_or(unit.len()));
        if !matches!(unit, "ms" | "s" | "m" | "h" | "d") {
            return None;
        }
        rest = after;
    }
    (!text.is_empty()).then(|| text.to_owned())
}
