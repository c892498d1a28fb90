//! Checks of backends, and of the channels that use them.

use std::collections::BTreeSet;

use super::{Checks, is_namespace_name};
use crate::layout::element;
use crate::options::{ChannelOptions, DEFAULT_BACKEND, RecoveryMode};

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
    /// Checks the backends that a channel's options name.
    pub(super) fn asked(&mut self, path: &str, options: &ChannelOptions) {
        let proxy = self.config.proxy.as_ref();
        let is_known = |name: &str| {
            let mut backends = proxy.into_iter().flat_map(|proxy| &proxy.backends);
            backends.any(|backend| backend.name == name)
        };
        let url = |of: fn(&crate::Proxy) -> &Option<String>| {
            proxy.is_some_and(|proxy| of(proxy).is_some())
        };
        for (key, is_on, name, has_url) in [
            (
                "subscribe",
                options.subscribe_proxy_enabled,
                &options.subscribe_proxy_name,
                url(|it| &it.subscribe),
            ),
            (
                "publish",
                options.publish_proxy_enabled,
                &options.publish_proxy_name,
                url(|it| &it.publish),
            ),
            (
                "sub_refresh",
                options.sub_refresh_proxy_enabled,
                &options.sub_refresh_proxy_name,
                url(|it| &it.sub_refresh),
            ),
            (
                "cache_empty",
                options.cache_empty_proxy_enabled,
                &options.cache_empty_proxy_name,
                url(|it| &it.cache_empty),
            ),
        ] {
            let is_default = name == DEFAULT_BACKEND;
            if is_on && is_default && !has_url {
                let path = format!("{path}.{key}_proxy_enabled");
                self.problem(&path, format!("{path}: it needs proxy.{key}"));
            }
            if !is_default && !is_known(name) {
                let path = format!("{path}.{key}_proxy_name");
                let message = format!("{path}: no [[proxy.backend]] has the name {name:?}");
                self.problem(&path, message);
            }
        }
        if options.cache_empty_proxy_enabled && options.force_recovery_mode != RecoveryMode::Cache {
            let path = format!("{path}.cache_empty_proxy_enabled");
            let message = format!("{path}: it needs force_recovery_mode = \"cache\"");
            self.problem(&path, message);
        }
    }

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
            } else if !name.is_empty() && !is_namespace_name(name) {
                let message =
                    format!("{at}: expected ASCII letters, digits, \"-\", \"_\" or \".\"");
                self.problem(&at, message);
            } else if !name.is_empty() && !seen.insert(name) {
                let message = match name {
                    DEFAULT_BACKEND => format!("{at}: {name:?} is the backend of [proxy]"),
                    _ => format!("{at}: the backend {name:?} appears twice"),
                };
                self.problem(&at, message);
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
                    let message = format!("{at}: Throng sets {name} itself; remove it");
                    self.problem(&at, message);
                } else if is_authorized && name.eq_ignore_ascii_case("Authorization") {
                    let message =
                        format!("{at}: {path}.authorization sets {name} too; keep one of the two");
                    self.problem(&at, message);
                }
            }
        }
    }

    fn methods<'a>(&mut self, path: &str, name: &'a str, seen: &mut BTreeSet<&'a str>) {
        let at = format!("{path}.rpc_namespaces");
        if name.contains(':') {
            self.problem(
                &at,
                format!("{at}: {name:?} has a colon; give only the part before it"),
            );
        } else if !seen.insert(name) {
            self.problem(&at, format!("{at}: {name:?} appears twice"));
        }
    }
}
