//! Backends that decide on behalf of clients.
//!
//! Backends are taken over: one for each kind of request, and those that have names. What cannot be
//! asked here stays closed: no right is granted without a decision.

use toml::{Table, Value};

use super::given::{Effect, Notes, Options, Output, is, is_nothing, text};
use super::server::duration;
use crate::check::servers::is_of_questions;
use crate::kind::ProxyStatus;

const PROXY: &str = "[proxy]";
const BACKEND: &str = "[[proxy.backend]]";
const DEFAULT: &str = "default";

#[derive(Clone, Debug, Default)]
pub(super) struct Backends {
    /// Kinds of requests with a backend that has no name, and its name here.
    kinds: Vec<(&'static str, String)>,
    names: Vec<String>,
    /// Whether a name alone switches a backend on, as in version 5.
    by_name: bool,
}

impl Backends {
    /// The backend that one channel's options ask for a kind of request: the option that switches
    /// it on, and the backend's name if there is such a backend.
    pub(super) fn of(&self, kind: &str, given: &mut Options) -> Option<(String, Option<String>)> {
        let named = given.text(&format!("{kind}_proxy_name"));
        let enabled = given.is_on(&format!("{kind}_proxy_enabled"));
        let by_name = named.clone().filter(|_| self.by_name);
        let option = enabled.or_else(|| by_name.map(|(option, _)| option))?;
        let name = named.map_or_else(|| DEFAULT.to_owned(), |(_, name)| name);
        if name == DEFAULT {
            let own = self.kinds.iter().find(|(known, _)| *known == kind);
            return Some((option, own.map(|(_, name)| name.clone())));
        }
        let is_known = self.names.contains(&name);
        Some((option, is_known.then_some(name)))
    }

