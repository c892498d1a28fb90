//! The paths of plain clients, and what a request at each becomes.

use throng_session::http::{Entry, Params, StreamHead, check_draining, write_stream_head};
use throng_session::{Claim, Incoming, Opened, Port, Reject, answer_handshake};
use throng_types::{ChannelName, Epoch, Position};
use throng_ws::handshake;

use crate::context::Cx;
use crate::cursor::Cursor;
use crate::framing::Framing;
use crate::operate::Reloading;
use crate::publish::publish;
use crate::publisher::Publisher;
use crate::session::Session;
use crate::socket::Socket;
use crate::stream::Lines;

const WS: u8 = 0;
const SSE: u8 = 1;
const LINES: u8 = 2;
const PUBLISH: u8 = 3;
const PUBLISHER: u8 = 4;
const RELOAD: u8 = 5;

/// The subprotocol of a publisher's WebSocket.
const SUBPROTOCOL: &str = "throng-publish";

pub(crate) fn claim(incoming: &Incoming<'_, '_>) -> Option<Claim> {
    const SUBSCRIBE: &str = "GET, OPTIONS";
    Some(match (incoming.port, incoming.request.path()) {
        (Port::Client, "/ws") => Claim::endpoint(WS, "GET"),
        (Port::Client, "/stream") => Claim::endpoint(LINES, SUBSCRIBE),
        (Port::Client | Port::Api, "/sse") => Claim::endpoint(SSE, SUBSCRIBE),
        (Port::Api, "/pub") if is_upgrade(incoming) => Claim::endpoint(PUBLISHER, "GET"),
        (Port::Api, "/pub") => Claim {
            pipelines: true,
            ..Claim::endpoint(PUBLISH, "POST")
        },
        // Never on the client port: there, `api_for_clients` serves Centrifugo's calls alone.
        (Port::Api, "/api/reload") => Claim::endpoint(RELOAD, "POST"),
        _ => return None,
    })
}

/// Whether a request wants a WebSocket. A `GET` that does not is told to `POST`.
fn is_upgrade(incoming: &Incoming<'_, '_>) -> bool {
    incoming.request.method == "GET" && incoming.request.wants_upgrade("websocket")
}

pub(crate) fn open(
    claim: &Claim,
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Session>, Reject> {
    let session = match claim.endpoint {
        PUBLISH => return publish(incoming, cx).map(Opened::Later),
        PUBLISHER => Session::Publisher(Box::new(publisher(incoming, cx)?)),
        RELOAD => Session::Reloading(Box::new(Reloading::open(incoming, cx))),
        WS => Session::Socket(websocket(incoming, cx)?),
        SSE => Session::Stream(stream(incoming, Framing::Sse, cx)?),
        _ => Session::Stream(stream(incoming, Framing::Lines, cx)?),
    };
    Ok(Opened::Session(session))
}

fn websocket(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    let params = Params::read(incoming)?;
    params.refuse_protobuf(&accept)?;
    let entry = Entry::new(&params, incoming.port, cx)?;
    let deflate = answer_handshake(&accept, None, cx);
    Ok(Socket::open(entry, deflate, cx))
}

fn publisher(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Publisher, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    let subprotocol = accept.protocols.contains(SUBPROTOCOL);
    handshake::encode_response(&accept, subprotocol.then_some(SUBPROTOCOL), None, cx.out);
    Ok(Publisher::open(cx))
}

fn stream(incoming: &Incoming<'_, '_>, framing: Framing, cx: &mut Cx<'_>) -> Result<Lines, Reject> {
    check_draining(cx.shared)?;
    let params = Params::read(incoming)?;
    let Entry { identity, channels } = Entry::new(&params, incoming.port, cx)?;
    let channels_max = cx.shared.limits.channels_max;
    let cursor = params
        .last_event_id
        .as_deref()
        .filter(|id| !id.is_empty())
        // An id that is none of ours is a place that cannot be found, and the client must hear so.
        .map(|id| Cursor::parse(id, channels_max).unwrap_or_default());
    let since = |channel: &ChannelName| {
        let known = cursor.as_ref()?.position(channel);
        let nowhere = Position {
            epoch: Epoch(0),
            offset: 0,
        };
        Some(known.unwrap_or(nowhere))
    };
    let channels = channels.into_iter();
    let channels = channels.map(|wanted| (wanted.channel.clone(), since(&wanted.channel)));
    let channels: Vec<_> = channels.collect();
    let framing = match compresses(incoming, &channels, cx) {
        true => framing.with_gzip(),
        false => framing,
    };
    let head = StreamHead {
        is_gzip: framing.is_gzip(),
        ..StreamHead::of(framing.is_lines())
    };
    write_stream_head(incoming, head, cx)?;
    Ok(Lines::open(framing, identity, channels, cx))
}

/// Whether both sides want the stream compressed, and its deliveries are shared.
fn compresses<T>(incoming: &Incoming<'_, '_>, channels: &[(ChannelName, T)], cx: &Cx<'_>) -> bool {
    let [(channel, _)] = channels else {
        return false;
    };
    let options = cx.shared.namespaces.find(channel);
    options.is_some_and(|options| options.compression)
        && incoming.request.headers().accepts_coding("gzip")
}
