//! A request that a backend is asked about, until it is clear what becomes of its client.
//!
//! Rule for "full": what a client says meanwhile is kept up to one head's worth, and a client that
//! says more is cut off. Of the backend's answer nothing is kept but bodies that are needed
//! whole, and those are bounded; what is only passed on is bounded by the driver's credit.

use std::net::IpAddr;

use throng_grip::exchange::{OriginEvent, OriginHead};
use throng_grip::instruct::{
    Hold, INSTRUCT_BODY_BYTES_MAX, Instruct, Reply, ReplyBody, ResponseHead,
};
use throng_grip::proxy::is_response_hop;
use throng_http1::LAST_CHUNK;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::ConnId;

use super::GripDesk;
use super::asked::Asked;
use super::head::{Framing, encode_head, is_bodiless, pass_on};
use super::held::Held;
use super::order::GripOrder;
use super::upload::{KEPT_BYTES_MAX, Upload};
use super::wait::Wait;
use crate::Desk;
use crate::api::Incoming;
use crate::effects::{End, Fx, Order};
use crate::http::{Http, answer_text};
use crate::route::Port;
use crate::session::Kind;

/// What a session becomes, and bytes that it has not read.
pub(crate) type Becomes = Option<(Kind, Vec<u8>)>;

/// See the module's head. Boxed: few connections wait for a backend at a time.
pub(crate) struct Proxied {
    port: Port,
    peer: IpAddr,
    pub(super) asked: Asked,
    pub(super) minor_version: u8,
    pub(super) keep_alive: bool,
    /// Of the exchange whose events are waited for.
    pub(super) token: u32,
    pub(super) stage: Stage,
    /// The body, while it still comes.
    upload: Option<Box<Upload>>,
    /// Requests behind this one.
    raw: Vec<u8>,
}

pub(super) enum Stage {
    /// Nothing is known.
    Asking,
    /// The body is needed whole.
    Collecting { head: OriginHead, body: Vec<u8> },
    /// The answer is passed on.
    Relaying { framing: Framing },
    /// The client is held for a publication.
    Waiting(Box<Wait>),
}

impl Proxied {
    pub(super) fn ask(
        incoming: &Incoming<'_, '_>,
        asked: Asked,
        grip: &GripDesk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let request = incoming.request;
        let mut proxied = Self {
            port: incoming.port,
            peer: incoming.peer,
            asked,
            minor_version: request.minor_version,
            keep_alive: request.keep_alive(),
            token: 0,
            stage: Stage::Asking,
            upload: incoming
                .is_open
                .then(|| Box::new(Upload::new(request.body))),
            raw: Vec::new(),
        };
        proxied.ask_again(incoming.id, &[], grip, fx);
        proxied
    }

    /// Asks the backend what the client asked.
    pub(super) fn ask_again(
        &mut self,
        conn: ConnId,
        last_ids: &[(&str, &str)],
        grip: &GripDesk,
        fx: &mut Fx<'_>,
    ) {
        self.token += 1;
        self.stage = Stage::Asking;
        let mut request = self.asked.request(last_ids, grip, fx.now);
        if let Some(upload) = &self.upload {
            request.rest = upload.rest;
        }
        fx.orders.push(Order::Grip(GripOrder::Ask {
            conn,
            token: self.token,
            request,
        }));
    }

    pub(crate) fn bytes(&mut self, id: ConnId, input: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        let mut input = input;
        if let Some(upload) = &mut self.upload {
            fx.deadline_at(fx.now.mono + desk.limits.head_timeout_ms);
            match upload.feed(id, input, &mut self.asked.body, fx) {
                Ok(None) => return,
                Ok(Some(rest)) => {
                    input = rest;
                    self.upload = None;
                    fx.deadline = Some(None);
                }
                Err(fault) => {
                    desk.board.count(Counter::BadRequests);
                    return self.give_up(id, fault.status(), fault.reason(), fx);
                }
            }
        }
        if self.raw.len() + input.len() > desk.limits.head_bytes_max {
            fx.end(End::Now);
        } else {
            self.raw.extend_from_slice(input);
        }
    }

    /// The client's request cannot be read to its end.
    fn give_up(&mut self, id: ConnId, status: u16, sentence: &str, fx: &mut Fx<'_>) {
        fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
        if let Stage::Asking | Stage::Collecting { .. } = self.stage {
            answer_text(status, sentence, &[], false, fx);
        }
        fx.end(End::Flush);
    }

