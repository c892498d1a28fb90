//! Checks of backends.

use std::collections::BTreeSet;

use super::{Checks, NAMESPACE_BYTES_MAX, is_name};
use crate::layout::element;
use crate::options::DEFAULT_BACKEND;

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
    /// Checks the names and addresses of backends.
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
        let mut seen = BTreeSet::from([DEFAULT_BACKEND]);
        for (index, backend) in proxy.backends.iter().enumerate() {
            let path = element("proxy.backend", index);
            let at = format!("{path}.name");
            let name = backend.name.as_str();
            if !self.is_set(&at) {
                self.problem(&path, format!("{path} has no name: add name = \"…\""));
            } else if !name.is_empty() && !is_name(name, NAMESPACE_BYTES_MAX) {
                self.wrong(&at, "expected ASCII letters, digits, \"-\", \"_\" or \".\"");
            } else if !name.is_empty() && !seen.insert(name) {
                let text = match name {
                    DEFAULT_BACKEND => format!("{name:?} is the backend of [proxy]"),
                    _ => format!("the backend {name:?} appears twice"),
                };
                self.wrong(&at, text);
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
