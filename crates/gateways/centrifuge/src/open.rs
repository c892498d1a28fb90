//! Paths of Centrifugo's clients and server API, and the session that a request at each becomes.

use throng_centrifuge::Codec;
use throng_session::http::{
    Params, StreamHead, check_chunks, check_draining, read_grpc, write_grpc_head, write_stream_head,
};
use throng_session::{
    Access, Claim, Identity, Incoming, Opened, Port, Reject, Shared, answer_handshake, authenticate,
};

use crate::asked::Hello;
use crate::events::Session;
use crate::forms::Mode;
use crate::results::uni_channels;
use crate::server_api::{self, Form};
use crate::socket::Socket;
use crate::{Cx, connect, emulation};

const WS: u8 = 0;
const UNI_WS: u8 = 1;
const UNI_SSE: u8 = 2;
const UNI_HTTP: u8 = 3;
const API: u8 = 4;
const SSE: u8 = 5;
const HTTP_STREAM: u8 = 6;
const EMULATION: u8 = 7;
const UNI_GRPC: u8 = 8;

const CONSUME: &str = "/centrifugal.centrifugo.unistream.CentrifugoUniStream/Consume";

fn form(incoming: &Incoming<'_, '_>) -> Option<Form> {
    Form::of(incoming.request.path())
}

pub(crate) fn claim(incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<Claim> {
    Some(match (incoming.port, incoming.request.path()) {
        (Port::Client, "/connection/websocket") => Claim::endpoint(WS, "GET"),
        (Port::Client, "/connection/sse") => Claim::endpoint(SSE, "GET, POST, OPTIONS"),
        (Port::Client, "/connection/http_stream") => Claim::endpoint(HTTP_STREAM, "POST, OPTIONS"),
        (Port::Client, "/emulation") => Claim::endpoint(EMULATION, "POST, OPTIONS"),
        (Port::Client, "/connection/uni_websocket") => Claim::endpoint(UNI_WS, "GET"),
        (Port::Client, "/connection/uni_sse") => Claim::endpoint(UNI_SSE, "GET, POST, OPTIONS"),
        (Port::Client, "/connection/uni_http_stream") => Claim::endpoint(UNI_HTTP, "POST, OPTIONS"),
        (Port::Client, CONSUME) => Claim::endpoint(UNI_GRPC, "POST"),
        (Port::Api, path) => Claim {
            pipelines: form(incoming)?.is_publishing() && !server_api::is_rpc(path),
            role: form(incoming)?.role(),
            by_channel: true,
            ..Claim::endpoint(API, "POST")
        },
        (Port::Client, path) if shared.api_for_clients => Claim {
            pipelines: form(incoming)?.is_publishing() && !server_api::is_rpc(path),
            role: form(incoming)?.role(),
            by_channel: true,
            access: Access::ApiKey,
            body_bytes_max: Some(shared.limits.publish_bytes_max),
            ..Claim::endpoint(API, "POST")
        },
        _ => return None,
    })
}

pub(crate) fn open(
    claim: &Claim,
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<Session>, Reject> {
    let session = match (claim.endpoint, form(incoming)) {
        (API, Some(form)) => return server_api::call(incoming, form, cx),
        (EMULATION, _) => return emulation::post(incoming, Session::Upstream, cx),
        (SSE, _) => Session::Socket(emulation::events(incoming, cx)?),
        (HTTP_STREAM, _) => Session::Socket(emulation::lines(incoming, cx)?),
        (WS, _) => Session::Socket(websocket(incoming, cx)?),
        (UNI_WS, _) => Session::Socket(uni_websocket(incoming, cx)?),
        (UNI_GRPC, _) => Session::Socket(uni_stream(incoming, Mode::UniMessages, cx)?),
        (UNI_SSE, _) => Session::Socket(uni_stream(incoming, Mode::UniEvents, cx)?),
        _ => Session::Socket(uni_stream(incoming, Mode::UniLines, cx)?),
    };
    Ok(Opened::Session(session))
}

/// Subprotocols that a client may offer, each with its codec.
const SUBPROTOCOLS: [(&str, Codec); 2] = [
    ("centrifuge-protobuf", Codec::Protobuf),
    ("centrifuge-json", Codec::Json),
];

/// A subprotocol chooses the form, else a parameter of the URL, else it is JSON.
fn websocket(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    let mut known = SUBPROTOCOLS.into_iter();
    let offered = known.find(|(name, _)| accept.protocols.contains(name));
    let codec = match offered {
        Some((_, codec)) => codec,
        None if Params::read(incoming)?.protobuf => Codec::Protobuf,
        None => Codec::Json,
    };
    let deflate = answer_handshake(&accept, offered.map(|(name, _)| name), cx);
    let mode = match codec {
        Codec::Json => Mode::Json,
        Codec::Protobuf => Mode::Protobuf,
    };
    Ok(socket(mode, incoming, cx).with_deflate(deflate))
}

fn socket(mode: Mode, incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Socket {
    let mut socket = Socket::new(mode, cx);
    socket.remember(incoming, cx);
    socket
}

fn uni_websocket(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    Params::read(incoming)?.refuse_protobuf(&accept)?;
    let json = "centrifuge-json";
    let offered = accept.protocols.contains(json).then_some(json);
    let deflate = answer_handshake(&accept, offered, cx);
    Ok(socket(Mode::Unidirectional, incoming, cx).with_deflate(deflate))
}

/// `/connection/uni_sse`, `/connection/uni_http_stream`, and the stream of gRPC. The head of the
/// answer leaves at once, and the first words wait for the hub and for backends. A client that is
/// refused without a question to a backend gets a status; later it gets a `disconnect` push, like
/// any other that has to leave: a backend's error cannot be sent there and becomes 3004
/// (Centrifugo, `client.go`).
fn uni_stream(incoming: &Incoming<'_, '_>, mode: Mode, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    check_draining(cx.shared)?;
    let params = Params::read(incoming)?;
    check_chunks(incoming, mode.is_chunked())?;
    let request = match incoming.request.method {
        _ if mode == Mode::UniMessages => read_grpc(incoming, cx)?.0,
        "GET" => params.connect.as_deref().unwrap_or_default().as_bytes(),
        _ => incoming.body,
    };
    let connect = { mode.codec().connect(request) }
        .map_err(|_| Reject::new(400, "the connect request does not follow the protocol"))?;
    let token = match &*connect.token {
        "" => params.token.as_deref(),
        token => Some(token),
    };
    let known = match cx.own.decides(token) {
        true => None,
        false => {
            let claims = authenticate(token, cx.shared, cx.now)
                .map_err(|error| Reject::new(error.status(), error.message()))?;
            let identity = claims.as_ref().map(Identity::from_claims);
            let user = identity.as_ref().map_or("", |identity| &*identity.user);
            cx.admit_user("", user)?;
            let channels = uni_channels(&connect, claims.as_ref(), identity.as_ref(), cx)?;
            Some((identity, channels))
        }
    };
    let origin = incoming.request.header("origin");
    match mode {
        Mode::UniMessages => write_grpc_head(cx),
        _ => write_stream_head(origin, StreamHead::of(mode.is_chunked()), cx),
    }
    let mut socket = socket(mode, incoming, cx);
    socket.remember_said(&connect, cx);
    match known {
        Some((identity, channels)) => connect::uni_ask(&mut socket, identity, channels, cx),
        None => {
            let hello = Hello {
                command: 0,
                request,
                connect: &connect,
            };
            socket.ask_identity(&hello, cx);
        }
    }
    socket.arm(cx);
    Ok(socket)
}
