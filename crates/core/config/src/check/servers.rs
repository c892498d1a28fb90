//! Checks of the servers that Throng asks or reads: the broker, backends, sources of feeds.

use std::collections::BTreeSet;
use std::collections::HashSet;

use super::{Checks, NAMESPACE_BYTES_MAX, is_name};
use crate::kind::Named as _;
use crate::layout::element;
use crate::options::{Acknowledge, BrokerKind, DEFAULT_BACKEND, Feed, FeedKind, WebhookOptions};
use crate::sources::Origin;

const REDIS: &[&str] = &[
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "redis+cluster://",
    "rediss+cluster://",
];
const NATS: &[&str] = &["nats://", "tls://"];

fn is(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| url.starts_with(scheme))
}

/// Whether Sentinels would be asked for a master without a name.
fn lacks_master(url: &str) -> bool {
    let rest = url.split_once("+sentinel://").map(|(_, rest)| rest);
    rest.is_some_and(|rest| {
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        path.is_empty() || path.starts_with('/')
    })
}

impl Checks<'_> {
    pub(super) fn broker(&mut self) {
        let broker = &self.config.broker;
        match (broker.kind, &broker.url) {
            (BrokerKind::Redis, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"redis\" without a server: add url = \"redis://host:port\"",
            ),
            (BrokerKind::Redis, Some(url)) if !is(url.expose(), REDIS) => self.wrong(
                "broker.url",
                "with broker.kind = \"redis\" it is \
                 redis://user:password@host:port/db, rediss://, redis+sentinel:// or \
                 redis+cluster://",
            ),
            (BrokerKind::Redis, Some(url)) if lacks_master(url.expose()) => self.wrong(
                "broker.url",
                "Sentinels need the name of a master: write \
                 redis+sentinel://HOST:PORT,HOST:PORT/MASTER",
            ),
            (BrokerKind::Nats, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"nats\" without a server: add url = \"nats://host:port\"",
            ),
            (BrokerKind::Nats, Some(url)) if !is(url.expose(), NATS) => self.wrong(
                "broker.url",
                "with broker.kind = \"nats\" it is nats://user:password@host:port or \
                 tls://",
            ),
            (BrokerKind::Memory, Some(_)) => {
                self.warn("broker.url is not used: broker.kind is \"memory\"");
            }
            _ => {}
        }
        if broker.credentials.is_some() && broker.kind != BrokerKind::Nats {
            self.warn("broker.credentials is not used: broker.kind is not \"nats\"");
        }
        let is_used = broker.kind == BrokerKind::Memory || !self.config.webhooks.is_empty();
        if self.config.history.path.is_some() && !is_used {
            // A packaged unit sets the variable for every server.
            if let Origin::Env(name) = self.origins.get("history.path") {
                self.warn(format!("{name} is not used: the broker keeps the history"));
            } else {
                let text = "the broker keeps the history; remove one of the two";
                self.wrong("history.path", text);
            }
        }
        let keeps_on_disk = self.config.history.path.is_some() && broker.kind == BrokerKind::Memory;
        let waits = self.config.history.acknowledge != Acknowledge::Memory;
        if waits && !keeps_on_disk && !self.failed_under("history.path") {
            let text = "it needs history on disk; set history.path";
            self.wrong("history.acknowledge", text);
        }
        let is_short = broker.prefix.is_empty() || broker.prefix.contains(['{', '}']);
        if is_short && !self.failed_under("broker.prefix") {
            self.problem(
                "broker.prefix",
                "broker.prefix must not be empty and has no braces",
            );
        }
    }
}

