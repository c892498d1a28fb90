//! Checks across options: combinations that would be unsafe or could not work.

mod access;
mod channel;
pub(crate) mod servers;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::net::SocketAddr;

use throng_types::units::{duration_text, size_text};

use crate::config::{Config, is_loopback};
use crate::layout::element;
use crate::options::ChannelOptions;
use crate::sources::{ConfigProblem, Origin, ValueOrigins};

pub(crate) const NAMESPACE_BYTES_MAX: usize = 64;
/// Bytes that one channel may have in the id that an `EventSource` brings back, comma included.
const PLACE_BYTES_MAX: u64 = 51;

/// Checks the whole configuration; `failed` are the paths whose values were refused before.
pub(crate) fn check(
    config: &Config,
    origins: &ValueOrigins,
    failed: &BTreeSet<String>,
    problems: &mut Vec<ConfigProblem>,
    warnings: &mut Vec<String>,
) {
    let mut checks = Checks {
        config,
        origins,
        failed,
        problems,
        warnings,
    };
    checks.listeners();
    checks.proxies();
    checks.tls();
    checks.exposure();
    checks.keys();
    checks.oidc();
    checks.log();
    checks.trace();
    checks.limits();
    checks.channels();
    checks.backends();
    checks.broker();
    checks.feeds();
    checks.appwrite();
    checks.grip();
    checks.apps();
    checks.webhooks();
}

/// Namespaces of the server's own channels and of those that gateways keep for themselves.
const RESERVED: [&str; 4] = ["throng", "grip", "pusher", "pusher-cache"];

/// Beginnings of the targets of the log: those with a name, and the modules that log.
const TARGETS: [&str; 4] = [
    "throng::audit",
    "throng::refused",
    "throng::commands",
    "throng_",
];

struct Checks<'a> {
    config: &'a Config,
    origins: &'a ValueOrigins,
    failed: &'a BTreeSet<String>,
    problems: &'a mut Vec<ConfigProblem>,
    warnings: &'a mut Vec<String>,
}

