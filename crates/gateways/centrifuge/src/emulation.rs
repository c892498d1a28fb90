//! Clients behind proxies that let no WebSocket through: they listen to a stream,
//! `/connection/sse` or `/connection/http_stream`, and send each of their commands by a request of
//! its own, `POST /emulation` (Centrifugo, pages "HTTP streaming" and "SSE").
//!
//! Owns the handling of such a request. Its commands are carried out by the session that it names,
//! on that session's shard; it is answered with 204 as soon as they are on their way there. So is
//! one whose session has gone: the client's stream tells that. Two requests that are under way at
//! once may overtake each other. If the session is on another node of a cluster, that node is asked
//! to carry the data to it, and confirms that. The client pays for data that goes there.
//!
//! A holder of a session's id may act as its client: the id is sent to that client alone.

use throng_centrifuge::Codec;
use throng_session::http::{
    Params, StreamHead, allow_origin, check_chunks, check_draining, respond, write_stream_head,
};
use throng_session::{Event, Exchange, Flow, Incoming, Opened, Reject, Survey, SurveyReply, Work};
use throng_types::End;

use crate::Cx;
use crate::commands;
use crate::forms::Mode;
use crate::order::{Order, Upward};
use crate::socket::Socket;

const PROTOBUF: &str = "application/octet-stream";

fn codec_of(incoming: &Incoming<'_, '_>) -> Codec {
    match incoming.request.header("content-type") {
        Some(PROTOBUF) => Codec::Protobuf,
        _ => Codec::Json,
    }
}

/// `/connection/sse`: the first commands stand in the URL, or in the body.
pub(crate) fn events(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    let params = Params::read(incoming)?;
    let first = match incoming.request.method {
        "POST" => incoming.body,
        _ => params.connect.as_deref().unwrap_or_default().as_bytes(),
    };
    if first.is_empty() {
        let sentence = "the first command is missing: cf_connect=COMMAND";
        return Err(Reject::new(400, sentence));
    }
    stream(Mode::Events, first, incoming, cx)
}

/// `/connection/http_stream`: the first commands stand in the body.
pub(crate) fn lines(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Socket, Reject> {
    let mode = match codec_of(incoming) {
        Codec::Json => Mode::Lines,
        Codec::Protobuf => Mode::Messages,
    };
    stream(mode, incoming.body, incoming, cx)
}

fn stream(
    mode: Mode,
    first: &[u8],
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Socket, Reject> {
    check_draining(cx.shared)?;
    check_chunks(incoming, mode.is_chunked())?;
    let content_type = match mode {
        Mode::Events => "text/event-stream",
        Mode::Messages => PROTOBUF,
        _ => "application/x-ndjson",
    };
    let head = StreamHead {
        content_type,
        ..StreamHead::of(mode.is_chunked())
    };
    write_stream_head(incoming.request.header("origin"), head, cx);
    let mut socket = Socket::new(mode, cx);
    socket.remember(incoming, cx);
    commands::run_all(&mut socket, first, cx);
    Ok(socket)
}

/// Handles `POST /emulation`: passes commands to their session.
pub(crate) fn post<S>(
    incoming: &Incoming<'_, '_>,
    session: impl FnOnce(Box<Upstream>) -> S,
    cx: &mut Cx<'_>,
) -> Result<Opened<S>, Reject> {
    let emulation = codec_of(incoming)
        .emulation(incoming.body)
        .map_err(|_| Reject::new(400, "the body does not follow the protocol"))?;
    let request = Upstream::new(incoming);
    if emulation.node != cx.shared.node.name() {
        if !is_node_name(&emulation.node) {
            return Err(Reject::new(404, "no node has this name"));
        }
        let bytes = u32::try_from(emulation.data.len()).unwrap_or(u32::MAX);
        cx.spend(Work::Carry { bytes })?;
        cx.survey(Survey::Carry {
            node: (*emulation.node).into(),
            session: (*emulation.session).into(),
            data: (*emulation.data).into(),
        });
        cx.set_deadline(None);
        return Ok(Opened::Session(session(Box::new(request.elsewhere()))));
    }
    match cx.shared.node.conn_of_session(&emulation.session) {
        Some(to) => cx.order(Order::Upward(Upward {
            request: Some(cx.id),
            to,
            data: emulation.data.into(),
        })),
        // As in Centrifugo.
        None => {
            let keep_alive = request.keep_alive();
            request.respond(204, cx);
            return Ok(Opened::Answered { keep_alive });
        }
    }
    cx.set_deadline(None);
    Ok(Opened::Session(session(Box::new(request))))
}

/// Whether a node could have this name; a survey for an impossible name is not sent.
fn is_node_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    name.len() == 16 && name.bytes().all(is_digit)
}

/// A request with commands, until they are on their way.
pub struct Upstream {
    exchange: Exchange,
    /// The page that may read the answer.
    origin: Option<Box<str>>,
    /// Whether other nodes are asked for the session.
    is_elsewhere: bool,
}

impl Upstream {
    pub(crate) fn new(incoming: &Incoming<'_, '_>) -> Self {
        Self {
            exchange: Exchange::new(incoming),
            origin: incoming.request.header("origin").map(Into::into),
            is_elsewhere: false,
        }
    }

    /// Marks the commands as carried out on another node.
    pub(crate) fn elsewhere(self) -> Self {
        Self {
            is_elsewhere: true,
            ..self
        }
    }

    /// Whether its connection may serve another request.
    pub(crate) const fn keep_alive(&self) -> bool {
        self.exchange.keep_alive
    }

    /// Answers it; the connection takes the next request.
    pub(crate) fn done(&mut self, status: u16, cx: &mut Cx<'_>) -> Flow {
        self.respond(status, cx);
        self.exchange.done(cx)
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Surveyed(replies) if self.is_elsewhere => {
                return self.done(status_of(&replies), cx);
            }
            // The answer comes within this turn, or when the other nodes have answered.
            Event::Bytes(input) => {
                let limits = &cx.shared.limits;
                let bytes_max = 2 * (limits.head_bytes_max + limits.message_bytes_max);
                self.exchange.keep(input, bytes_max, cx);
            }
            Event::Timeout => cx.end(End::Flush),
            _ => {}
        }
        Flow::Stay
    }

    /// Writes the response without a body.
    pub(crate) fn respond(&self, status: u16, cx: &mut Cx<'_>) {
        let mut headers = Vec::new();
        allow_origin(self.origin.as_deref(), &mut headers);
        respond(status, &headers, b"", self.exchange.keep_alive, cx);
    }
}

/// Chooses the status for commands that went to another node: 204 if a node took them, 404 if there
/// is none of its name, 503 while not all nodes have answered.
fn status_of(replies: &[SurveyReply]) -> u16 {
    let is_taken = |reply: &SurveyReply| matches!(reply, SurveyReply::Done(1..));
    let mut status = 404;
    for reply in replies {
        match reply {
            SurveyReply::Elsewhere(nodes)
                if { nodes.iter() }.any(|node| node.replies.iter().any(is_taken)) =>
            {
                return 204;
            }
            SurveyReply::Unanswered => status = 503,
            _ => {}
        }
    }
    status
}
