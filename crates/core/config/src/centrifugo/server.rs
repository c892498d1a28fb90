//! Addresses, tokens, keys and limits.

use throng_types::units::parse_duration_ms;

use super::given::{Effect, Notes, Options, Output};
use super::nodes::is_file;
use crate::secret::{is_placeholder, is_published, signing_secret_fault};
use crate::sources::rows;

/// Options that mean the same here.
const SAME: &str = include_str!("same.txt");

const LISTEN: &str = "[listen]";
const AUTH: &str = "[auth]";
const LIMITS: &str = "[limits]";
const TLS: &str = "[tls]";

pub(super) fn translate(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    listen(given, out, notes);
    tokens(given, out, notes);
    same(given, out, notes);
    origins(given, out, notes);
    limits(given, out, notes);
    log_level(given, out, notes);
}

/// `host:port`, with brackets where an address needs them.
pub(crate) fn address(host: &str, port: &str) -> String {
    match host {
        "" => format!("0.0.0.0:{port}"),
        "localhost" => format!("127.0.0.1:{port}"),
        v6 if v6.contains(':') && !v6.starts_with('[') => format!("[{v6}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

fn listen(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    let host = given.text("http_server.address").map(|(_, host)| host);
    let host = host.unwrap_or_default();
    let port = given.text("http_server.port");
    let port = port.map_or_else(|| "8000".to_owned(), |(_, port)| port);
    let certificate = tls(given, notes);
    let scheme = |is_tls| if is_tls { "tls://" } else { "" };
    let is_tls = certificate.is_some();
    let client = address(&host, &port);
    if let Some(option) = given.is_on("client.insecure") {
        given.is_insecure = true;
        let text = "taken over as rights: all clients may connect, and do everything in every \
                    channel";
        notes.add(Effect::Changed, &option, text);
    }
    let everyone = given.is_insecure || given.has("client.allow_anonymous_connect_without_token");
    let keys = [
        "hmac_secret_key",
        "rsa_public_key",
        "ecdsa_public_key",
        "jwks_public_endpoint",
    ];
    let has_keys = keys
        .iter()
        .any(|key| given.has(&format!("client.token.{key}")));
    out.put(
        LISTEN,
        "client",
        vec![format!("{}{client}", scheme(is_tls))],
    );

    let key = given.text("http_api.key");
    let insecure = given.is_on("http_api.insecure");
    let disabled = given.is_on("http_api.disabled");
    let external = given.is_on("http_api.external");
    let internal = given.text("http_server.internal_address");
    let internal = internal.map_or_else(|| host.clone(), |(_, host)| host);
    let is_plain = given.is_on("http_server.tls_external").is_some();
    let own = given.text("http_server.internal_port");
    let own = own.filter(|(_, own)| *own != port).map(|(_, own)| own);
    let is_open = key.is_none() && insecure.is_none();
    if let Some(own) = &own {
        let mut api = address(&internal, own);
        if is_open && !is_loopback(&api) {
            // With our rules it would be open to all; Centrifugo's answers no request without a
            // key.
            api = address("127.0.0.1", own);
            let text = "without a key the API, metrics and dashboard are only on loopback";
            notes.add(Effect::Narrower, "http_server.internal_port", text);
        }
        out.put(
            LISTEN,
            "api",
            format!("{}{api}", scheme(is_tls && !is_plain)),
        );
    } else {
        notes.add(
            Effect::Changed,
            "http_server.internal_port",
            "the server API, metrics and dashboard have a port of their own, by default \
             127.0.0.1:8001 (listen.api)",
        );
    }
    let is_shared = own.is_none() || external.is_some();
    if is_shared && !is_open && disabled.is_none() {
        out.put(LISTEN, "api_for_clients", true);
    }
    if let Some((certificate, key)) = certificate {
        out.put(TLS, "certificate", certificate);
        out.put(TLS, "key", key);
    }
    if let Some(option) = disabled {
        let text = "the API is always on (listen.api), and is protected by its keys";
        notes.add(Effect::Wider, &option, text);
    }
    match key {
        Some((option, key)) if is_placeholder(&key) || is_published(&key) => {
            out.comment(
                AUTH,
                "api_keys = [\"…\"]   # the key there is printed in examples",
            );
            let text = "not taken over: this key is printed in an example, so it is public";
            notes.add(Effect::Narrower, &option, text);
        }
        Some((_, key)) => out.put(AUTH, "api_keys", vec![key]),
        None if insecure.is_none() => {
            let text = "without a key Centrifugo's API answers no request; here it answers \
                        programs on this machine: set auth.api_keys";
            notes.add(Effect::Wider, "http_api.key", text);
        }
        None => {}
    }
    let is_asked = has_keys || !everyone || is_loopback(&client);
    if !is_asked || insecure.is_some() {
        out.put(AUTH, "insecure", true);
    }
    if let Some(option) = insecure {
        let text = "the API needs no key, and everyone who reaches it may use it, as in Centrifugo \
                    (auth.insecure)";
        notes.add(Effect::Changed, &option, text);
    }
}

fn is_loopback(address: &str) -> bool {
    address
        .parse()
        .is_ok_and(|address| crate::config::is_loopback(&address))
}

/// The files of the certificate and its key, if TLS is on and both are files.
fn tls(given: &mut Options, notes: &mut Notes) -> Option<(String, String)> {
    let older = given.is_on("http_server.tls.enabled");
    let is_on = older.or_else(|| given.is_on("http_server.tls"))?;
    let mut file = |keys: [&str; 3]| {
        let found = keys
            .iter()
            .find_map(|key| given.text(&format!("http_server.{key}")));
        found.map(|(_, text)| text).filter(|text| is_file(text))
    };
    let certificate = file(["tls.cert_pem", "tls_cert", "tls.cert_file"]);
    let key = file(["tls.key_pem", "tls_key", "tls.key_file"]);
    for path in ["tls.client_ca_pem", "tls_client_ca", "tls_client_ca_pem"] {
        if let Some((option, _)) = given.text(&format!("http_server.{path}")) {
            let text = "clients need no certificate";
            notes.add(Effect::Wider, &option, text);
        }
    }
    let files = certificate.zip(key);
    if files.is_none() {
        let text = "not taken over, so clients connect without TLS: write the certificate and \
                    its key into files, name these as tls.certificate and tls.key, and put tls:// \
                    before the addresses in [listen]";
        notes.add(Effect::Wider, &is_on, text);
    }
    files
}

fn tokens(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    let mut is_short = false;
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
        let fault = signing_secret_fault(&secret);
        if is_placeholder(&secret) || is_published(&secret) {
            out.comment(
                AUTH,
                &format!("{key} = \"…\"   # {option} is printed in examples"),
            );
            let text = format!(
                "not taken over (auth.{key}): it is printed in an example, so it is public"
            );
            notes.add(Effect::Narrower, &option, text);
            continue;
        }
        out.put(AUTH, key, secret);
        if let Some(fault) = fault {
            is_short = true;
            let text = format!("taken over, with auth.short_hmac_secret: {fault}");
            notes.add(Effect::Changed, &option, text);
        }
    }
    if is_short {
        out.put(AUTH, "short_hmac_secret", true);
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
    let anonymous = given.is_on("client.allow_anonymous_connect_without_token");
    out.put(AUTH, "anonymous", anonymous.is_some() || given.is_insecure);
    personal(given, out, notes);
}

fn personal(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    const AT: &str = "client.subscribe_to_user_personal_channel";
    let enabled = given.is_on(&format!("{AT}.enabled"));
    let namespace = given.text(&format!("{AT}.personal_channel_namespace"));
    let single = given.is_on(&format!("{AT}.single_connection"));
    if enabled.is_none() {
        return;
    }
    if let Some((option, namespace)) = namespace {
        let text = format!(
            "not taken over: a personal channel is `#user` here, not `{namespace}:#user`; a \
             token's claim `subs` can name that"
        );
        return notes.add(Effect::Narrower, &option, text);
    }
    out.put(AUTH, "personal_channel", true);
    if let Some(option) = single {
        let text = "a user may have several connections";
        notes.add(Effect::Wider, &option, text);
    }
}

/// Writes the options with the same meaning here.
fn same(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    for [path, kind, section, key] in rows(SAME) {
        let head = format!("[{section}]");
        if kind == "number" {
            if let Some((_, number)) = given.number(path) {
                out.put(&head, key, number as i64);
            }
        } else if let Some((option, text)) = given.text(path) {
            match duration(&text) {
                _ if kind == "text" => out.put(&head, key, text),
                Some(text) => out.put(&head, key, text),
                None => notes.add(Effect::Missing, &option, format!("{text:?} is no duration")),
            }
        }
    }
}

fn origins(given: &mut Options, out: &mut Output, notes: &mut Notes) {
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

fn limits(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    let history = given.number("client.history_max_publication_limit");
    let recovery = given.number("client.recovery_max_publication_limit");
    let most = history.into_iter().chain(recovery).map(|(_, most)| most);
    // Both default to 300 there.
    out.put(
        LIMITS,
        "history_reply_max",
        most.max().unwrap_or(300) as i64,
    );
    // Centrifugo has no such limit.
    out.put(LIMITS, "messages_per_second_max", 0);
    notes.add(
        Effect::Changed,
        "limits.messages_per_second_max",
        "written as 0, as Centrifugo has no such limit; 100 is the default here, and protects",
    );
}

fn log_level(given: &mut Options, out: &mut Output, notes: &mut Notes) {
    if let Some((option, level)) = given.text("log.level") {
        match level.as_str() {
            "trace" | "debug" | "info" | "warn" | "error" => out.put("[log]", "level", level),
            "fatal" | "none" => out.put("[log]", "level", "error"),
            _ => notes.add(Effect::Missing, &option, format!("{level:?} is no level")),
        }
    }
}

/// A duration of Go's as one of ours; whole seconds may stand without a unit.
pub(super) fn duration(text: &str) -> Option<String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(format!("{seconds}s"));
    }
    parse_duration_ms(text).is_ok().then(|| text.to_owned())
}
