//! Backends that are asked on behalf of clients.
//!
//! What is asked by HTTP is taken over: one backend for each kind of question, and those that have
//! names. What needs another one stays closed: who may do something is never decided by nobody.

use toml::{Table, Value};

use super::given::Given;
use super::note::{Effect, Notes};
use super::output::Output;
use super::server::duration;

const PROXY: &str = "[proxy]";
const BACKEND: &str = "[[proxy.backend]]";
const DEFAULT: &str = "default";

/// Which backends there are now.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The kinds of questions that have one without a name.
    kinds: Vec<&'static str>,
    names: Vec<String>,
    /// As in version 5: a name alone says that somebody is asked.
    by_name: bool,
}

impl Asked {
    /// What one channel's options say of a kind of question: the option that says that a backend
    /// is asked, and its name if there is such a backend.
    pub(super) fn of(&self, kind: &str, given: &mut Given) -> Option<(String, Option<String>)> {
        let named = given.text(&format!("{kind}_proxy_name"));
        let enabled = given.is_on(&format!("{kind}_proxy_enabled"));
        let by_name = named.clone().filter(|_| self.by_name);
        let option = enabled.or_else(|| by_name.map(|(option, _)| option))?;
        let name = named.map_or_else(|| DEFAULT.to_owned(), |(_, name)| name);
        let is_known = match name.as_str() {
            DEFAULT => self.kinds.contains(&kind),
            name => self.names.iter().any(|known| known == name),
        };
        Some((option, is_known.then_some(name)))
    }
}

/// Writes that a backend is asked in a channel.
pub(super) fn put_asked(kind: &str, name: &str, put: &mut impl FnMut(&str, Value)) {
    put(&format!("{kind}_proxy_enabled"), true.into());
    if name != DEFAULT {
        put(&format!("{kind}_proxy_name"), name.into());
    }
}

/// Each kind, its section in version 6 and its address in version 5.
const KINDS: [(&str, &str, &str); 7] = [
    (
        "connect",
        "client.proxy.connect",
        "proxies.connect_endpoint",
    ),
    (
        "refresh",
        "client.proxy.refresh",
        "proxies.refresh_endpoint",
    ),
    (
        "subscribe",
        "channel.proxy.subscribe",
        "proxies.subscribe_endpoint",
    ),
    (
        "publish",
        "channel.proxy.publish",
        "proxies.publish_endpoint",
    ),
    (
        "sub_refresh",
        "channel.proxy.sub_refresh",
        "proxies.sub_refresh_endpoint",
    ),
    ("rpc", "rpc.proxy", "proxies.rpc_endpoint"),
    (
        "cache_empty",
        "channel.proxy.cache_empty",
        "proxies.cache_empty_endpoint",
    ),
];