    /// The stream backend of a channel, which version 5 switches on by a name alone.
    pub(super) fn stream_of(&self, given: &mut Options) -> Option<String> {
        let named = given.text("subscribe_stream_proxy_name");
        named.filter(|_| self.by_name).map(|(option, _)| option)
    }
}

/// Writes that a channel asks a backend.
pub(super) fn put_asked(kind: &str, name: &str, put: &mut impl FnMut(&str, Value)) {
    put(&format!("{kind}_proxy_enabled"), true.into());
    if name != DEFAULT {
        put(&format!("{kind}_proxy_name"), name.into());
    }
}

/// Each kind, and its section in version 6. The first three are asked by `[proxy]` alone.
const KINDS: [(&str, &str); 7] = [
    ("connect", "client.proxy.connect."),
    ("refresh", "client.proxy.refresh."),
    ("rpc", "rpc.proxy."),
    ("subscribe", "channel.proxy.subscribe."),
    ("publish", "channel.proxy.publish."),
    ("sub_refresh", "channel.proxy.sub_refresh."),
    ("cache_empty", "channel.proxy.cache_empty."),
];

#[derive(Clone, Debug, Default, PartialEq)]
struct Settings {
    timeout: Option<String>,
    authorization: Option<String>,
    /// Texts of each key in [`LISTS`].
    lists: [Vec<String>; 3],
    /// Switch of each key in [`FLAGS`].
    flags: [bool; 2],
    /// Options for GRPC, until it is known whether the backend is asked by it.
    grpc: Grpc,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Grpc {
    is_secure: bool,
    authorization: Option<String>,
    /// Options that have no counterpart, and why.
    lost: Vec<(String, String)>,
}

/// Header fields of the client's, and meanings of statuses.
const LISTS: [&str; 3] = ["http_headers", "emulated_headers", "status_codes"];
/// Note on fields that Centrifugo sends with each question.
const ONE_FIELD: &str = "not sent: `authorization` is the only field that can be set";
const FLAGS: [&str; 2] = ["binary_encoding", "include_connection_meta"];

impl Settings {
    fn take(given: &mut Options, at: &str, notes: &mut Notes) -> Self {
        let mut settings = Self::default();
        if let Some((option, text)) = given.text(&format!("{at}timeout")) {
            settings.timeout = duration(&text);
            if settings.timeout.is_none() {
                notes.add(Effect::Missing, &option, format!("{text:?} is no duration"));
            }
        }
        let mut authorized = String::new();
        let mut names = |key: &str| {
            let Some((option, mut names)) = given.texts(&format!("{at}{key}")) else {
                return Vec::new();
            };
            names.retain(|name| {
                let is_own = is_of_questions(name);
                if is_own {
                    let text = format!("{name} is left out: each request has its own");
                    notes.add(Effect::Changed, &option, text);
                }
                !is_own
            });
            if names.iter().any(|name| is_authorization(name)) {
                authorized = option;
            }
            names.sort();
            names.dedup();
            names
        };
        let [real, emulated, statuses] = &mut settings.lists;
        (*real, *emulated) = (names(LISTS[0]), names(LISTS[1]));
        let metadata = names("grpc_metadata");
        if !metadata.is_empty() {
            let text = "taken from the requests of all clients, not of those by GRPC alone";
            notes.add(Effect::Wider, &format!("{at}grpc_metadata"), text);
            join(real, metadata);
        }
        settings.flags = FLAGS.map(|key| given.is_on(&format!("{at}{key}")).is_some());
        for key in ["http.static_headers.", "static_http_headers."] {
            for (name, leaf) in given.below(&format!("{at}{key}")) {
                match leaf.value.as_str() {
                    Some(text) if is_authorization(&name) => {
                        settings.authorization = Some(text.to_owned());
                    }
                    _ => notes.add(Effect::Narrower, &leaf.option, ONE_FIELD),
                }
            }
        }
        for key in [
            "http.status_to_code_transforms",
            "http_status_to_code_transforms",
            "http_status_code_transforms",
        ] {
            let Some(leaf) = given.take(&format!("{at}{key}")) else {
                continue;
            };
            let all = leaf.value.as_array().into_iter().flatten();
            for value in all {
                match value.as_table().and_then(status) {
                    Some(text) => statuses.push(text),
                    None => {
                        let text = format!("not taken over: {value}");
                        notes.add(Effect::Narrower, &leaf.option, text);
                    }
                }
            }
        }
        for (name, leaf) in given.below(&format!("{at}http.tls.")) {
            if leaf.value.as_bool() != Some(false) && leaf.value.as_str() != Some("") {
                let text = format!(
                    "{name} is not taken over: certificates are checked with the authorities of \
                     the system"
                );
                notes.add(Effect::Narrower, &leaf.option, text);
            }
        }
        settings.keep_one_authorization(&authorized, notes);
        settings.grpc = Grpc::take(given, at);
        settings
    }

    /// The address of a backend as it is written here. Options for GRPC do not apply to one that is
    /// asked by HTTP.
    fn reach(&mut self, option: &str, endpoint: &str, notes: &mut Notes) -> Option<String> {
        let grpc = std::mem::take(&mut self.grpc);
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("grpc", endpoint));
        let host = rest.trim_end_matches('/');
        let is_known = matches!(scheme, "http" | "https" | "grpc" | "grpcs");
        if !is_known || scheme.starts_with("grpc") && (host.is_empty() || host.contains('/')) {
            let text = format!("{endpoint:?} is no address of HTTP or GRPC: no request is sent");
            notes.add(Effect::Narrower, option, text);
            return None;
        }
        if scheme != "grpc" {
            return Some(endpoint.to_owned());
        }
        for (option, text) in grpc.lost {
            notes.add(Effect::Narrower, &option, text);
        }
        self.authorization = grpc.authorization.or_else(|| self.authorization.take());
        self.keep_one_authorization(option, notes);
        let scheme = if grpc.is_secure { "grpcs" } else { scheme };
        let port = if host.contains(':') { "" } else { ":443" };
        Some(format!("{scheme}://{host}{port}"))
    }

