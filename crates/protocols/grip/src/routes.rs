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
use throng_types::Save;

use throng_http1::origin::Destination;

use crate::headers::Header;

pub use file::{LineError, RouteError, RouteErrorKind, RoutesFile, parse_route_line, parse_routes};

/// Condition on the host of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub enum Domain {
    /// This host, in lower case, without a port.
    Exact(String),
    /// Any host that no route names.
    #[default]
    Any,
    /// None: the route is only found by its id.
    None,
}

/// Protocol that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
pub enum Protocol {
    /// HTTP requests, long polls and streams included.
    Http,
    /// WebSocket handshakes, whatever their scheme.
    Ws,
}

/// A route: a condition, options and targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
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
    /// True if responses are passed on without being read as instructions.
    pub no_grip: bool,
    /// Pushpin's log level for this route.
    pub log_level: Option<i32>,
    pub to: Arc<Destination>,
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
