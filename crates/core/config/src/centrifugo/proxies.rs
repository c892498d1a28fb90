//! Backends that are asked on behalf of clients.
//!
//! One backend for each kind of question is taken over, by HTTP. What needs another one stays
//! closed: who may do something is never decided by nobody.

use super::given::Given;
use super::note::{Effect, Notes};
use super::output::Output;
use super::server::duration;

const PROXY: &str = "[proxy]";

/// Which kinds of questions have a backend now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) subscribe: bool,
    pub(super) publish: bool,
    pub(super) sub_refresh: bool,
}

/// Each kind, its section in version 6 and its address in version 5.
const KINDS: [(&str, &str, &str); 6] = [
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
];

/// Writes the backends.
pub(super) fn translate(given: &mut Given, out: &mut Output, notes: &mut Notes) -> Asked {
    let mut headers: Vec<String> = Vec::new();
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
        let within = given.text(&format!("{path}.timeout"));
        let binary = given.is_on(&format!("{path}.binary_encoding"));
        let meta = given.is_on(&format!("{path}.include_connection_meta"));
        let address = given.text(&format!("{path}.endpoint"));
        let is_older = address.is_none();
        let address = address.or_else(|| given.text(older));
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
    headers.sort();
    headers.dedup();
    if known.is_empty() {
        return Asked::default();
    }
    if !headers.is_empty() {
        out.put(PROXY, "http_headers", headers);
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
    Asked {
        subscribe: known.contains(&"subscribe"),
        publish: known.contains(&"publish"),
        sub_refresh: known.contains(&"sub_refresh"),
    }
}