/// Whether every request to a backend has this header field itself, so that the client's cannot be
/// passed on.
pub(crate) fn is_of_questions(name: &str) -> bool {
    const OWN: [&str; 5] = [
        "Host",
        "Content-Type",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
    ];
    OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

impl Checks<'_> {
    pub(super) fn backends(&mut self) {
        let Some(proxy) = &self.config.proxy else {
            return;
        };
        let (real, emulated) = (&proxy.http_headers, &proxy.emulated_headers);
        self.passed("proxy", [real, emulated], proxy.authorization.is_some());
        let mut methods = BTreeSet::new();
        for name in &proxy.rpc_namespaces {
            self.methods("proxy", name, &mut methods);
        }
        let names = proxy.backends.iter().map(|it| &it.name);
        self.distinct(("proxy.backend", "name"), Some(NAMESPACE_BYTES_MAX), names);
        for (index, backend) in proxy.backends.iter().enumerate() {
            let path = element("proxy.backend", index);
            if backend.name == DEFAULT_BACKEND {
                let text = format!("{DEFAULT_BACKEND:?} is the backend of [proxy]");
                self.wrong(&format!("{path}.name"), text);
            }
            let at = format!("{path}.endpoint");
            if backend.endpoint.is_none() && !self.failed.contains(&at) {
                let message = format!("{path} has no address: add endpoint = \"http://…\"");
                self.problem(&path, message);
            }
            for name in &backend.rpc_namespaces {
                self.methods(&path, name, &mut methods);
            }
            let (real, emulated) = (&backend.http_headers, &backend.emulated_headers);
            self.passed(&path, [real, emulated], backend.authorization.is_some());
        }
    }

    /// Checks the client's header fields that a backend gets: none that each request sets itself.
    fn passed(&mut self, path: &str, [real, emulated]: [&Vec<String>; 2], is_authorized: bool) {
        for (key, names) in [("http_headers", real), ("emulated_headers", emulated)] {
            let at = format!("{path}.{key}");
            for name in names {
                if is_of_questions(name) {
                    self.wrong(&at, format!("Throng sets {name} itself; remove it"));
                } else if is_authorized && name.eq_ignore_ascii_case("Authorization") {
                    let text = format!("{path}.authorization sets {name} too; keep one of the two");
                    self.wrong(&at, text);
                }
            }
        }
    }

    fn methods<'a>(&mut self, path: &str, name: &'a str, seen: &mut BTreeSet<&'a str>) {
        let at = format!("{path}.rpc_namespaces");
        if name.contains(':') {
            let text = format!("{name:?} has a colon; give only the part before it");
            self.wrong(&at, text);
        } else if !seen.insert(name) {
            self.wrong(&at, format!("{name:?} appears twice"));
        }
    }
}

const TOPIC_BYTES_MAX: usize = 249;
const NATS_NAME_BYTES_MAX: usize = 255;
/// A line of NATS has at most 4,096 bytes.
const SUBJECT_BYTES_MAX: usize = 1024;

impl Checks<'_> {
    pub(super) fn feeds(&mut self) {
        let feeds = &self.config.feeds;
        let names = feeds.iter().map(|it| &it.name);
        self.distinct(("feed", "name"), Some(NAMESPACE_BYTES_MAX), names);
        for (index, feed) in feeds.iter().enumerate() {
            let path = element("feed", index);
            let at = |key: &str| format!("{path}.{key}");
            let kind = feed.kind.word();
            let schemes = feed.kind.schemes();
            match &feed.url {
                None if !self.failed_under(&at("url")) => {
                    let example = schemes[0];
                    let message = format!("{path} has no url: add url = \"{example}...\"");
                    self.problem(&path, message);
                }
                Some(url) if !schemes.iter().any(|it| url.expose().starts_with(it)) => {
                    let begin = schemes.join(" or ");
                    let text = format!("with kind = \"{kind}\" it is {begin}...");
                    self.wrong(&at("url"), text);
                }
                _ => {}
            }
            let has_stream = matches!(feed.kind, FeedKind::Redis | FeedKind::Nats);
            if has_stream && feed.stream.is_none() && !self.failed_under(&at("stream")) {
                let message = format!("{path} has no stream: add stream = \"events\"");
                self.problem(&path, message);
            }
            if feed.kind == FeedKind::Nats {
                self.subjects(&path, feed);
            } else if feed.credentials.is_some() {
                let path = at("credentials");
                self.warn(format!("{path} is not used: the kind is not \"nats\""));
            }
            if feed.kind == FeedKind::Kafka {
                self.topics(&path, feed);
            }
        }
    }

    fn topics(&mut self, path: &str, feed: &Feed) {
        let at = format!("{path}.topics");
        if feed.topics.is_empty() && !self.failed_under(&at) {
            let message = format!("{path} has no topics: add topics = [\"orders\"]");
            self.problem(path, message);
        }
        for topic in &feed.topics {
            if !is_name(topic, TOPIC_BYTES_MAX) {
                let text = format!(
                    "{topic:?} is no topic: one has 1 to 249 ASCII letters, digits, \"-\", \"_\" \
                     and \".\""
                );
                self.wrong(&at, text);
            }
        }
        let all: BTreeSet<&String> = feed.topics.iter().collect();
        if all.len() < feed.topics.len() {
            self.wrong(&at, "a topic appears twice");
        }
    }

    fn subjects(&mut self, path: &str, feed: &Feed) {
        let is_good = |c: char| !c.is_control() && !c.is_whitespace() && !"*>/\\.".contains(c);
        let is_name = |name: &str| {
            (1..=NATS_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_good)
        };
        for (key, name) in [
            ("stream", feed.stream.as_deref()),
            ("group", Some(&*feed.group)),
        ] {
            let Some(name) = name.filter(|name| !is_name(name)) else {
                continue;
            };
            let text = format!(
                "{name:?} is no name of NATS: one has 1 to 255 bytes without blanks, \".\", \
                 \"*\", \">\", \"/\" and \"\\\""
            );
            self.wrong(&format!("{path}.{key}"), text);
        }
        let Some(subject) = feed.subject.as_deref() else {
            return;
        };
        let mut words = subject.split('.').peekable();
        let mut is_subject = subject.len() <= SUBJECT_BYTES_MAX;
        while let Some(word) = words.next() {
            let is_last = words.peek().is_none();
            let is_strange = |c: char| c.is_whitespace() || c.is_control();
            let is_word = !word.is_empty() && !word.contains(is_strange);
            is_subject &= is_word && (word != ">" || is_last);
        }
        if !is_subject {
            let text = format!("{subject:?} is no subject, as \"orders.>\" is one");
            self.wrong(&format!("{path}.subject"), text);
        }
    }
}

