//! A client's request, kept for as long as a backend may have to be asked again.

use std::net::IpAddr;
use std::sync::Arc;

use throng_grip::headers::is_like;
use throng_grip::hold::{LinkTarget, resolve_link};
use throng_grip::proxy::{RequestRules, apply_cors, request_headers};
use throng_grip::routes::Route;
use throng_grip::ws_events::{claims_events, handshake_headers};
use throng_http1::Request;
use throng_http1::field::{Header, HeaderRef, fields};
use throng_http1::origin::OriginTarget;
use throng_http1::origin::{Destination, OriginFailure, OriginRequest, RequestRest};
use throng_session::Incoming;
use throng_types::{Now, Save};

use crate::shared::GripShared;

/// Value of `X-Forwarded-Proto` for a client by TLS.
#[derive(Clone, Copy, Save)]
enum ForwardedProto {
    Wss,
    Https,
}

impl ForwardedProto {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Wss => "wss",
            Self::Https => "https",
        }
    }
}

/// A client's request, as the backend gets it.
#[derive(Save)]
pub(crate) struct BackendRequest {
    pub(crate) route: Arc<Route>,
    pub(crate) method: Box<str>,
    /// Path and query, as the client wrote them.
    pub(crate) target: Box<str>,
    headers: Vec<Header>,
    /// As far as it is here; more than [`KEPT_BYTES_MAX`](crate::upload::KEPT_BYTES_MAX) of one
    /// that came in pieces stand for one that is not.
    pub(crate) body: Vec<u8>,
    pub(crate) peer: IpAddr,
    /// Whether a proxy in front has signed it: instructions of the backend are for that proxy.
    is_trusted: bool,
    /// Its client came by TLS.
    pub(crate) is_tls: bool,
    /// Value of `X-Forwarded-Proto` for the backend.
    forwarded_proto: Option<ForwardedProto>,
    /// Number of channels that publishers had been told of before the backend was asked.
    pub(crate) topics_told: u64,
}

/// Returns the host of a request. HTTP/1.0 need not name one, and is then answered as Pushpin does.
pub(crate) fn host_of<'r>(request: &Request<'r>) -> &'r str {
    match request.host() {
        "" => "localhost",
        host => host,
    }
}

/// Whether a client came by TLS: to us, or as far as a proxy in front is trusted.
pub(crate) fn came_by_tls(incoming: &Incoming<'_, '_>, grip: &GripShared) -> bool {
    let told = ["x-forwarded-proto", "x-forwarded-protocol"];
    let request = incoming.request;
    let by_proxy = grip.options.accept_forwarded_proto
        && told
            .iter()
            .find_map(|name| request.header(name))
            .is_some_and(|scheme| matches!(scheme.trim(), "https" | "wss"));
    incoming.is_tls || by_proxy
}

impl BackendRequest {
    pub(crate) fn new(
        route: &Arc<Route>,
        incoming: &Incoming<'_, '_>,
        (grip, now): (&GripShared, Now),
        comes_by_proxy: bool,
    ) -> Self {
        let request = incoming.request;
        let mut headers: Vec<Header> = request
            .headers()
            .filter(|(name, _)| !is_like(name, "Content-Length"))
            .map(|(name, value)| Header::new(name, value))
            .collect();
        let sig = request.header("grip-sig");
        let is_trusted = sig.is_some_and(|sig| grip.is_upstream(sig, now));
        if !is_trusted && !comes_by_proxy {
            // Otherwise strangers could claim any address (RFC 7239 section 8.1).
            headers.retain(|header| !is_like(&header.name, "Forwarded"));
        }
        // A target that is a whole URI names the host; the field is ignored.
        headers.retain(|header| !header.is("Host"));
        headers.insert(0, Header::new("Host", host_of(request)));
        let query = request.query();
        // A query may be empty and there.
        let mark = if request.target.contains('?') {
            "?"
        } else {
            ""
        };
        let is_tls = came_by_tls(incoming, grip);
        let forwarded_proto = match request.wants_upgrade("websocket") {
            _ if !grip.options.set_forwarded_proto || !is_tls => None,
            true => Some(ForwardedProto::Wss),
            false => Some(ForwardedProto::Https),
        };
        Self {
            route: route.clone(),
            method: request.method.into(),
            target: format!("{}{mark}{query}", request.path()).into(),
            headers,
            body: incoming.body.to_vec(),
            peer: incoming.peer,
            is_trusted,
            is_tls,
            forwarded_proto,
            topics_told: grip.topics_told.get(),
        }
    }