impl Checks<'_> {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        let origin = self.origins.get(path).clone();
        self.problems.push(ConfigProblem::new(origin, message));
    }

    /// Adds a problem of a value, which its path stands before.
    fn wrong(&mut self, path: &str, text: impl fmt::Display) {
        self.problem(path, format!("{path}: {text}"));
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    fn failed_under(&self, prefix: &str) -> bool {
        self.failed.iter().any(|path| path.starts_with(prefix))
    }

    /// Checks what tells the sections of a list apart: each has the option, as a name of so many
    /// bytes at most if that is given, and no other section has the same.
    fn distinct(
        &mut self,
        (section, key): (&str, &str),
        bytes_max: Option<usize>,
        values: impl IntoIterator<Item: Into<String>>,
    ) {
        let mut seen = HashSet::new();
        for (index, value) in values.into_iter().enumerate() {
            let path = element(section, index);
            let (at, name) = (format!("{path}.{key}"), value.into());
            if self.failed.contains(&at) {
                // The value itself has a problem already.
            } else if name.is_empty() {
                self.problem(&path, format!("{path} has no {key}: add {key} = \"…\""));
            } else if let Some(most) = bytes_max.filter(|most| !is_name(&name, *most)) {
                let text = format!(
                    "expected 1 to {most} ASCII letters, digits, \"-\", \"_\" or \".\", found \
                     {name:?}"
                );
                self.wrong(&at, text);
            } else if !seen.insert(name.clone()) {
                self.wrong(&at, format!("{name:?} appears twice"));
            }
        }
    }

    fn is_set(&self, path: &str) -> bool {
        *self.origins.get(path) != Origin::Default
    }

    fn listeners(&mut self) {
        if self.config.listen.client.is_empty() && !self.failed_under("listen.client") {
            self.problem(
                "listen.client",
                "listen.client is empty: name at least one address",
            );
        }
        let mut seen: Vec<(&str, SocketAddr)> = Vec::new();
        for (option, address) in self.config.addresses() {
            // Port 0 asks the kernel for any free port, which is another one each time.
            let twin = seen
                .iter()
                .find(|(_, other)| *other == address && address.port() != 0);
            if let Some(&(other, _)) = twin {
                let text = match other == option {
                    true => format!("{address} appears twice"),
                    false => format!("{address} is taken by {other}; give each its own port"),
                };
                self.wrong(option, text);
            }
            seen.push((option, address));
        }
    }

    fn proxies(&mut self) {
        let config = self.config;
        let listen = &config.listen;
        if listen.proxy_protocol.is_empty() || self.failed_under("listen.") {
            return;
        }
        for address in &listen.proxy_protocol {
            if !{ config.listeners() }.any(|listener| listener.address == *address) {
                let text = format!("{address} is neither in listen.client nor listen.api");
                self.wrong("listen.proxy_protocol", text);
            }
        }
        if listen.trusted_proxies.is_empty() {
            self.wrong(
                "listen.proxy_protocol",
                "no connection is accepted there: name the proxies in listen.trusted_proxies",
            );
        }
    }

    fn exposure(&mut self) {
        if self.failed_under("auth.") || self.failed_under("listen.") {
            return;
        }
        let config = self.config;
        let auth = &config.auth;
        let client = config
            .listen
            .client
            .iter()
            .map(|listener| listener.address)
            .find(|address| !is_loopback(address));
        // If clients cannot connect, publications leave only through GRIP's backends. A
        // configuration with `[grip]` and no option for clients serves GRIP only.
        let nobody = (config.grip.is_some() || auth.anonymous == Some(false))
            && !config.anonymous_allowed()
            && config.appwrite.is_none();
        if let Some(address) = client
            && !auth.client_keys()
            && !nobody
        {
            if auth.insecure {
                self.warn(format!(
                    "auth.insecure: clients reach {address} and no key checks them"
                ));
            } else {
                let text = format!(
                    "other machines can reach {address}, but clients need no key: set \
                     auth.hmac_secret or a public key (auth.rsa_public_key, \
                     auth.ecdsa_public_key, auth.eddsa_public_key, auth.jwks_url), or \
                     auth.insecure = true to do without"
                );
                self.wrong("listen.client", text);
            }
        }
        let address = config.listen.api.address;
        if !is_loopback(&address) && !auth.api_keys_set() {
            if auth.insecure {
                self.warn(format!(
                    "auth.insecure: everyone who reaches {address} may use the server API"
                ));
            } else {
                let text = format!(
                    "other machines can reach {address}, but the server API needs no key: set \
                     auth.api_keys, or auth.insecure = true to do without"
                );
                self.wrong("listen.api", text);
            }
        }
        if config.listen.api_for_clients
            && !auth.api_keys_set()
            && !auth.insecure
            && !config.open_mode()
        {
            self.wrong(
                "listen.api_for_clients",
                "every client could use the server API, since it needs no key: set auth.api_keys",
            );
        }
        if auth.client_keys() && !auth.api_keys_set() && is_loopback(&address) {
            self.warn(format!(
                "listen.api: every program of this machine may publish and disconnect at \
                 {address}, since the server API needs no key: set auth.api_keys"
            ));
        }
        if !auth.api_keys_set() && auth.allowed_hosts.iter().any(|name| name == "*") {
            self.warn(
                "auth.allowed_hosts allows every name: a web page can give its own name this \
                 server's address and use the server API of whoever visits it; list the names, or \
                 set auth.api_keys",
            );
        }
        if !auth.client_keys()
            && !config.anonymous_allowed()
            && config.ways_without_tokens().is_empty()
        {
            self.warn(
                "no client can connect: no key for tokens is set and auth.anonymous is false",
            );
        }
    }

    fn log(&mut self) {
        for text in &self.config.log.targets {
            let (target, _) = text.split_once('=').unwrap_or((text, ""));
            let is_prefix = |own: &&str| own.starts_with(target) || target.starts_with(*own);
            if !TARGETS.iter().any(is_prefix) {
                self.warn(format!(
                    "log.targets: no target begins with {target:?}: there are throng::audit, \
                     throng::refused and those of Throng's parts, such as throng_server"
                ));
            }
        }
    }

    fn trace(&mut self) {
        let url = self.config.trace.otlp_url.as_deref().unwrap_or_default();
        if url.trim_end_matches('/').ends_with("/v1/traces") {
            self.wrong("trace.otlp_url", "leave out /v1/traces, which is added");
        }
    }

    fn limits(&mut self) {
        let websocket = &self.config.websocket;
        let (interval, timeout) = (websocket.ping_interval_ms, websocket.pong_timeout_ms);
        if interval != 0 && timeout >= interval && !self.failed_under("websocket.") {
            let text = format!(
                "{:?} has to be shorter than websocket.ping_interval, which is {:?}",
                duration_text(timeout),
                duration_text(interval),
            );
            self.wrong("websocket.pong_timeout", text);
        }
        let queue = self.config.engine.out_buffer_bytes_max;
        let message = self.config.limits.message_bytes_max;
        if message > queue && !self.failed_under("engine.") && !self.failed_under("limits.") {
            let text = format!(
                "a message of {:?} would not fit into any connection's queue; raise \
                 engine.out_buffer_bytes_max, which is {:?}",
                size_text(message),
                size_text(queue),
            );
            self.wrong("limits.message_bytes_max", text);
        }
        let limits = &self.config.limits;
        let id_bytes = PLACE_BYTES_MAX * u64::from(limits.channels_per_connection);
        let mut named = self.config.namespaces.iter();
        let recovers =
            self.config.channel.recovery || named.any(|namespace| namespace.options.recovery);
        if recovers && id_bytes > limits.head_bytes_max {
            self.warn(format!(
                "limits.channels_per_connection is {}: an EventSource with so many channels may \
                 come back with an id of {id_bytes} bytes, which does not fit into a request head \
                 (limits.head_bytes_max is {:?}) and is refused with 431; raise \
                 limits.head_bytes_max",
                limits.channels_per_connection,
                size_text(limits.head_bytes_max),
            ));
        }
        if self.config.limits.publish_bytes_max > queue {
            self.warn(format!(
                "limits.publish_bytes_max is {:?}, but a connection's queue holds {:?}: larger \
                 publications \
                 close every subscriber; raise engine.out_buffer_bytes_max",
                size_text(self.config.limits.publish_bytes_max),
                size_text(queue),
            ));
        }
    }

    fn channels(&mut self) {
        self.channel("channel", &self.config.channel);
        let names = self.config.namespaces.iter().map(|it| &it.name);
        self.distinct(("namespace", "name"), Some(NAMESPACE_BYTES_MAX), names);
        for (index, namespace) in self.config.namespaces.iter().enumerate() {
            let path = element("namespace", index);
            let name = &namespace.name;
            if RESERVED.contains(&&**name) {
                let text = format!("{name:?} is for Throng's own channels: choose another name");
                self.wrong(&format!("{path}.name"), text);
            }
            self.channel(&path, &namespace.options);
        }
        let any = |opens: fn(&ChannelOptions) -> bool| {
            let mut named = self.config.namespaces.iter();
            opens(&self.config.channel) || named.any(|namespace| opens(&namespace.options))
        };
        let opens = |it: &ChannelOptions| it.subscribe || it.anonymous_subscribe;
        if self.config.auth.client_keys() && !any(opens) && !any(|it| it.user_channels) {
            self.warn(
                "keys are set and no option opens any channel: clients may subscribe only where \
                 their token names the channel or they bring a subscription token; subscribe = \
                 true in [channel] or a [[namespace]] opens its channels to clients with a user",
            );
        }
        if self.config.auth.anonymous == Some(true) && !any(|it| it.anonymous_subscribe) {
            self.warn(
                "auth.anonymous is true, but no channel has anonymous_subscribe = true: \
                 clients without a user can connect and do nothing",
            );
        }
    }

    fn appwrite(&mut self) {
        let Some(appwrite) = &self.config.appwrite else {
            return;
        };
        if appwrite.projects.is_empty() && !self.failed_under("appwrite.") {
            self.warn(
                "[appwrite] has no [[appwrite.project]]: name the projects whose clients may \
                 connect",
            );
        }
        let ids = appwrite.projects.iter().map(|it| &it.id);
        self.distinct(("appwrite.project", "id"), None, ids);
    }

    fn grip(&mut self) {
        let Some(grip) = &self.config.grip else {
            return;
        };
        for (option, address) in self.config.addresses() {
            if option.starts_with("grip.") && !is_loopback(&address) {
                self.warn(format!(
                    "{option}: everyone who reaches {address} may use it, since GRIP has no keys \
                     for it; \
                     keep it inside your network"
                ));
            }
        }
        self.distinct(
            ("grip.route", "path"),
            None,
            grip.routes.iter().map(|it| &it.path),
        );
        for (index, route) in grip.routes.iter().enumerate() {
            let path = element("grip.route", index);
            let at = format!("{path}.origin");
            if route.origin.is_empty() && !self.failed.contains(&at) {
                let place = if self.is_set(&at) { &at } else { &path };
                let message = format!("{path} has no backend: add origin = [\"http://…\"]");
                self.problem(place, message);
            }
        }
    }
}

/// Whether a name has 1 to `bytes_max` ASCII letters, digits, `-`, `_` and `.`.
pub(crate) fn is_name(name: &str, bytes_max: usize) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=bytes_max).contains(&name.len()) && name.bytes().all(is_good)
}
