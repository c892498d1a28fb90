//! The requests that routes catch.

use std::sync::Arc;

use throng_grip::routes::{Protocol, Route};
use throng_http1::Request;
use throng_metrics::Counter;

use super::GripDesk;
use super::asked::{Asked, came_by_tls};
use super::over_http::{OverHttp, accept_key};
use super::proxied::Proxied;
use super::tunnel::Tunnel;
use crate::Desk;
use crate::api::{Incoming, Reject};
use crate::effects::Fx;
use crate::http::Next;
use crate::route::{Endpoint, Port};
use crate::session::Kind;

/// The route of a request, and the desk that belongs to it.
pub(crate) fn route<'d>(
    request: &Request<'_>,
    desk: &'d Desk,
) -> Option<(&'d GripDesk, &'d Arc<Route>)> {
    let grip = desk.grip.as_ref()?;
    let protocol = if request.wants_upgrade("websocket") {
        Protocol::Ws
    } else {
        Protocol::Http
    };
    let routes = &grip.options.routes;
    let named = request.header("pushpin-route");
    let route = match named.filter(|_| grip.options.accept_route) {
        Some(id) => routes.find_id(id, request.path()),
        None => {
            let is_tls = came_by_tls(request, grip);
            routes.find(protocol, is_tls, request.host(), request.path())
        }
    }?;
    Some((grip, route))
}

/// Whether a request's body may go to a backend while it still comes.
pub(crate) fn streams(request: &Request<'_>, desk: &Desk) -> bool {
    let endpoint = Endpoint::find(Port::Client, request.path());
    let is_plain = !request.wants_upgrade("websocket") && request.method != "CONNECT";
    is_plain
        && route(request, desk).is_some_and(|(_, route)| {
            endpoint.is_none_or(|endpoint| outranks(route, endpoint, request.path()))
        })
}

/// Whether a route goes before an endpoint of our own: our page gives way to any route, and
/// the others to a route that names their path or one below it.
pub(crate) fn outranks(route: &Route, endpoint: Endpoint, path: &str) -> bool {
    endpoint == Endpoint::Page || route.path_prefix.len() >= path.len()
}

/// Hands a request to its backend.
pub(crate) fn open(
    incoming: &Incoming<'_, '_>,
    (grip, route): (&GripDesk, &Arc<Route>),
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    let request = incoming.request;
    desk.board.count(Counter::GripClientRequests);
    if request.wants_upgrade("websocket") {
        let accept = accept_key(request);
        let accept = accept.map_err(|refusal| Reject::new(refusal.status(), refusal.reason()))?;
        let asked = Asked::new(route, request, &[], incoming.peer, (grip, fx.now));
        if !route.targets.iter().any(|target| target.over_http) {
            let tunnel = Tunnel::start(incoming.id, asked, accept, grip, fx);
            fx.deadline = Some(None);
            return Ok(Next::Becomes(Kind::Tunnel(Box::new(tunnel))));
        }
        let socket = OverHttp::start(incoming.id, asked, accept, desk, fx);
        return Ok(Next::Becomes(Kind::OverHttp(Box::new(socket))));
    }
    if request.method == "CONNECT" {
        return Err(Reject::new(405, "this is no forward proxy"));
    }
    let asked = Asked::new(route, request, incoming.body, incoming.peer, (grip, fx.now));
    let proxied = Proxied::ask(incoming, asked, grip, fx);
    if !incoming.is_open {
        fx.deadline = Some(None);
    }
    Ok(Next::Becomes(Kind::Proxied(Box::new(proxied))))
}
