//! Requests for `/v1/realtime`, and the session that each becomes.
//!
//! As in stock, every handshake is answered with 101 and refusals are frames; only requests that
//! are no WebSocket handshakes at all are answered in HTTP.
//!
//! `POST /v1/realtime/events` on the API port brings an event in the form in which Appwrite
//! announces it on Redis, so that Appwrite and Redis need not be there. The answer is 202 when the
//! event is on its way to all shards, in the order of the requests of one connection; 400 if the
//! body is no event; 503 when too many wait already, or another process takes over, and then it was
//! not taken.

use std::net::IpAddr;

use throng_appwrite::{ConnectRequest, FeedMessage, RealtimeError, SessionHeaders};
use throng_http1::{Request, query};
use throng_proxy::last_address;
use throng_session::http::check_draining;
use throng_session::{
    Claim, Incoming, KeyRole, Opened, Port, Reject, Shared, is_close_by, respond_json,
};
use throng_types::{Epoch, Position};
use throng_ws::handshake;

use crate::Cx;
use crate::connection::Connection;
use crate::pending::{Opening, Shown};
use crate::shared::Credential;

/// Query parameter of clients that ask for missed events.
const RECOVER: &str = "recover";

pub(crate) const REALTIME: u8 = 0;
pub(crate) const EVENTS: u8 = 1;

/// The paths: `/v1/realtime` and anything below it for clients, because Appwrite's own server takes
/// every path; `/v1/realtime/events` on the API port.
pub(crate) fn claim(port: Port, path: &str) -> Option<Claim> {
    let below = path.strip_prefix("/v1/realtime")?;
    match port {
        Port::Client if below.is_empty() || below.starts_with('/') => Some(Claim {
            // Appwrite's projects have platforms for that.
            checks_origin: false,
            ..Claim::endpoint(REALTIME, "GET")
        }),
        Port::Api if below == "/events" => Some(Claim {
            role: Some(KeyRole::Publish),
            ..Claim::endpoint(EVENTS, "POST")
        }),
        _ => None,
    }
}

/// Answers the handshake, and opens the session or refuses it.
pub(crate) fn open(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Connection>, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    handshake::encode_response(&accept, None, None, cx.out);
    let mut session = Connection::new(cx);
    match check(incoming, cx) {
        Ok(opening) => session.begin(opening, cx),
        Err(fault) => session.refuse_opening(&fault, cx),
    }
    Ok(Opened::Session(session))
}

/// Makes the checks that need no lookup, in Appwrite's order.
fn check(incoming: &Incoming<'_, '_>, cx: &Cx<'_>) -> Result<Opening, RealtimeError> {
    let appwrite = cx.own;
    let request = incoming.request;
    let mut asked = ConnectRequest::parse(request.query(), &appwrite.limits)?;
    if let Some(project) = header(request, "x-appwrite-project") {
        asked.project = project.to_owned();
    }
    let platforms = appwrite.projects.platforms(&asked.project);
    let platforms = platforms.ok_or(RealtimeError::UnknownProject)?;
    let address = address_of(incoming, cx.shared);
    // This machine's own programs are not counted: a proxy's, for one, all have its address.
    if !address.is_loopback() && !appwrite.outside.admit(address, cx.now) {
        return Err(RealtimeError::TooManyRequests);
    }
    // A header that is not UTF-8 is no origin of a platform, and counts as one that is not allowed.
    let origin = request.headers().values("origin").next();
    let origin = origin.map(String::from_utf8_lossy);
    platforms.check(&asked.project, origin.as_deref(), request.header("host"))?;
    let shown = appwrite
        .identifies
        .then(|| shown_by(request, &asked))
        .flatten();
    let recover = query::pairs(request.query())
        .find(|(name, _)| name == RECOVER)
        .map(|(_, value)| position_of(&value));
    Ok(Opening {
        request: asked,
        shown,
        recover,
    })
}

fn header<'b>(request: &Request<'b>, name: &str) -> Option<&'b str> {
    request.header(name).filter(|value| !value.is_empty())
}

/// Finds the credential of a client. A token that it was given for this goes before cookies, which
/// browsers send on their own.
fn shown_by(request: &Request<'_>, asked: &ConnectRequest) -> Option<Shown> {
    let jwt = header(request, "x-appwrite-jwt").or(asked.jwt.as_deref());
    if let Some(jwt) = jwt {
        return Some(Shown {
            credential: Credential::Jwt(jwt.into()),
            to_console: false,
        });
    }
    let to_console = asked.admin || header(request, "x-appwrite-mode") == Some("admin");
    let headers = SessionHeaders {
        cookie: request.header("cookie"),
        session: request.header("x-appwrite-session"),
        fallback: request.header("x-fallback-cookies"),
    };
    let session = headers.find(&asked.project, to_console)?;
    Some(Shown {
        credential: Credential::Session(session.into()),
        to_console,
    })
}

/// Finds the client's address, as far as trusted proxies tell. Where none are named, a proxy close
/// by is believed: the last address is the one that it has seen itself; those before it anybody may
/// invent.
fn address_of(incoming: &Incoming<'_, '_>, shared: &Shared) -> IpAddr {
    let peer = incoming.peer.to_canonical();
    if !shared.forwarded.trusted().is_empty() || !is_close_by(peer) {
        return incoming.client.to_canonical();
    }
    let headers = incoming.request.headers();
    let lines: Vec<&[u8]> = headers.values("x-forwarded-for").collect();
    last_address(lines.into_iter()).unwrap_or(peer)
}

/// Parses `EPOCH-OFFSET`. An unknown text is a position that cannot be found, and the client must
/// be told so; an empty one asks for positions from now on.
fn position_of(text: &str) -> Option<Position> {
    if text.is_empty() {
        return None;
    }
    let nowhere = Position {
        epoch: Epoch(0),
        offset: 0,
    };
    let known = text.split_once('-').and_then(|(epoch, offset)| {
        Some(Position {
            epoch: Epoch::parse(epoch)?,
            offset: offset.parse().ok()?,
        })
    });
    Some(known.unwrap_or(nowhere))
}

pub(crate) fn publish(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Connection>, Reject> {
    let event = FeedMessage::parse(incoming.body, cx.shared.limits.publish_bytes_max)
        .map_err(|error| Reject::new(400, error.to_string()))?;
    cx.own
        .outside
        .publish(event)
        .map_err(|_| Reject::new(503, "no event can be taken now; send it again in a moment"))?;
    let keep_alive = incoming.request.keep_alive();
    respond_json(202, b"{}\n", keep_alive, cx);
    Ok(Opened::Answered { keep_alive })
}