    /// Merges two backends into one: the longer timeout, and the fields of both.
    fn join(&mut self, option: &str, other: Self, notes: &mut Notes) {
        if *self == other {
            return;
        }
        let text = "connect, refresh and rpc share one set of settings: each gets all their header \
                    fields, and the longest timeout";
        notes.add(Effect::Wider, option, text);
        let ms = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or("1s");
            throng_types::units::parse_duration_ms(text).unwrap_or_default()
        };
        if ms(&other.timeout) > ms(&self.timeout) {
            self.timeout = other.timeout;
        }
        for (names, other) in self.lists.iter_mut().zip(other.lists) {
            join(names, other);
        }
        for (flag, other) in self.flags.iter_mut().zip(other.flags) {
            *flag |= other;
        }
        self.authorization = self.authorization.take().or(other.authorization);
        self.keep_one_authorization(option, notes);
    }

    /// The client's own is not sent where the operator has set one.
    fn keep_one_authorization(&mut self, option: &str, notes: &mut Notes) {
        if self.authorization.is_none() {
            return;
        }
        for names in &mut self.lists[..2] {
            let before = names.len();
            names.retain(|name| !is_authorization(name));
            if names.len() < before {
                let text = "Authorization is left out: the backend gets the one of static_headers";
                notes.add(Effect::Narrower, option, text);
            }
        }
    }

    fn write(self, mut put: impl FnMut(&str, Value)) {
        let lists = LISTS.into_iter().zip(self.lists);
        for (key, names) in lists.filter(|(_, names)| !names.is_empty()) {
            put(key, names.into());
        }
        let texts = [
            ("timeout", self.timeout),
            ("authorization", self.authorization),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                put(key, text.into());
            }
        }
        for (key, _) in FLAGS
            .into_iter()
            .zip(self.flags)
            .filter(|(_, is_on)| *is_on)
        {
            put(key, true.into());
        }
    }
}

fn join(names: &mut Vec<String>, other: Vec<String>) {
    names.extend(other);
    names.sort();
    names.dedup();
}

impl Grpc {
    fn take(given: &mut Options, at: &str) -> Self {
        let mut grpc = Self::default();
        let (mut key, mut value) = (None, None);
        let leaves = ["grpc.", "grpc_"].map(|key| given.below(&format!("{at}{key}")));
        for (name, leaf) in leaves.into_iter().flatten() {
            if is_nothing(&leaf.value) {
                continue;
            }
            let text = leaf.value.as_str().unwrap_or_default();
            let lost = match name.as_str() {
                "credentials_key" => {
                    key = Some((leaf.option, text.to_owned()));
                    continue;
                }
                "credentials_value" => {
                    value = Some(text.to_owned());
                    continue;
                }
                "tls.enabled" => {
                    grpc.is_secure = leaf.value.as_bool() == Some(true) || text == "true";
                    continue;
                }
                "static_metadata.authorization" => {
                    grpc.authorization = Some(text.to_owned());
                    continue;
                }
                "compression" => "messages are not compressed",
                name if name.starts_with("static_metadata.") => ONE_FIELD,
                name => {
                    grpc.is_secure |= name == "cert_file";
                    "not taken over: certificates are checked with the authorities of the system"
                }
            };
            grpc.lost.push((leaf.option, lost.to_owned()));
        }
        match (key, value) {
            (Some((_, key)), Some(value)) if is_authorization(&key) => {
                grpc.authorization = Some(value);
            }
            (Some((option, _)), Some(_)) => grpc.lost.push((option, ONE_FIELD.to_owned())),
            _ => {}
        }
        grpc
    }
}