/// The longest id of an app: with the longest channel of Pusher's it is a name of the hub.
const APP_ID_BYTES_MAX: usize = 36;
/// Most apps of a server: a client's session has two bytes for its own.
const APPS_MAX: usize = 65_000;

impl Checks<'_> {
    pub(super) fn apps(&mut self) {
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        for (index, app) in self.config.apps.iter().enumerate() {
            let path = element("app", index);
            let at = |key: &str| format!("{path}.{key}");
            if index == APPS_MAX {
                self.problem(&path, format!("there are more than {APPS_MAX} apps"));
            }
            for (key, value) in [("id", &app.id), ("key", &app.key)] {
                if value.is_empty() && !self.failed_under(&at(key)) {
                    self.problem(&path, format!("{path} has no {key}: add {key} = \"…\""));
                }
            }
            if !app.id.is_empty() && !is_name(&app.id, APP_ID_BYTES_MAX) {
                let text = "an id has 1 to 36 ASCII letters, digits, \"-\", \"_\" and \".\"";
                self.wrong(&at("id"), text);
            } else if !ids.insert(&app.id) {
                self.wrong(
                    &at("id"),
                    format!("another app has the id {:?} too", app.id),
                );
            }
            if !keys.insert(&app.key) {
                self.wrong(
                    &at("key"),
                    format!("another app has the key {:?} too", app.key),
                );
            }
            if app.secret.is_none() && !self.failed_under(&at("secret")) {
                let message = format!("{path} has no secret: add secret = \"…\"");
                self.problem(&path, message);
            }
        }
    }

    /// Checks that an app is there, if one is named.
    pub(super) fn app_of(&mut self, path: &str, id: Option<&String>) {
        if id.is_some_and(|id| !self.config.apps.iter().any(|app| app.id == *id)) {
            self.wrong(path, "no [[app]] has this id");
        }
    }

    pub(super) fn webhooks(&mut self) {
        let hooks = &self.config.webhooks;
        for (index, hook) in hooks.iter().enumerate() {
            let path = element("webhook", index);
            let at = |key: &str| format!("{path}.{key}");
            let is_same = |other: &WebhookOptions| told_to(other) == told_to(hook);
            if hook.url.is_none() && !self.failed_under(&at("url")) {
                self.problem(&path, format!("{path} has no url: add url = \"…\""));
            } else if hook.url.is_some() && hooks[..index].iter().any(is_same) {
                self.wrong(&at("url"), "another webhook tells it the same");
            }
            self.app_of(&at("app"), hook.app.as_ref());
            match &hook.secret {
                Some(secret) if !is_standard_secret(secret.expose()) => {
                    let text = "expected \"whsec_\" and at least 24 bytes in Base64";
                    self.wrong(&at("secret"), text);
                }
                None if hook.app.is_none() && !self.failed_under(&at("secret")) => {
                    self.problem(&path, format!("{path} has neither app nor secret: add one"));
                }
                _ => {}
            }
        }
    }
}

/// Returns what two webhooks must not have in common.
fn told_to(hook: &WebhookOptions) -> impl PartialEq {
    let scope = (&hook.url, &hook.app, &hook.namespaces);
    (scope, &hook.channel_prefixes, &hook.events)
}

/// Whether a text is the secret of a Standard Webhook.
fn is_standard_secret(text: &str) -> bool {
    let is_base64 = |text: &&str| {
        let digits = text.trim_end_matches('=');
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
        text.len().is_multiple_of(4)
            && text.len() - digits.len() <= 2
            && digits.bytes().all(is_digit)
    };
    { text.strip_prefix("whsec_") }
        .filter(is_base64)
        .is_some_and(|text| text.trim_end_matches('=').len() >= 32)
}