/// Writes the backends.
pub(super) fn translate(given: &mut Given, out: &mut Output, notes: &mut Notes) -> Asked {
    let by_name = given.is_on("granular_proxy_mode").is_some();
    let backends = backends(given, notes);
    let named = |name: &str| backends.iter().find(|backend| backend.name == name);
    let mut headers: Vec<String> = Vec::new();
    let mut emulated: Vec<String> = Vec::new();
    let mut timeout: Option<String> = None;
    let (mut is_binary, mut has_meta) = (false, false);
    let mut known = Vec::new();
    let own = given.texts("proxies.http_headers");
    headers.extend(own.into_iter().flat_map(|(_, names)| names));
    for (kind, path, older) in KINDS {
        // These are off unless they are switched on; those of channels are used where channels
        // say so.
        let is_client = path.starts_with("client.");
        let enabled = given.is_on(&format!("{path}.enabled"));
        let names = given.texts(&format!("{path}.http_headers"));
        let said = given.texts(&format!("{path}.emulated_headers"));
        let within = given.text(&format!("{path}.timeout"));
        let binary = given.is_on(&format!("{path}.binary_encoding"));
        let meta = given.is_on(&format!("{path}.include_connection_meta"));
        let address = given.text(&format!("{path}.endpoint"));
        let is_older = address.is_none();
        let address = address.or_else(|| given.text(older));
        // A name in place of an address, of version 5 and of calls.
        let name = match kind {
            "rpc" => given.text("rpc.without_namespace.proxy_name"),
            _ => None,
        };
        let name = name.or_else(|| given.text(&format!("{path}.name")));
        let by_name = name.and_then(|(option, name)| Some((option, named(&name)?)));
        let address = by_name
            .map(|(option, backend)| (option, backend.endpoint.clone()))
            .or(address);
        let Some((option, address)) = address else {
            continue;
        };
        if is_client && enabled.is_none() && !is_older {
            continue;
        }
        if !address.starts_with("http://") && !address.starts_with("https://") {
            let text = "only backends that are asked by HTTP are: nobody is asked";
            notes.add(Effect::Narrower, &option, text);
            continue;
        }
        out.put(PROXY, kind, address);
        known.push(kind);
        headers.extend(names.into_iter().flat_map(|(_, names)| names));
        emulated.extend(said.into_iter().flat_map(|(_, names)| names));
        is_binary |= binary.is_some();
        has_meta |= meta.is_some();
        let within = within.and_then(|(_, text)| duration(&text));
        if let Some(within) = within.filter(|within| timeout.as_ref() != Some(within)) {
            if timeout.is_some() {
                let text = "one timeout holds for all backends: the last one was taken";
                notes.add(Effect::Changed, &format!("{path}.timeout"), text);
            }
            timeout = Some(within);
        }
    }
    given.is_on("rpc.without_namespace.proxy_enabled");
    let methods = methods(given);
    let own = |name: &str| -> Vec<String> {
        let own = methods.iter().filter(|(_, of)| of == name);
        own.map(|(namespace, _)| namespace.clone()).collect()
    };
    headers.sort();
    headers.dedup();
    emulated.sort();
    emulated.dedup();
    if known.is_empty() && backends.is_empty() {
        return Asked::default();
    }
    let of_default = own(DEFAULT);
    for (key, names) in [
        ("http_headers", headers),
        ("emulated_headers", emulated),
        ("rpc_namespaces", of_default),
    ] {
        if !names.is_empty() && !known.is_empty() {
            out.put(PROXY, key, names);
        }
    }
    if let Some(timeout) = timeout {
        out.put(PROXY, "timeout", timeout);
    }
    for (key, is_on) in [
        ("binary_encoding", is_binary),
        ("include_connection_meta", has_meta),
    ] {
        if is_on {
            out.put(PROXY, key, true);
        }
    }
    for backend in &backends {
        out.begin(BACKEND);
        out.put_last("name", backend.name.as_str());
        out.put_last("endpoint", backend.endpoint.as_str());
        let methods = own(&backend.name);
        if !methods.is_empty() {
            out.put_last("rpc_namespaces", methods);
        }
        for (key, value) in &backend.others {
            out.put_last(key, value.clone());
        }
    }
    Asked {
        kinds: known,
        names: backends.into_iter().map(|backend| backend.name).collect(),
        by_name,
    }
}

/// A backend with a name.
struct Backend {
    name: String,
    endpoint: String,
    others: Vec<(&'static str, Value)>,
}

/// Takes the backends with names.
fn backends(given: &mut Given, notes: &mut Notes) -> Vec<Backend> {
    let leaf = given.take("proxies");
    let all = leaf
        .iter()
        .filter_map(|leaf| leaf.value.as_array())
        .flatten();
    let tables = all.filter_map(Value::as_table);
    tables.filter_map(|table| backend(table, notes)).collect()
}

fn backend(table: &Table, notes: &mut Notes) -> Option<Backend> {
    let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, endpoint) = (text("name").to_owned(), text("endpoint").to_owned());
    let option = |key: &str| format!("proxies.{name}.{key}");
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        let text = "only backends that are asked by HTTP are: nobody is asked";
        notes.add(Effect::Narrower, &option("endpoint"), text);
        return None;
    }
    let mut others = Vec::new();
    for (key, value) in table {
        let is_on = value.as_bool() == Some(true);
        let is_empty = value.as_bool() == Some(false)
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_table().is_some_and(Table::is_empty)
            || value.as_str().is_some_and(str::is_empty);
        match key.as_str() {
            "name" | "endpoint" => {}
            "timeout" => {
                let given = value.as_str().and_then(duration);
                others.extend(given.map(|text| ("timeout", text.into())));
            }
            "http_headers" if !is_empty => others.push(("http_headers", value.clone())),
            "emulated_headers" if !is_empty => others.push(("emulated_headers", value.clone())),
            "binary_encoding" if is_on => others.push(("binary_encoding", true.into())),
            "include_connection_meta" if is_on => {
                others.push(("include_connection_meta", true.into()));
            }
            _ if is_empty => {}
            key => notes.add(Effect::Missing, &option(key), "this is not taken over"),
        }
    }
    Some(Backend {
        name,
        endpoint,
        others,
    })
}

/// Takes the namespaces of methods, each with the name of its backend.
fn methods(given: &mut Given) -> Vec<(String, String)> {
    let leaf = given.take("rpc.namespaces");
    let all = leaf
        .iter()
        .filter_map(|leaf| leaf.value.as_array())
        .flatten();
    let of = |table: &Table| {
        let text = |key: &str| table.get(key).and_then(Value::as_str);
        let is_on = table.get("proxy_enabled").and_then(Value::as_bool) == Some(true);
        let name = text("proxy_name").unwrap_or(DEFAULT).to_owned();
        let namespace = text("name")?.to_owned();
        is_on.then_some((namespace, name))
    };
    all.filter_map(Value::as_table).filter_map(of).collect()
}
