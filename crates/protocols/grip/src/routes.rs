//! Routes: the choice of an origin for each request, a pure function of protocol, TLS, host and
//! path.
//!
//! Never: reads files or connects.

mod file;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::headers::Header;

pub use file::{LineError, RouteError, RouteErrorKind, RoutesFile, parse_route_line, parse_routes};

/// Condition on the host of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// This host, in lower case, without a port.
    Exact(String),
    /// Any host that no route names.
    Any,
    /// None: the route is only found by its id.
    None,
}

/// Protocol that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP requests, long polls and streams included.
    Http,
    /// WebSocket handshakes, whatever their scheme.
    Ws,
}

/// A route: a condition, options and targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Condition: host of the request.
    pub domain: Domain,
    pub protocol: Option<Protocol>,
    /// Condition: whether the client came by TLS, or either.
    pub is_tls: Option<bool>,
    /// Condition: how the path begins; empty is any.
    pub path_prefix: String,
    /// The route's id, for `Pushpin-Route` and statistics.
    pub id: Option<String>,
    /// Issuer of `Grip-Sig`, instead of the global one.
    pub sig_iss: Option<String>,
    /// The key of `Grip-Sig`, instead of the global one: see [`crate::sig::KeyText`].
    pub sig_key: Option<String>,
    /// Goes in front of the channel names that backends use.
    pub channel_prefix: String,
    /// Repeat every field of the request with the prefix `eb9bf0f5-`.
    pub orig_headers: bool,
    /// The host that origins see, instead of the client's.
    pub as_host: Option<String>,
    /// Bytes taken off the path's front.
    pub path_remove_bytes: usize,
    /// Text put in front of the path then.
    pub path_prepend: String,
    /// Errors say what happened.
    pub debug: bool,
    /// CORS headers are filled in.
    pub auto_cross_origin: bool,
    /// Added to responses of WebSocket and HTTP requests to the origin; an empty value removes.
    pub headers: Vec<Header>,
    /// True if responses are read as instructions.
    pub grip: bool,
    /// Pushpin's log level for this route.
    pub log_level: Option<i32>,
    /// Time to connect to one origin, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Time for the head of an answer after the request was written, in milliseconds; 0 waits for
    /// ever.
    pub response_timeout_ms: u64,
    /// In the order in which they are tried, at least one.
    pub targets: Vec<Target>,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            domain: Domain::Any,
            protocol: None,
            is_tls: None,
            path_prefix: String::new(),
            id: None,
            sig_iss: None,
            sig_key: None,
            channel_prefix: String::new(),
            orig_headers: false,
            as_host: None,
            path_remove_bytes: 0,
            path_prepend: String::new(),
            debug: false,
            auto_cross_origin: false,
            headers: Vec::new(),
            grip: true,
            log_level: None,
            connect_timeout_ms: 5_000,
            response_timeout_ms: 60_000,
            targets: Vec::new(),
        }
    }
}

impl Route {
    /// The path, with its query, as origins see it.
    #[must_use]
    pub fn origin_path(&self, path: &str) -> String {
        // A cut inside a character, or beyond the end, takes the whole path.
        let rest = path.get(self.path_remove_bytes..).unwrap_or_default();
        let out = format!("{}{rest}", self.path_prepend);
        if out.starts_with('/') {
            out
        } else {
            format!("/{out}")
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    /// An origin. IPv6 addresses are without brackets.
    Origin {
        /// Host name or IP address.
        host: String,
        /// Port, from 1 to 65535.
        port: u16,
    },
    /// Pushpin's built-in test origin.
    Test,
}

/// One origin of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub address: TargetAddress,
    pub tls: bool,
    /// Do not check its certificate.
    pub insecure: bool,
    /// Check the certificate for the connected host, not for the requested one.
    pub trust_connect_host: bool,
    /// True if it may be told to connect to addresses that policies forbid.
    pub trusted: bool,
    /// The host that this origin sees.
    pub host: Option<String>,
    /// Channels that each WebSocket is subscribed to, and cannot leave.
    pub subscriptions: Vec<String>,
    /// WebSockets become HTTP requests.
    pub over_http: bool,
    pub one_event: bool,
}

impl Target {
    /// A trusted target without options.
    #[must_use]
    pub fn new(address: TargetAddress) -> Self {
        Self {
            address,
            tls: false,
            insecure: false,
            trust_connect_host: false,
            trusted: true,
            host: None,
            subscriptions: Vec::new(),
            over_http: false,
            one_event: false,
        }
    }