    /// Moves everything out but the route.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            route: self.route.clone(),
            method: std::mem::take(&mut self.method),
            target: std::mem::take(&mut self.target),
            headers: std::mem::take(&mut self.headers),
            body: std::mem::take(&mut self.body),
            peer: self.peer,
            is_trusted: self.is_trusted,
            is_tls: self.is_tls,
            forwarded_proto: self.forwarded_proto,
            topics_told: self.topics_told,
        }
    }

    fn fields(&self) -> Vec<HeaderRef<'_>> {
        fields(&self.headers)
    }

    /// Sentence for a client whose backend has failed.
    pub(crate) fn sentence(&self, failure: &OriginFailure) -> String {
        let sentence = failure.fault.sentence();
        match self.route.debug {
            true => format!("{sentence}: {}", failure.detail),
            false => sentence.to_owned(),
        }
    }

    /// Bytes of a path that the route matches.
    fn matched_bytes(&self, path: &str) -> usize {
        let prefix = &self.route.path_prefix;
        if path.starts_with(prefix) {
            prefix.len()
        } else {
            0
        }
    }

    /// A request to the route's path that has neither fields nor body yet.
    fn bare(&self, method: &str) -> OriginRequest {
        let route = &self.route;
        let path = route.origin_path(&self.target);
        OriginRequest {
            matched_bytes: self.matched_bytes(&path),
            ..OriginRequest::new(route.to.clone(), method, path, Vec::new())
        }
    }

    pub(crate) fn request(
        &self,
        last_ids: &[(&str, &str)],
        grip: &GripShared,
        now: Now,
    ) -> Box<OriginRequest> {
        Box::new(OriginRequest {
            headers: self.origin_headers(last_ids, grip, now),
            body: self.body.clone(),
            ..self.bare(&self.method)
        })
    }

    /// A request to a link that the backend gave, which is resolved against this one's path.
    pub(crate) fn link(
        &self,
        method: &str,
        uri: &str,
        last_ids: &[(&str, &str)],
        grip: &GripShared,
        now: Now,
    ) -> Option<Box<OriginRequest>> {
        let bare = self.bare(method);
        let (to, path) = match resolve_link(&bare.path, uri)? {
            LinkTarget::Path(path) => (bare.to.clone(), path),
            LinkTarget::Absolute(uri) => elsewhere(&bare.to, &uri)?,
            LinkTarget::SameScheme(rest) => {
                let tls = bare.to.targets.first().is_some_and(|target| target.tls);
                let scheme = if tls { "https" } else { "http" };
                elsewhere(&bare.to, &format!("{scheme}://{rest}"))?
            }
        };
        let mut headers = self.origin_headers(last_ids, grip, now);
        headers.retain(|header| !header.is("Content-Type") && !header.is("Last-Event-ID"));
        Some(Box::new(OriginRequest {
            to,
            matched_bytes: self.matched_bytes(&path),
            path,
            headers,
            ..bare
        }))
    }

    /// A request with a WebSocket's events.
    pub(crate) fn events(
        &self,
        own: Vec<Header>,
        body: Vec<u8>,
        grip: &GripShared,
        now: Now,
    ) -> Box<OriginRequest> {
        let mut headers = handshake_headers(&fields(&self.origin_headers(&[], grip, now)));
        headers.extend(own);
        Box::new(OriginRequest {
            headers,
            body,
            ..self.bare("POST")
        })
    }

    /// Whether it claims to be made of WebSocket events, which clients may not send.
    pub(crate) fn forges_events(&self) -> bool {
        !self.is_trusted && claims_events(&self.fields())
    }

    /// Whether the backend's answers are read as instructions.
    pub(crate) fn may_instruct(&self) -> bool {
        !self.route.no_grip && !self.is_trusted
    }

    /// A WebSocket's handshake. Its extensions give way to ours, since messages are read; where
    /// they are not, they pass.
    pub(crate) fn upgrade(&self, grip: &GripShared, now: Now) -> Box<OriginRequest> {
        const EXTENSIONS: &str = "Sec-WebSocket-Extensions";
        let mut fields = self.fields();
        if self.may_instruct() {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(EXTENSIONS));
            fields.push((EXTENSIONS, b"grip"));
        }
        let mut headers = self.headers_of(&fields, &[], grip, now);
        // The client's offer ends at this hop; this is our own.
        headers.push(Header::new("Upgrade", "websocket"));
        Box::new(OriginRequest {
            headers,
            rest: RequestRest::Upgrade,
            ..self.bare(&self.method)
        })
    }

    fn origin_headers(
        &self,
        last_ids: &[(&str, &str)],
        grip: &GripShared,
        now: Now,
    ) -> Vec<Header> {
        self.headers_of(&self.fields(), last_ids, grip, now)
    }

    fn headers_of(
        &self,
        fields: &[HeaderRef<'_>],
        last_ids: &[(&str, &str)],
        grip: &GripShared,
        now: Now,
    ) -> Vec<Header> {
        let route = &self.route;
        let sig = grip.sig(route, now);
        let peer = self.peer.to_canonical().to_string();
        let rules = RequestRules {
            is_trusted: self.is_trusted,
            grip: !route.no_grip,
            orig_headers: route.orig_headers,
            sig: sig.as_deref(),
            last_ids,
            forwarded_proto: self.forwarded_proto.map(ForwardedProto::as_str),
            strip_route: grip.options.accept_route,
            xff: if self.is_trusted {
                grip.options.xff_trusted
            } else {
                grip.options.xff
            },
            peer_address: &peer,
            host: route.as_host.as_deref(),
            headers: &route.headers,
            cdn_loop: &grip.options.cdn_loop,
        };
        request_headers(fields, &rules)
    }

    pub(crate) fn cors(&self, headers: &mut Vec<Header>) {
        if self.route.auto_cross_origin {
            apply_cors(&self.fields(), headers);
        }
    }
}

/// Another origin than the request's, and the path there.
fn elsewhere(to: &Destination, uri: &str) -> Option<(Arc<Destination>, String)> {
    let (scheme, rest) = uri.split_once("://")?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let mut target =
        OriginTarget::from_url(&format!("{}://{authority}", scheme.to_ascii_lowercase())).ok()?;
    target.host = Some(authority.to_owned());
    let to = Destination {
        targets: vec![target],
        ..*to
    };
    Some((Arc::new(to), path))
}
