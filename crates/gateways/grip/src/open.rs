//! The requests that are GRIP's: those that a route catches, and those of publishers.

use std::sync::Arc;

use throng_grip::routes::{Protocol, Route};
use throng_http1::origin::{OriginTarget, TargetAddress};
use throng_metrics::Counter;
use throng_session::http::send_page;
use throng_session::{Access, Claim, Incoming, KeyRole, Opened, Port, Rank, Reject};
use throng_ws::handshake;

use crate::Cx;
use crate::event::Session;
use crate::over_http::OverHttp;
use crate::proxied::Proxied;
use crate::publish::publish;
use crate::request::{BackendRequest, came_by_tls, host_of};
use crate::shared::{GripShared, PortKind};
use crate::stats::ClientInfo;
use crate::tunnel::Tunnel;

/// Claim on a request that a route catches.
const ROUTE: u8 = 0;
/// Claim on a request of a publisher.
const PUBLISH: u8 = 1;
/// Claim on a request for Pushpin's metrics.
const METRICS: u8 = 2;

/// Key of the page with Pushpin's metrics; no request's path equals it.
pub const PUSHPIN_METRICS: &str = "pushpin";

fn route(incoming: &Incoming<'_, '_>, grip: &GripShared) -> Option<Arc<Route>> {
    let request = incoming.request;
    let protocol = match request.wants_upgrade("websocket") {
        true => Protocol::Ws,
        false => Protocol::Http,
    };
    let routes = &grip.book().routes;
    let named = request.header("pushpin-route");
    match named.filter(|_| grip.options.accept_route) {
        Some(id) => routes.find_id(id, request.path()),
        None => {
            let is_tls = came_by_tls(incoming, grip);
            routes.find(protocol, is_tls, host_of(request), request.path())
        }
    }
    .cloned()
}

/// Whether this is a path of publishers on the API port.
pub(crate) fn is_publish_path(path: &str) -> bool {
    matches!(path, "/publish" | "/publish/" | "/recover" | "/recover/")
}

pub(crate) fn claim(incoming: &Incoming<'_, '_>, grip: &GripShared) -> Option<Claim> {
    let request = incoming.request;
    let path = request.path();
    match incoming.port {
        Port::Client => {
            let route = route(incoming, grip)?;
            Some(Claim {
                endpoint: ROUTE,
                // Where own endpoints stay, our page gives way to any route, and others to one
                // that names their path or a path below it.
                rank: match grip.options.own_endpoints && route.path_prefix.len() < path.len() {
                    true => Rank::Prefix,
                    false => Rank::Rule,
                },
                methods: None,
                checks_origin: false,
                preflight: false,
                streams_body: !request.wants_upgrade("websocket") && request.method != "CONNECT",
                pipelines: false,
                access: Access::Own,
                role: None,
                by_channel: false,
                body_bytes_max: Some(grip.options.body_bytes_max),
            })
        }
        Port::Api => is_publish_path(path).then(publish_claim),
        Port::Own { port, .. } => match grip.options.ports.get(usize::from(port))? {
            // `OPTIONS *` is of the server as a whole.
            PortKind::Http => (path != "*").then(publish_claim),
            PortKind::Metrics if matches!(path, "/" | "/metrics") => {
                Some(Claim::endpoint(METRICS, "GET, HEAD"))
            }
            PortKind::Metrics | PortKind::Stats | PortKind::Zmq(_) => None,
        },
    }
}

fn publish_claim() -> Claim {
    Claim {
        preflight: false,
        role: Some(KeyRole::Publish),
        ..Claim::endpoint(PUBLISH, "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")
    }
}

pub(crate) fn open(
    claim: &Claim,
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Session>, Reject> {
    match claim.endpoint {
        PUBLISH => Ok(publish(incoming, cx).map(Session::Publishing)),
        METRICS => {
            send_page(incoming, PUSHPIN_METRICS, cx);
            let keep_alive = incoming.request.keep_alive();
            Ok(Opened::Answered { keep_alive })
        }
        _ => ask_backend(incoming, cx).map(Opened::Session),
    }
}

fn ask_backend(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Session, Reject> {
    let request = incoming.request;
    let Some(route) = route(incoming, cx.own) else {
        return Err(Reject::new(404, "no route for this path"));
    };
    cx.count(Counter::GripClientRequests);
    let comes_by_proxy = cx.shared.forwarded.trusts(incoming.peer);
    let asked = BackendRequest::new(&route, incoming, (cx.own, cx.now), comes_by_proxy);
    if asked.forges_events() {
        cx.count(Counter::BadRequests);
        return Err(Reject::new(
            403,
            "clients may not send WebSocket events themselves",
        ));
    }
    if request.wants_upgrade("websocket") {
        let accept = handshake::accept(request.method, request.headers())?.key;
        // The target `test` speaks WebSocket itself, whatever the route's option.
        let over_http =
            |target: &OriginTarget| target.over_http && target.address != TargetAddress::Test;
        note_opened(&asked, true, cx);
        if !route.to.targets.iter().any(over_http) {
            let tunnel = Tunnel::start(asked, accept, cx);
            cx.set_deadline(None);
            return Ok(Session::Tunnel(Box::new(tunnel)));
        }
        let socket = OverHttp::start(asked, accept, cx);
        return Ok(Session::OverHttp(Box::new(socket)));
    }
    if request.method == "CONNECT" {
        let reject = Reject::new(405, "this server is not a forward proxy");
        return Err(reject.with("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    }
    note_opened(&asked, false, cx);
    let proxied = Proxied::ask(incoming, asked, cx);
    match incoming.is_open {
        true => cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms),
        false => cx.set_deadline(None),
    }
    Ok(Session::Proxied(Box::new(proxied)))
}

/// A client's request, for statistics.
fn note_opened(asked: &BackendRequest, is_websocket: bool, cx: &Cx<'_>) {
    cx.own.stats(|book| {
        let client = ClientInfo {
            id: cx.shared.node.client_id(cx.id),
            route: asked.route.id.as_deref().unwrap_or_default().into(),
            peer: asked.peer,
            is_websocket,
            is_tls: asked.is_tls,
        };
        book.opened(cx.id, client, cx.now.mono);
    });
}
