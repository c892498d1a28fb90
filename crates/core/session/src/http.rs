//! The HTTP part of a session: requests in, answers out, until one request makes it
//! something else.
//!
//! Owns bytes only while a request is not whole or its answer is awaited. A whole
//! request in one read is handled from the reader's buffer.
//!
//! Rule for "full": a head or body above its limit is refused by status; while an
//! answer is awaited, the bytes of two largest requests are kept, and a client that
//! pipelines more is cut off. Queue: `pipelined requests`.

mod body;
mod words;

use std::net::{IpAddr, Ipv4Addr};

use throng_http1::{Body, BodyDecoder, Limits, Request, parse_request_resumed};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::ConnId;

use crate::api::Call;
use crate::effects::{End, Fx, Told};
use crate::route::Port;
use crate::session::Kind;
use crate::standing::Admission;
use crate::{Desk, api};
use body::whole_body;
pub(crate) use words::{answer_text, refuse};

/// A body that is not whole yet.
struct Incoming {
    decoder: BodyDecoder,
    body: Vec<u8>,
}

/// What is kept between reads. Boxed, because most connections need none.
#[derive(Default)]
struct Pending {
    /// Bytes that are not used up: a head that is not whole, or requests that must wait.
    raw: Vec<u8>,
    /// How far `raw` was searched for the end of a head.
    searched: usize,
    /// The body in progress; then `raw` is the head that it belongs to.
    incoming: Option<Incoming>,
    /// The request whose answer is awaited.
    call: Option<Call>,
}

/// See the module's head.
pub(crate) struct Http {
    port: Port,
    /// Whence the connection comes.
    peer: IpAddr,
    admission: Admission,
    pending: Option<Box<Pending>>,
}

/// What a request leads to.
pub(crate) enum Next {
    /// It was answered; the connection may serve another request.
    Answered { keep_alive: bool },
    /// Its answer depends on the hub.
    Waits(Call),
    /// The connection is something else now.
    Becomes(Kind),
}

impl Http {
    pub(crate) const fn client(admission: Admission, peer: IpAddr) -> Self {
        Self {
            port: Port::Client,
            peer,
            admission,
            pending: None,
        }
    }

    pub(crate) const fn api() -> Self {
        Self {
            port: Port::Api,
            // Nothing on that port asks.
            peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            admission: Admission::Welcome,
            pending: None,
        }
    }

