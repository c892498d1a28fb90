//! Where an origin is, and which connections to it can stand in for each other.

use std::sync::Arc;

use throng_grip::routes::{BadOrigin, Route, Target, TargetAddress};

/// Where one URL is asked: for requests that go to that and nowhere else.
#[derive(Clone, Debug)]
pub struct Address {
    /// To its host alone.
    pub route: Arc<Route>,
    /// The field `Host`.
    pub host: String,
    /// The path with the query.
    pub path: String,
}

impl Address {
    /// From `http://…` or `https://…`; connecting and the answer's head have this long each.
    ///
    /// # Errors
    /// If it is no such URL.
    pub fn from_url(url: &str, timeout_ms: u64) -> Result<Self, BadOrigin> {
        let (scheme, rest) = url.split_once("://").ok_or(BadOrigin)?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let route = Route {
            connect_timeout_ms: timeout_ms,
            response_timeout_ms: timeout_ms,
            targets: vec![Target::from_url(&format!("{scheme}://{host}"))?],
            ..Route::default()
        };
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        Ok(Self {
            route: Arc::new(route),
            host: host.to_owned(),
            path,
        })
    }
}

/// Where an origin is, as a route says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) insecure: bool,
}

/// What makes two connections interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) place: Place,
    /// The name that the certificate was checked for; empty without TLS.
    pub(crate) name: String,
}

impl Key {
    /// Where a target is. The target `test` is at port 0, where no other is.
    pub(crate) fn of(target: &Target, requested_host: &str) -> Self {
        let TargetAddress::Origin { host, port } = &target.address else {
            return Self {
                place: Place {
                    host: "test".to_owned(),
                    port: 0,
                    tls: false,
                    insecure: false,
                },
                name: String::new(),
            };
        };
        let asked = target.host.as_deref().unwrap_or(requested_host);
        let asked = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        let name = if target.trust_connect_host || asked.is_empty() {
            host.as_str()
        } else {
            asked
        };
        Self {
            place: Place {
                host: host.clone(),
                port: *port,
                tls: target.tls,
                insecure: target.insecure,
            },
            // Without TLS it makes no difference.
            name: if target.tls {
                name.to_owned()
            } else {
                String::new()
            },
        }
    }
}