/// The meaning of a status, as one of ours.
fn status(table: &Table) -> Option<String> {
    let number = |table: &Table, key: &str| table.get(key).and_then(Value::as_integer);
    let word = |table: &Table, key: &str| text(table, key).unwrap_or_default();
    let status = number(table, "status_code")?;
    let part = |key: &str| {
        let part = table.get(key).and_then(Value::as_table)?;
        Some((part, number(part, "code").filter(|code| *code > 0)?))
    };
    let meaning = if let Some((error, code)) = part("to_error") {
        let kind = if is(error, "temporary") {
            "temporary"
        } else {
            "error"
        };
        format!("{status} {kind} {code} {}", word(error, "message"))
    } else {
        let (end, code) = part("to_disconnect")?;
        format!("{status} disconnect {code} {}", word(end, "reason"))
    };
    let meaning = meaning.trim_end().to_owned();
    ProxyStatus::parse(&meaning).map(|_| meaning)
}

struct Backend {
    name: String,
    endpoint: String,
    rpc_namespaces: Vec<String>,
    settings: Settings,
}

fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

/// Writes all backends, and returns which of them channels can ask.
pub(super) fn translate(given: &mut Options, out: &mut Output, notes: &mut Notes) -> Backends {
    let by_name = given.is_on("granular_proxy_mode").is_some();
    let named = given.tables("proxies");
    let named = named.iter().filter_map(|table| backend(table, notes));
    let mut backends: Vec<Backend> = named.collect();
    let older = Settings::take(given, "proxies.", notes);
    let methods = methods(given, by_name);
    let switch = given.is_on("rpc.without_namespace.proxy_enabled");
    let mut found: Vec<(&'static str, String, String, Settings)> = Vec::new();
    for (kind, at) in KINDS {
        // These are off by default; those of channels are used by the channels that name them.
        let is_client = at.starts_with("client.");
        let enabled = given.is_on(&format!("{at}enabled"));
        let mut settings = Settings::take(given, at, notes);
        let own = given.text(&format!("{at}endpoint"));
        let five = given.text(&format!("proxies.{kind}_endpoint"));
        let within = given.text(&format!("proxies.{kind}_timeout"));
        let is_five = own.is_none();
        if five.is_some() && is_five {
            settings = older.clone();
            settings.timeout = within.and_then(|(_, text)| duration(&text));
        }
        // A backend's name in place of an address, in version 5 and for calls.
        let name = match kind {
            "rpc" => given.text("rpc.without_namespace.proxy_name"),
            _ => None,
        };
        let name = name.or_else(|| given.text(&format!("{at}name")));
        let name = name.filter(|(_, name)| name != DEFAULT);
        let named = name.as_ref().map(|(option, name)| {
            let known = backends.iter().find(|backend| backend.name == *name);
            (option.clone(), known)
        });
        let address = match named {
            Some((option, Some(backend))) => {
                settings = backend.settings.clone();
                Some((option, backend.endpoint.clone()))
            }
            Some((option, None)) => {
                let text = "no backend has this name: no request is sent";
                notes.add(Effect::Narrower, &option, text);
                continue;
            }
            None => own.or(five),
        };
        let Some((option, address)) = address else {
            continue;
        };
        if is_client && enabled.is_none() && !is_five {
            continue;
        }
        let Some(address) = settings.reach(&option, &address, notes) else {
            continue;
        };
        if kind == "rpc" && switch.is_none() && !is_five {
            // Without a backend, Centrifugo has no methods outside a namespace.
            if methods.iter().any(|(_, of)| of == DEFAULT) {
                backends.push(Backend {
                    name: free_name("rpc", &backends),
                    endpoint: address,
                    rpc_namespaces: methods_of(&methods, DEFAULT),
                    settings,
                });
            }
            continue;
        }
        found.push((kind, option, address, settings));
    }
    let mut asked = Backends {
        by_name,
        ..Backends::default()
    };
    let mut base: Option<Settings> = None;
    for (kind, option, endpoint, settings) in found {
        let has_one = KINDS.iter().take(3).any(|(known, _)| *known == kind);
        let mut name = DEFAULT.to_owned();
        match &mut base {
            None => base = Some(settings),
            Some(base) if has_one => base.join(&option, settings, notes),
            Some(base) if *base == settings => {}
            Some(_) => {
                name = free_name(kind, &backends);
                backends.push(Backend {
                    name: name.clone(),
                    endpoint: endpoint.clone(),
                    rpc_namespaces: Vec::new(),
                    settings,
                });
            }
        }
        if name == DEFAULT {
            out.put(PROXY, kind, endpoint);
        }
        asked.kinds.push((kind, name));
    }
    for (namespace, of) in &methods {
        if of != DEFAULT && !backends.iter().any(|backend| backend.name == *of) {
            let text = "no backend has this name: its methods are unknown";
            notes.add(
                Effect::Narrower,
                &format!("rpc.namespaces.{namespace}"),
                text,
            );
        }
    }
    for backend in &mut backends {
        let own = methods_of(&methods, &backend.name);
        backend.rpc_namespaces.extend(own);
    }
    if asked.kinds.iter().any(|(kind, _)| *kind == "rpc") {
        let own = methods_of(&methods, DEFAULT);
        let mut all = backends.iter().map(|backend| &backend.rpc_namespaces);
        match own.is_empty() && all.all(Vec::is_empty) {
            // Methods of other namespaces are unknown there, too.
            true => out.put(PROXY, "rpc_namespaces", vec!["(none)".to_owned()]),
            false if own.is_empty() => {}
            false => out.put(PROXY, "rpc_namespaces", own),
        }
    }
    if let Some(base) = base {
        base.write(|key, value| out.put(PROXY, key, value));
    }
    for backend in backends {
        out.begin(BACKEND);
        out.put_last("name", backend.name.as_str());
        out.put_last("endpoint", backend.endpoint);
        if !backend.rpc_namespaces.is_empty() {
            out.put_last("rpc_namespaces", backend.rpc_namespaces);
        }
        backend
            .settings
            .write(|key, value| out.put_last(key, value));
        asked.names.push(backend.name);
    }
    asked
}

/// Makes up a name for a backend without one.
fn free_name(kind: &str, backends: &[Backend]) -> String {
    let mut name = format!("{DEFAULT}-{kind}");
    while backends.iter().any(|backend| backend.name == name) {
        name.push('-');
    }
    name
}

fn backend(table: &Table, notes: &mut Notes) -> Option<Backend> {
    let name = text(table, "name").unwrap_or_default();
    let endpoint = text(table, "endpoint").unwrap_or_default();
    let mut own = Options::plain(&format!("proxies.{name}."), table);
    own.take("name");
    own.take("endpoint");
    let mut settings = Settings::take(&mut own, "", notes);
    let endpoint = settings.reach(&format!("proxies.{name}.endpoint"), &endpoint, notes)?;
    for (_, leaf) in own.rest() {
        if !is_nothing(&leaf.value) {
            notes.add(Effect::Missing, &leaf.option, "not taken over");
        }
    }
    Some(Backend {
        name,
        endpoint,
        rpc_namespaces: Vec::new(),
        settings,
    })
}

fn methods_of(methods: &[(String, String)], name: &str) -> Vec<String> {
    let own = methods.iter().filter(|(_, of)| of == name);
    own.map(|(namespace, _)| namespace.clone()).collect()
}

/// Takes the namespaces of methods, each with the name of its backend; in version 5 the name alone
/// switches it on.
fn methods(given: &mut Options, by_name: bool) -> Vec<(String, String)> {
    let of = |table: &Table| {
        let five = text(table, "rpc_proxy_name").filter(|_| by_name);
        let is_on = is(table, "proxy_enabled") || five.is_some();
        let name = five.or_else(|| text(table, "proxy_name"));
        let name = name.unwrap_or_else(|| DEFAULT.to_owned());
        let namespace = text(table, "name")?;
        is_on.then_some((namespace, name))
    };
    let all = given.tables("rpc.namespaces");
    all.iter().filter_map(of).collect()
}