    /// A connection to the port for GRIP's publishers.
    pub(crate) const fn publisher() -> Self {
        Self::again(Port::Publish, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// A connection to the port with Pushpin's metrics.
    pub(crate) const fn metrics() -> Self {
        Self::again(Port::Metrics, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// A connection that was something else, and goes on as what it was.
    pub(crate) const fn again(port: Port, peer: IpAddr) -> Self {
        Self {
            port,
            peer,
            admission: Admission::Welcome,
            pending: None,
        }
    }

    pub(crate) const fn is_client(&self) -> bool {
        matches!(self.port, Port::Client)
    }

    fn limits(&self, desk: &Desk) -> Limits {
        let body_bytes_max = match self.port {
            Port::Client => desk.limits.message_bytes_max,
            Port::Api | Port::Publish | Port::Metrics => desk.limits.publish_bytes_max,
        };
        let body_bytes_max = match (&desk.grip, self.port) {
            (Some(grip), Port::Client) => body_bytes_max.max(grip.body_bytes_max()),
            _ => body_bytes_max,
        };
        Limits {
            head_bytes_max: desk.limits.head_bytes_max,
            body_bytes_max: body_bytes_max as u64,
            ..Limits::default()
        }
    }

    /// The limits of a request before it is known what it is for.
    fn open_limits(&self, desk: &Desk) -> Limits {
        let limits = self.limits(desk);
        let is_open = desk.grip.is_some() && self.port == Port::Client;
        Limits {
            body_bytes_max: if is_open {
                u64::MAX
            } else {
                limits.body_bytes_max
            },
            ..limits
        }
    }

    /// Whether the body may go to a backend in pieces.
    fn streams(&self, request: &Request<'_>, desk: &Desk) -> bool {
        self.port == Port::Client
            && self.admission == Admission::Welcome
            && crate::grip::streams(request, desk)
    }

    pub(crate) fn bytes(
        &mut self,
        id: ConnId,
        input: &[u8],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let Some(pending) = self.pending.as_mut() else {
            return self.requests(id, input, 0, desk, fx);
        };
        if pending.call.is_some() {
            let request_bytes_max = desk.limits.head_bytes_max + desk.limits.publish_bytes_max;
            if pending.raw.len() + input.len() > 2 * request_bytes_max {
                fx.end(End::Now);
            } else {
                pending.raw.extend_from_slice(input);
            }
            return None;
        }
        if pending.incoming.is_some() {
            return self.more_body(id, input, desk, fx);
        }
        let (mut raw, searched) = (std::mem::take(&mut pending.raw), pending.searched);
        raw.extend_from_slice(input);
        self.pending = None;
        self.requests(id, &raw, searched, desk, fx)
    }

    /// Serves the requests at the start of `input`, and keeps what is not whole.
    fn requests(
        &mut self,
        id: ConnId,
        mut input: &[u8],
        mut searched: usize,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let own = self.limits(desk);
        let open = self.open_limits(desk);
        while !input.is_empty() {
            let (request, head_bytes) = match parse_request_resumed(input, searched, &open) {
                Ok(Some(whole)) => whole,
                Ok(None) => {
                    let pending = Pending {
                        raw: input.to_vec(),
                        searched: input.len(),
                        ..Pending::default()
                    };
                    self.pending = Some(Box::new(pending));
                    return None;
                }
                Err(fault) => {
                    desk.board.count(Counter::BadRequests);
                    refuse(fault.status(), fault.reason(), fx);
                    return None;
                }
            };
            searched = 0;
            let rest = &input[head_bytes..];
            let streams = self.streams(&request, desk);
            let limits = if streams { open } else { own };
            if matches!(request.body, Body::Length(bytes) if bytes > limits.body_bytes_max) {
                desk.board.count(Counter::BadRequests);
                let fault = throng_http1::BadBody::TooLarge;
                refuse(fault.status(), fault.reason(), fx);
                return None;
            }
            let (body, body_bytes) = match whole_body(&request, rest, &limits) {
                Ok(Some(whole)) => whole,
                Ok(None) if streams => {
                    if request.expects_continue() {
                        fx.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    let from = (self.port, self.peer);
                    return match api::serve(from, id, &request, (&[], true), desk, fx) {
                        Next::Becomes(kind) => Some((kind, rest.to_vec())),
                        // A refusal; nobody knows where the next request begins.
                        Next::Answered { .. } | Next::Waits(_) => {
                            fx.end(End::Flush);
                            None
                        }
                    };
                }
                Ok(None) => {
                    if request.expects_continue() {
                        fx.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    let incoming = Incoming {
                        decoder: BodyDecoder::new(request.body, &limits),
                        body: Vec::new(),
                    };
                    let raw = input[..head_bytes].to_vec();
                    let pending = Pending {
                        raw,
                        incoming: Some(incoming),
                        ..Pending::default()
                    };
                    self.pending = Some(Box::new(pending));
                    return self.more_body(id, rest, desk, fx);
                }
                Err(fault) => {
                    desk.board.count(Counter::BadRequests);
                    refuse(fault.status(), fault.reason(), fx);
                    return None;
                }
            };
            input = &rest[body_bytes..];
            match self.serve(id, &request, &body, desk, fx) {
                Next::Answered { keep_alive } => self.answered(keep_alive, desk, fx),
                Next::Becomes(kind) => return Some((kind, input.to_vec())),
                Next::Waits(call) => {
                    fx.deadline = Some(None);
                    let raw = input.to_vec();
                    let pending = Pending {
                        raw,
                        call: Some(call),
                        ..Pending::default()
                    };
                    self.pending = Some(Box::new(pending));
                    return None;
                }
            }
            if fx.end.is_some() {
                return None;
            }
        }
        None
    }

    /// Goes on with a body that did not come whole.
    fn more_body(
        &mut self,
        id: ConnId,
        input: &[u8],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let pending = self.pending.as_mut()?;
        let incoming = pending.incoming.as_mut()?;
        let mut rest = input;
        loop {
            match incoming.decoder.feed(rest) {
                Ok(step) => {
                    incoming.body.extend_from_slice(step.data);
                    rest = &rest[step.consumed..];
                    if step.done {
                        break;
                    }
                    if rest.is_empty() {
                        return None;
                    }
                }
                Err(fault) => {
                    desk.board.count(Counter::BadRequests);
                    refuse(fault.status(), fault.reason(), fx);
                    return None;
                }
            }
        }
        let body = std::mem::take(&mut incoming.body);
        let head = std::mem::take(&mut pending.raw);
        self.pending = None;
        let limits = self.limits(desk);
        // It was parsed before, with the same limits.
        let Ok(Some((request, _))) = parse_request_resumed(&head, 0, &limits) else {
            return None;
        };
        match self.serve(id, &request, &body, desk, fx) {
            Next::Answered { keep_alive } => {
                self.answered(keep_alive, desk, fx);
                if fx.end.is_some() {
                    None
                } else {
                    self.requests(id, rest, 0, desk, fx)
                }
            }
            Next::Becomes(kind) => Some((kind, rest.to_vec())),
            Next::Waits(call) => {
                fx.deadline = Some(None);
                let raw = rest.to_vec();
                self.pending = Some(Box::new(Pending {
                    raw,
                    call: Some(call),
                    ..Pending::default()
                }));
                None
            }
        }
    }

    fn serve(
        &self,
        id: ConnId,
        request: &Request<'_>,
        body: &[u8],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Next {
        match self.admission {
            Admission::Welcome => {}
            Admission::AddressFull => {
                desk.board.count(Counter::RefusedPerIp);
                refuse(429, "your address has as many connections as it may", fx);
                return Next::Answered { keep_alive: false };
            }
            Admission::ServerFull => {
                desk.board.count(Counter::RefusedConnectionsMax);
                refuse(503, "the server has as many connections as it may", fx);
                return Next::Answered { keep_alive: false };
            }
        }
        api::serve((self.port, self.peer), id, request, (body, false), desk, fx)
    }

    fn answered(&self, keep_alive: bool, desk: &Desk, fx: &mut Fx<'_>) {
        if keep_alive {
            fx.deadline_at(fx.now.mono + desk.limits.keepalive_timeout_ms);
        } else {
            fx.end(End::Flush);
        }
    }

    pub(crate) fn answer(
        &mut self,
        id: ConnId,
        token: u32,
        answer: Answer,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let call = self.pending.as_mut()?.call.as_mut()?;
        let done = call.answer(token, answer, fx);
        self.go_on(id, done, desk, fx)
    }

    pub(crate) fn received(&mut self, count: u64) {
        let call = self.pending.as_mut();
        if let Some(call) = call.and_then(|pending| pending.call.as_mut()) {
            call.received(count);
        }
    }

    pub(crate) fn told(
        &mut self,
        id: ConnId,
        told: Vec<Told>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let call = self.pending.as_mut()?.call.as_mut()?;
        let done = call.told(told, desk, fx);
        self.go_on(id, done, desk, fx)
    }

    /// Goes on with the requests that waited behind one that has now been answered.
    fn go_on(
        &mut self,
        id: ConnId,
        answered: Option<bool>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Option<(Kind, Vec<u8>)> {
        let keep_alive = answered?;
        let raw = self
            .pending
            .take()
            .map(|pending| pending.raw)
            .unwrap_or_default();
        self.answered(keep_alive, desk, fx);
        if keep_alive {
            self.requests(id, &raw, 0, desk, fx)
        } else {
            None
        }
    }

    pub(crate) fn timeout(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.pending.is_some() {
            desk.board.count(Counter::BadRequests);
            refuse(408, "the request did not arrive in time", fx);
        } else {
            fx.end(End::Flush);
        }
    }

    pub(crate) fn farewell(&self, fx: &mut Fx<'_>) {
        // An answer that is awaited comes within this turn or the next few; it is not cut off.
        if self
            .pending
            .as_ref()
            .is_none_or(|pending| pending.call.is_none())
        {
            fx.end(End::Flush);
        }
    }
}