    pub(crate) fn timeout(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) -> Becomes {
        if let Some(upload) = &self.upload {
            if upload.is_paused() {
                fx.deadline_at(fx.now.mono + desk.limits.head_timeout_ms);
            } else {
                desk.board.count(Counter::BadRequests);
                self.give_up(id, 408, "the request did not arrive in time", fx);
            }
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => self.wait_is_over(id, *wait, desk, fx),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    pub(crate) fn farewell(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        // An answer under way is waited for; a held client gets what it would get at the end.
        self.keep_alive = false;
        if let Stage::Waiting(wait) = std::mem::replace(&mut self.stage, Stage::Asking) {
            let (reply, body) = wait.into_answer();
            let ended = self.respond(reply, &body, desk, fx);
            debug_assert!(ended.is_none(), "a connection that ends becomes nothing");
        }
    }

    /// A subscription that was refused leaves a client that would wait in vain.
    pub(crate) fn answer(
        &mut self,
        id: ConnId,
        answer: &Answer,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        if let Answer::Subscribed { result: Err(_), .. } = answer
            && let Stage::Waiting(_) = self.stage
        {
            self.leave_channels(id, fx);
            return self.refuse(503, "the server has no room for this client", desk, fx);
        }
        None
    }

    pub(crate) fn origin(
        &mut self,
        id: ConnId,
        token: u32,
        event: OriginEvent,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        if token != self.token {
            return None;
        }
        if let OriginEvent::Taken(bytes) = event {
            if let Some(upload) = &mut self.upload {
                upload.taken(bytes, fx);
            }
            return None;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Asking);
        match (stage, event) {
            (Stage::Asking, OriginEvent::Head(head)) => self.head(id, head, desk, fx),
            (Stage::Collecting { head, mut body }, OriginEvent::Body(bytes)) => {
                body.extend_from_slice(&bytes);
                if body.len() > INSTRUCT_BODY_BYTES_MAX {
                    fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
                    return self.bad_gateway("the body of a held response is too large", desk, fx);
                }
                self.stage = Stage::Collecting { head, body };
                None
            }
            (Stage::Collecting { head, body }, OriginEvent::End) => {
                match instruct_of(&head, &body, desk) {
                    Ok(instruct) => self.carry_out(id, instruct, Some(body), desk, fx),
                    Err(fault) => self.bad_gateway(&fault, desk, fx),
                }
            }
            (Stage::Relaying { framing }, OriginEvent::Body(bytes)) => {
                pass_on(framing, &bytes, fx.out);
                self.stage = Stage::Relaying { framing };
                None
            }
            (Stage::Relaying { framing }, OriginEvent::End) => {
                if framing == Framing::Chunked {
                    fx.out.extend_from_slice(LAST_CHUNK);
                }
                self.done(desk, fx)
            }
            (Stage::Relaying { .. }, OriginEvent::Failed(_)) => {
                // The client sees that something is missing: the end that was announced does not
                // come.
                desk.board.count(Counter::GripOriginFailures);
                fx.end(End::Flush);
                None
            }
            (Stage::Asking | Stage::Collecting { .. }, OriginEvent::Failed(failure)) => {
                desk.board.count(Counter::GripOriginFailures);
                let fault = failure.fault;
                let sentence = if self.asked.route.debug {
                    format!("{}: {}", fault.sentence(), failure.detail)
                } else {
                    fault.sentence().to_owned()
                };
                self.refuse(fault.status(), &sentence, desk, fx)
            }
            (stage, _) => {
                self.stage = stage;
                None
            }
        }
    }

    fn head(&mut self, id: ConnId, head: OriginHead, desk: &Desk, fx: &mut Fx<'_>) -> Becomes {
        let fields = head.fields();
        let response = ResponseHead {
            code: head.code,
            reason: &head.reason,
            headers: &fields,
        };
        if !self.asked.may_instruct() || !response.is_grip() {
            self.relay(head, fx);
            return None;
        }
        if self.upload.is_some() || self.asked.body.len() > KEPT_BYTES_MAX {
            fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
            return self.refuse(400, "Request too large to accept GRIP instruct.", desk, fx);
        }
        if response.is_document() {
            let body = Vec::new();
            self.stage = Stage::Collecting { head, body };
            return None;
        }
        match instruct_of(&head, b"", desk) {
            Ok(instruct) if instruct.hold == Hold::Response => {
                let body = Vec::new();
                self.stage = Stage::Collecting { head, body };
                None
            }
            Ok(instruct) if self.is_stream(&instruct) => self.stream(id, instruct, None, desk, fx),
            Ok(instruct) => {
                let head = OriginHead {
                    code: instruct.reply.code,
                    reason: instruct.reply.reason.unwrap_or_default(),
                    headers: instruct.reply.headers,
                    ..head
                };
                self.relay(head, fx);
                None
            }
            Err(fault) => {
                fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
                self.bad_gateway(&fault, desk, fx)
            }
        }
    }

    /// Whether the client stays: it is held, or the answer goes on behind a link.
    fn is_stream(&self, instruct: &Instruct) -> bool {
        let goes_on = instruct.hold == Hold::None && instruct.next.is_some();
        (instruct.hold == Hold::Stream || goes_on) && &*self.asked.method != "HEAD"
    }

    /// Does what an instruction says whose body is here whole.
    fn carry_out(
        &mut self,
        id: ConnId,
        instruct: Instruct,
        body: Option<Vec<u8>>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        let body = match &instruct.reply.body {
            ReplyBody::Replaced(body) => body.clone(),
            ReplyBody::AsReceived => body.unwrap_or_default(),
        };
        if self.is_stream(&instruct) {
            return self.stream(id, instruct, Some(body), desk, fx);
        }
        if instruct.hold == Hold::Response {
            self.wait(id, instruct, body, desk, fx);
            return None;
        }
        self.respond(instruct.reply, &body, desk, fx)
    }

    /// Begins to pass an answer on.
    fn relay(&mut self, mut head: OriginHead, fx: &mut Fx<'_>) {
        self.asked.cors(&mut head.headers);
        let framing = if head.is_bodiless {
            Framing::None(head.body_bytes)
        } else if is_bodiless(head.code) {
            // `Grip-Status` made it so, and what the backend wrote is for another status.
            Framing::None(None)
        } else if let Some(bytes) = head.body_bytes {
            Framing::Length(bytes)
        } else {
            Framing::open(self.minor_version)
        };
        self.keep_alive &= framing != Framing::Close && self.upload.is_none();
        let reason = Some(head.reason.as_str()).filter(|reason| !reason.is_empty());
        encode_head(
            head.code,
            reason,
            &head.headers,
            framing,
            self.keep_alive,
            fx.out,
        );
        self.stage = Stage::Relaying { framing };
    }

    fn stream(
        &mut self,
        id: ConnId,
        mut instruct: Instruct,
        body: Option<Vec<u8>>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        self.asked.cors(&mut instruct.reply.headers);
        let framing = Framing::open(self.minor_version);
        let reply = &instruct.reply;
        let mut head = Vec::new();
        encode_head(
            reply.code,
            reply.reason.as_deref(),
            &reply.headers,
            framing,
            true,
            &mut head,
        );
        let asked = self.asked.take();
        let is_chunked = framing == Framing::Chunked;
        let exchange = (self.token, is_chunked);
        let mut held = Held::new(id, asked, exchange, (head, instruct), desk, fx);
        if let Some(body) = body {
            held.body_is_here(id, &body, desk, fx);
        }
        Some((Kind::Held(held), Vec::new()))
    }

    /// Answers with a whole body.
    pub(super) fn respond(
        &mut self,
        mut reply: Reply,
        body: &[u8],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        self.asked.cors(&mut reply.headers);
        let bytes = body.len() as u64;
        let is_head = &*self.asked.method == "HEAD";
        let framing = match is_bodiless(reply.code) {
            true => Framing::None(None),
            false => Framing::Length(bytes),
        };
        let reason = reply.reason.as_deref();
        encode_head(
            reply.code,
            reason,
            &reply.headers,
            framing,
            self.keep_alive,
            fx.out,
        );
        if framing != Framing::None(None) && !is_head {
            fx.out.extend_from_slice(body);
        }
        self.done(desk, fx)
    }

    fn bad_gateway(&mut self, fault: &str, desk: &Desk, fx: &mut Fx<'_>) -> Becomes {
        desk.board.count(Counter::GripInstructFaults);
        let sentence = if self.asked.route.debug {
            format!("the backend's instructions cannot be followed: {fault}")
        } else {
            "the backend's instructions cannot be followed".to_owned()
        };
        self.refuse(502, &sentence, desk, fx)
    }

    fn refuse(&mut self, status: u16, sentence: &str, desk: &Desk, fx: &mut Fx<'_>) -> Becomes {
        answer_text(status, sentence, &[], self.keep_alive, fx);
        self.done(desk, fx)
    }

    /// The answer is whole: the connection may serve the next request.
    fn done(&mut self, desk: &Desk, fx: &mut Fx<'_>) -> Becomes {
        // Of a body that was not awaited nobody knows where the next request begins.
        if !self.keep_alive || self.upload.is_some() || desk.draining {
            fx.deadline = Some(None);
            fx.end(End::Flush);
            return None;
        }
        fx.deadline_at(fx.now.mono + desk.limits.keepalive_timeout_ms);
        let http = Http::again(self.port, self.peer);
        Some((Kind::Http(http), std::mem::take(&mut self.raw)))
    }
}

/// Reads the instructions of an answer; the fault is for operators.
pub(super) fn instruct_of(head: &OriginHead, body: &[u8], desk: &Desk) -> Result<Instruct, String> {
    let fields = head.fields();
    let response = ResponseHead {
        code: head.code,
        reason: &head.reason,
        headers: &fields,
    };
    let own_max = desk.limits.channels_max;
    let grip = desk.grip.as_ref();
    let channels_max = grip.map_or(own_max, |grip| grip.channels_max(own_max));
    let instruct = Instruct::from_response(response, body, channels_max);
    let mut instruct = instruct.map_err(|fault| fault.to_string())?;
    let headers = &mut instruct.reply.headers;
    headers.retain(|header| !is_response_hop(&header.name, true));
    Ok(instruct)
}
