//! Permissions under a configuration, in sentences for its operator.

use throng_config::Config;

/// Returns the permissions of clients and of backends under this configuration, a sentence a line.
pub(crate) fn access(config: &Config) -> Vec<String> {
    let mut lines = if config.open_mode() {
        vec![
            "open mode: everyone on this machine may do everything; other machines cannot reach it"
                .to_owned(),
        ]
    } else {
        sides(config)
    };
    lines.extend(names(config));
    lines
}

/// Host names to which ports without a key answer, which keeps web pages away.
fn names(config: &Config) -> Option<String> {
    let auth = &config.auth;
    if auth.api_keys_set() {
        return None;
    }
    if auth.allowed_hosts.iter().any(|name| name == "*") {
        return Some(
            "without a key the API port answers to any host name, also to a web page's own \
             (auth.allowed_hosts)"
                .to_owned(),
        );
    }
    let mut known = vec!["an address", "localhost"];
    known.extend(auth.allowed_hosts.iter().map(String::as_str));
    Some(format!(
        "a port without a key answers only to {}, so that no web page gets in \
         (auth.allowed_hosts)",
        known.join(", ")
    ))
}

fn sides(config: &Config) -> Vec<String> {
    let clients = match (config.auth.client_keys(), config.anonymous_allowed()) {
        (true, false) => "clients need a token (`throng token create` makes one)",
        (true, true) => "clients may come with or without a token",
        (false, true) => "clients need no token: everyone who reaches the port may connect",
        (false, false) if config.grip.is_some() => {
            "clients get what GRIP's routes lead to and nothing else (auth.anonymous)"
        }
        (false, false) => "no client may connect: no key is set and anonymous use is off",
    };
    let api = if config.auth.api_keys_set() {
        "publishing needs an API key"
    } else {
        "the server API needs no key: everyone who reaches its port may publish and disconnect"
    };
    vec![clients.to_owned(), api.to_owned()]
}
