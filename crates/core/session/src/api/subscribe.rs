//! Requests that turn a connection into a WebSocket or a stream.

use std::borrow::Cow;

use throng_centrifuge::Connect;
use throng_http1::query;
use throng_metrics::Counter;
use throng_types::{ChannelName, Disconnect, Position};
use throng_ws::handshake;

use super::{Incoming, Reject};
use crate::effects::Fx;
use crate::http::Next;
use crate::identity::{Stranger, authenticate};
use crate::permit::{RESERVED, Verdict, may_subscribe};
use crate::route::{Endpoint, Port};
use crate::session::Kind;
use crate::stream::{Stream, Voice};
use crate::ws::{Mode, Ws};
use crate::{Cursor, Desk, Identity, centrifuge};

/// The parameters that subscribers bring in their URL.
#[derive(Default)]
struct Params<'a> {
    channels: Vec<Cow<'a, str>>,
    token: Option<Cow<'a, str>>,
    last_event_id: Option<Cow<'a, str>>,
    connect: Option<Cow<'a, str>>,
    protobuf: bool,
}

impl<'a> Params<'a> {
    fn read(incoming: &Incoming<'_, 'a>) -> Self {
        let mut params = Self::default();
        for (name, value) in query::pairs(incoming.request.query()) {
            match &*name {
                "channel" => params.channels.push(value),
                "token" => params.token = Some(value),
                "last_event_id" | "lastEventId" | "Last-Event-ID" => {
                    params.last_event_id = Some(value)
                }
                "cf_connect" => params.connect = Some(value),
                "format" | "cf_protocol" => params.protobuf |= value == "protobuf",
                _ => {}
            }
        }
        // What the browser says itself is newer than what stood in the URL.
        if let Some(id) = incoming.request.header("last-event-id") {
            params.last_event_id = Some(Cow::Borrowed(id));
        }
        if let Some(token) = incoming.request.header("authorization").and_then(bearer) {
            params.token = Some(Cow::Borrowed(token));
        }
        params
    }
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn stranger(stranger: Stranger) -> Reject {
    Reject::new(401, stranger.message())
}

fn identify(
    params: &Params<'_>,
    desk: &Desk,
    fx: &Fx<'_>,
) -> Result<Option<Box<Identity>>, Reject> {
    let claims = authenticate(params.token.as_deref(), desk, fx.now).map_err(stranger)?;
    Ok(claims.as_ref().map(Identity::from_claims).map(Box::new))
}

/// The channels of the URL, if the connection may have all of them.
fn permitted_channels(
    params: &Params<'_>,
    port: Port,
    identity: Option<&Identity>,
    desk: &Desk,
) -> Result<Vec<ChannelName>, Reject> {
    let mut channels: Vec<ChannelName> = Vec::new();
    for name in &params.channels {
        let channel = ChannelName::new(name);
        let channel = channel.map_err(|error| Reject::new(400, error.to_string()))?;
        let verdict = match port {
            Port::Client => may_subscribe(identity, &channel, false, desk),
            // Whoever reaches the API port may watch the server itself, and nothing else.
            Port::Api if channel.namespace() == Some(RESERVED) => Verdict::Yes,
            Port::Api | Port::Publish | Port::Metrics => Verdict::No,
        };
        match verdict {
            Verdict::Yes => {}
            Verdict::No => {
                return Err(Reject::new(
                    403,
                    format!("no permission to subscribe to {channel}"),
                ));
            }
            Verdict::UnknownChannel => {
                return Err(Reject::new(
                    404,
                    format!("the namespace of {channel} is not configured"),
                ));
            }
        }
        if !channels.contains(&channel) {
            channels.push(channel);
        }
    }
    if channels.is_empty() {
        return Err(Reject::new(400, "no channel given: add ?channel=NAME"));
    }
    if channels.len() > desk.limits.channels_max {
        let sentence = format!(
            "more than {} channels in one connection",
            desk.limits.channels_max
        );
        return Err(Reject::new(400, sentence));
    }
    Ok(channels)
}

fn not_draining(desk: &Desk) -> Result<(), Reject> {
    if desk.draining {
        desk.board.count(Counter::RefusedDraining);
        return Err(Reject::new(
            503,
            "the server is going down; connect again in a moment",
        ));
    }
    Ok(())
}

/// The three endpoints that upgrade.
pub(super) fn websocket(
    incoming: &Incoming<'_, '_>,
    endpoint: Endpoint,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    let request = incoming.request;
    if request.minor_version == 0 {
        return Err(Reject::new(426, "a WebSocket needs HTTP/1.1"));
    }
    let accept = handshake::accept(request.method, |name| request.header(name))
        .map_err(|refusal| Reject::new(refusal.status(), refusal.reason()))?;
    not_draining(desk)?;
    let params = Params::read(incoming);
    if params.protobuf || accept.protocols.contains("centrifuge-protobuf") {
        return Err(Reject::new(
            400,
            "Protobuf is not spoken here; use the JSON protocol",
        ));
    }
    let id = incoming.id;
    let mode = match endpoint {
        Endpoint::PlainWs => Mode::Plain,
        Endpoint::UniWs => Mode::Uni,
        _ => Mode::Centrifuge,
    };
    if mode != Mode::Plain {
        handshake::encode_response(&accept, None, fx.out);
        let ws = Ws::new(id, mode, None, desk, fx);
        return Ok(Next::Becomes(Kind::Ws(ws)));
    }
    let identity = identify(&params, desk, fx)?;
    let channels = permitted_channels(&params, incoming.port, identity.as_deref(), desk)?;
    handshake::encode_response(&accept, None, fx.out);
    let mut ws = Ws::new(id, mode, identity, desk, fx);
    ws.open(
        id,
        channels
            .into_iter()
            .map(|channel| (channel, None))
            .collect(),
        0,
        fx,
    );
    Ok(Next::Becomes(Kind::Ws(ws)))
}

/// `/sse` and `/stream`.
pub(super) fn stream(
    incoming: &Incoming<'_, '_>,
    endpoint: Endpoint,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    not_draining(desk)?;
    let params = Params::read(incoming);
    let identity = match incoming.port {
        Port::Client => identify(&params, desk, fx)?,
        Port::Api | Port::Publish | Port::Metrics => None,
    };
    let channels = permitted_channels(&params, incoming.port, identity.as_deref(), desk)?;
    let cursor = params
        .last_event_id
        .as_deref()
        .filter(|id| !id.is_empty())
        // An id that is none of ours is a place that cannot be found, and the client must hear so.
        .map(|id| Cursor::parse(id, desk.limits.channels_max).unwrap_or_default());
    let since = |channel: &ChannelName| {
        let known = cursor.as_ref()?.position(channel);
        let nowhere = Position {
            epoch: throng_types::Epoch(0),
            offset: 0,
        };
        Some(known.unwrap_or(nowhere))
    };
    let channels = channels
        .into_iter()
        .map(|channel| (channel.clone(), since(&channel)))
        .collect();
    let voice = if endpoint == Endpoint::Sse {
        Voice::Sse
    } else {
        Voice::Lines
    };
    write_head(incoming, voice, fx)?;
    Ok(Next::Becomes(Kind::Stream(Stream::open(
        incoming.id,
        voice,
        identity,
        channels,
        desk,
        fx,
    ))))
}

/// `/connection/uni_sse` and `/connection/uni_http_stream`.
pub(super) fn uni_stream(
    incoming: &Incoming<'_, '_>,
    endpoint: Endpoint,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    not_draining(desk)?;
    let params = Params::read(incoming);
    let (voice, request) = if endpoint == Endpoint::UniSse {
        (
            Voice::UniSse,
            params.connect.as_deref().unwrap_or_default().as_bytes(),
        )
    } else {
        (Voice::UniHttp, incoming.body)
    };
    let connect = Connect::parse(request)
        .map_err(|_| Reject::new(400, "the connect request is not what the protocol says"))?;
    let token = if connect.token.is_empty() {
        params.token.as_deref()
    } else {
        Some(&*connect.token)
    };
    let claims = authenticate(token, desk, fx.now).map_err(stranger)?;
    let identity = claims.as_ref().map(Identity::from_claims);
    let channels = centrifuge::uni_channels(&connect, claims.as_ref(), identity.as_ref(), desk)
        .map_err(|reason| {
            let status = if reason == Disconnect::PermissionDenied {
                403
            } else {
                400
            };
            Reject::new(status, reason.reason())
        })?;
    write_head(incoming, voice, fx)?;
    let identity = identity.map(Box::new);
    Ok(Next::Becomes(Kind::Stream(Stream::open(
        incoming.id,
        voice,
        identity,
        channels,
        desk,
        fx,
    ))))
}

fn write_head(incoming: &Incoming<'_, '_>, voice: Voice, fx: &mut Fx<'_>) -> Result<(), Reject> {
    let request = incoming.request;
    let lines = matches!(voice, Voice::Lines | Voice::UniHttp);
    if lines && request.minor_version == 0 {
        return Err(Reject::new(
            426,
            "a stream of lines is sent in chunks, which needs HTTP/1.1",
        ));
    }
    let content_type = if lines {
        "application/x-ndjson"
    } else {
        "text/event-stream"
    };
    let mut headers = vec![
        ("Content-Type", content_type),
        ("Cache-Control", "no-cache"),
        // Proxies such as nginx would otherwise keep events back.
        ("X-Accel-Buffering", "no"),
    ];
    allow_origin(request.header("origin"), &mut headers);
    throng_http1::encode_stream_head(200, &headers, lines, fx.out);
    Ok(())
}

fn allow_origin<'a>(origin: Option<&'a str>, headers: &mut Vec<(&'a str, &'a str)>) {
    if let Some(origin) = origin {
        headers.push(("Access-Control-Allow-Origin", origin));
        headers.push(("Access-Control-Allow-Credentials", "true"));
        headers.push(("Vary", "Origin"));
    }
}

/// What a browser asks before it sends a token or an id to another origin (Fetch, section 4.8).
pub(super) fn preflight(incoming: &Incoming<'_, '_>, fx: &mut Fx<'_>) -> Next {
    let mut headers = vec![
        ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
        (
            "Access-Control-Allow-Headers",
            "authorization, content-type, last-event-id",
        ),
        ("Access-Control-Max-Age", "86400"),
    ];
    allow_origin(incoming.request.header("origin"), &mut headers);
    let keep_alive = incoming.request.keep_alive();
    throng_http1::encode_response(204, &headers, b"", keep_alive, fx.out);
    Next::Answered { keep_alive }
}