    /// From `http://host:port` or `https://host:port`; the port may be left out.
    pub fn from_url(url: &str) -> Result<Self, OriginUrlError> {
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(OriginUrlError),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(OriginUrlError);
        }
        let has_port = match authority.rsplit_once(']') {
            Some((_, rest)) => !rest.is_empty(),
            None => authority.contains(':'),
        };
        let with_port = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{}", if tls { 443 } else { 80 })
        };
        let address = TargetAddress::parse(&with_port).map_err(|_| OriginUrlError)?;
        Ok(Self {
            tls,
            ..Self::new(address)
        })
    }
}

/// An origin that is no `http://host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin must be http://host:port or https://host:port")]
pub struct OriginUrlError;

/// A target in Pushpin's form that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteTargetError {
    #[error("a target must be host:port, [address]:port or test")]
    Format,
    #[error("a target's port must be from 1 to 65535")]
    Port,
}

impl TargetAddress {
    /// From `host:port` or `[v6]:port`.
    fn parse(text: &str) -> Result<Self, RouteTargetError> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(':'),
        }
        .filter(|(host, _)| !host.is_empty())
        .ok_or(RouteTargetError::Format)?;
        match port.parse() {
            Ok(0) | Err(_) => Err(RouteTargetError::Port),
            Ok(port) => Ok(Self::Origin {
                host: host.to_owned(),
                port,
            }),
        }
    }
}

/// All routes, indexed by host and id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    all: Vec<Arc<Route>>,
    /// Indexes into `all`, best first for any request that they match.
    by_domain: BTreeMap<String, Vec<usize>>,
    any_domain: Vec<usize>,
    by_id: BTreeMap<String, usize>,
}

/// A route that could never be selected, or would make another one ambiguous.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DuplicateRoute {
    #[error("another route has the same condition")]
    Condition,
    #[error("another route has the id '{0}'")]
    Id(String),
}

impl Routes {
    /// Adds a route, unless it collides with another.
    pub fn add(&mut self, route: Route) -> Result<(), DuplicateRoute> {
        if let Some(id) = route.id.as_ref().filter(|id| self.by_id.contains_key(*id)) {
            return Err(DuplicateRoute::Id(id.clone()));
        }
        let index = self.all.len();
        let rank = |route: &Route| {
            let path_bytes = route.path_prefix.len();
            Reverse((route.protocol.is_some(), path_bytes, route.is_tls.is_some()))
        };
        let same = |other: &Route| {
            (other.protocol, other.is_tls, &other.path_prefix)
                == (route.protocol, route.is_tls, &route.path_prefix)
        };
        let list = match &route.domain {
            Domain::None => None,
            Domain::Any => Some(&mut self.any_domain),
            Domain::Exact(domain) => Some(self.by_domain.entry(domain.clone()).or_default()),
        };
        if let Some(list) = list {
            if list
                .iter()
                .filter_map(|&at| self.all.get(at))
                .any(|other| same(other))
            {
                return Err(DuplicateRoute::Condition);
            }
            let at = list.partition_point(|&at| {
                self.all
                    .get(at)
                    .is_some_and(|other| rank(other) <= rank(&route))
            });
            list.insert(at, index);
        }
        if let Some(id) = &route.id {
            self.by_id.insert(id.clone(), index);
        }
        self.all.push(Arc::new(route));
        Ok(())
    }

    /// The one of these routes that says the same.
    #[must_use]
    pub fn same(&self, route: &Route) -> Option<&Arc<Route>> {
        self.all.iter().find(|known| ***known == *route)
    }

    /// The route of a request. `host` may have a port and any case.
    ///
    /// The routes of that host are asked, or those of `*` if none names the host; a host with
    /// routes of its own never falls back. Of those that match, one that names the protocol
    /// wins, then the longest path, then one that names TLS.
    #[must_use]
    pub fn find(
        &self,
        protocol: Protocol,
        is_tls: bool,
        host: &str,
        path: &str,
    ) -> Option<&Arc<Route>> {
        let host = without_port(host).to_ascii_lowercase();
        let list = self.by_domain.get(&host).unwrap_or(&self.any_domain);
        list.iter()
            .filter_map(|&at| self.all.get(at))
            .find(|route| {
                route.protocol.is_none_or(|wanted| wanted == protocol)
                    && route.is_tls.is_none_or(|wanted| wanted == is_tls)
                    && path.starts_with(&route.path_prefix)
            })
    }

    /// The route with an id (`Pushpin-Route`), if the path fits its condition.
    #[must_use]
    pub fn find_id(&self, id: &str, path: &str) -> Option<&Arc<Route>> {
        let route = self.all.get(*self.by_id.get(id)?)?;
        path.starts_with(&route.path_prefix).then_some(route)
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.all.iter().map(|route| &**route)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// A host without its port; an IPv6 address keeps its brackets away.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}
