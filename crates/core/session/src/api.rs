//! What HTTP requests lead to: the endpoints of both ports.

mod call;
mod server;
mod subscribe;

use std::net::IpAddr;

use throng_http1::Request;
use throng_metrics::Counter;
use throng_types::ConnId;

pub(crate) use call::{Call, Wording};

use crate::desk::PUSHPIN_METRICS;
use crate::effects::Fx;
use crate::http::{Next, answer_text};
use crate::route::{CLIENT_ENDPOINTS, Endpoint, Port};
use crate::{Desk, appwrite, grip};

/// A request and where it came from.
pub(crate) struct Incoming<'r, 'b> {
    pub(crate) id: ConnId,
    pub(crate) port: Port,
    pub(crate) peer: IpAddr,
    pub(crate) request: &'r Request<'b>,
    pub(crate) body: &'r [u8],
    /// More of the body follows. Only for requests that [`grip::streams`].
    pub(crate) is_open: bool,
}

/// A status and a sentence for a request that is not carried out.
pub(crate) struct Reject(pub(crate) u16, pub(crate) String);

impl Reject {
    pub(crate) fn new(status: u16, sentence: impl Into<String>) -> Self {
        Self(status, sentence.into())
    }
}

/// Serves one whole request.
pub(crate) fn serve(
    (port, peer): (Port, IpAddr),
    id: ConnId,
    request: &Request<'_>,
    (body, is_open): (&[u8], bool),
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Next {
    let incoming = Incoming {
        id,
        port,
        peer,
        request,
        body,
        is_open,
    };
    let start = fx.out.len();
    let next = answer(&incoming, desk, fx);
    if request.method == "HEAD" {
        keep_head(start, fx.out);
    }
    next
}

/// The answer to HEAD is that to GET without its body (RFC 9110 section 9.3.2).
fn keep_head(start: usize, out: &mut Vec<u8>) {
    const END: &[u8] = b"\r\n\r\n";
    let answer = out.get(start..).unwrap_or_default();
    if let Some(at) = answer.windows(END.len()).position(|window| window == END) {
        out.truncate(start + at + END.len());
    }
}

fn answer(incoming: &Incoming<'_, '_>, desk: &Desk, fx: &mut Fx<'_>) -> Next {
    let request = incoming.request;
    match dispatch(incoming, desk, fx) {
        Ok(next) => next,
        Err(Reject(status, sentence)) => {
            let keep_alive = request.keep_alive();
            let allow = Endpoint::find(incoming.port, request.path()).map_or("", Endpoint::methods);
            let headers: &[(&str, &str)] = match status {
                405 => &[("Allow", allow)],
                401 => &[("WWW-Authenticate", "Bearer")],
                503 => &[("Retry-After", "5")],
                _ => &[],
            };
            answer_text(status, &sentence, headers, keep_alive, fx);
            Next::Answered { keep_alive }
        }
    }
}

fn dispatch(incoming: &Incoming<'_, '_>, desk: &Desk, fx: &mut Fx<'_>) -> Result<Next, Reject> {
    let request = incoming.request;
    let endpoint = Endpoint::find(incoming.port, request.path());
    if incoming.port == Port::Client
        && let Some(to) = grip::route(request, desk)
        && endpoint.is_none_or(|endpoint| grip::outranks(to.1, endpoint, request.path()))
    {
        return grip::open(incoming, to, desk, fx);
    }
    let Some(endpoint) = endpoint else {
        let hint = "there is nothing at this path; GET / says what there is";
        return Err(Reject::new(404, hint));
    };
    if !endpoint.takes(request.method) {
        let sentence = format!("this path takes {}", endpoint.methods());
        return Err(Reject::new(405, sentence));
    }
    if endpoint.guards_origin() {
        check_origin(incoming, desk)?;
    }
    if request.method == "OPTIONS" && endpoint != Endpoint::Grip {
        return Ok(subscribe::preflight(incoming, fx));
    }
    if incoming.port == Port::Api && endpoint != Endpoint::Health {
        server::check_key(incoming, desk)?;
    }
    match endpoint {
        Endpoint::Health => health(incoming, desk, fx),
        Endpoint::Page => page(incoming, desk, fx),
        Endpoint::Publish => server::publish(incoming, desk, fx),
        Endpoint::Grip if desk.grip.is_some() => Ok(grip::publish(incoming, desk, fx)),
        Endpoint::Grip => Err(Reject::new(404, "GRIP is off: configure [grip]")),
        Endpoint::Appwrite => appwrite::open(incoming, desk, fx),
        Endpoint::AppwriteEvents => appwrite::publish(incoming, desk, fx),
        Endpoint::Api(method) => Ok(server::call(incoming, method, desk, fx)),
        Endpoint::PlainWs | Endpoint::Centrifuge | Endpoint::UniWs => {
            subscribe::websocket(incoming, endpoint, desk, fx)
        }
        Endpoint::Sse | Endpoint::Stream => subscribe::stream(incoming, endpoint, desk, fx),
        Endpoint::UniSse | Endpoint::UniHttp => subscribe::uni_stream(incoming, endpoint, desk, fx),
    }
}

/// Keeps pages of strangers away: a browser tells where its page came from.
fn check_origin(incoming: &Incoming<'_, '_>, desk: &Desk) -> Result<(), Reject> {
    let Some(origin) = incoming.request.header("origin") else {
        return Ok(());
    };
    if desk.origins.matches(origin, incoming.request.host()) {
        return Ok(());
    }
    desk.board.count(Counter::RefusedOrigin);
    let sentence =
        format!("pages of {origin} may not connect; list the origin in auth.allowed_origins");
    Err(Reject::new(403, sentence))
}

fn health(incoming: &Incoming<'_, '_>, desk: &Desk, fx: &mut Fx<'_>) -> Result<Next, Reject> {
    if desk.draining {
        return Err(Reject::new(503, "draining"));
    }
    let keep_alive = incoming.request.keep_alive();
    answer_text(200, "ok", &[("Cache-Control", "no-store")], keep_alive, fx);
    Ok(Next::Answered { keep_alive })
}

fn page(incoming: &Incoming<'_, '_>, desk: &Desk, fx: &mut Fx<'_>) -> Result<Next, Reject> {
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    if incoming.port == Port::Client {
        answer_text(200, CLIENT_ENDPOINTS, &[], keep_alive, fx);
        return Ok(Next::Answered { keep_alive });
    }
    let path = match incoming.port {
        Port::Metrics => PUSHPIN_METRICS,
        _ => request.path(),
    };
    let Some(page) = desk.pages.page(path) else {
        let hint = "there is nothing at this path; the API port has /, /metrics, /stats, /healthz, /pub, /api/… and /v1/realtime/events";
        return Err(Reject::new(404, hint));
    };
    let headers = [
        ("Content-Type", page.content_type),
        ("Cache-Control", "no-store"),
    ];
    throng_http1::encode_response(200, &headers, &page.body, keep_alive, fx.out);
    Ok(Next::Answered { keep_alive })
}
