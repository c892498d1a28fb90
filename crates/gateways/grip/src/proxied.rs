//! A request that waits for its backend, until the use of its connection is known.
//!
//! Rule for "full": bytes from the client meanwhile are kept up to one head's worth, and a client
//! that sends more is cut off. Of the backend's answer only bodies that are needed whole are kept,
//! and those are bounded; passed-on bytes are bounded by the driver's credit.

use std::sync::Arc;

use throng_grip::instruct::{HeldReply, Hold, INSTRUCT_BODY_BYTES_MAX, Instruct, ResponseHead};
use throng_grip::item::{HttpResponseItem, Item, ResponseItem};
use throng_grip::proxy::is_response_hop;
use throng_http1::LAST_CHUNK;
use throng_http1::field::fields;
use throng_http1::origin::{OriginEvent, OriginHead};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::{Exchange, Flow, Incoming, Resume, answer_text};
use throng_types::{ChannelName, End, Publication, Save};

use crate::Cx;
use crate::following::{Due, Following};
use crate::forms::GRIP_OWN;
use crate::held::{Held, NextRequest};
use crate::order::Order;
use crate::request::BackendRequest;
use crate::response_head::{After, Framing, encode_head, is_bodiless, pass_on, send_head};
use crate::sequencer::LastItem;
use crate::upload::{KEPT_BYTES_MAX, Upload};

/// Change of a request's session.
pub(crate) enum Next {
    /// Its backend holds the client.
    Held(Held),
    /// The connection takes the next request.
    Http(Resume),
}

/// Change of a request's session; `None` if it continues.
pub(crate) type Becomes = Option<Next>;

/// A request whose backend is asked. Boxed: few connections wait for a backend at a time.
#[derive(Save)]
pub struct Proxied {
    pub(crate) exchange: Exchange,
    pub(crate) asked: BackendRequest,
    pub(crate) minor_version: u8,
    /// Token of the exchange whose events are awaited.
    pub(crate) token: u32,
    pub(crate) stage: Stage,
    /// The body, while it still comes.
    #[save(skip)]
    upload: Option<Box<Upload>>,
}

#[derive(Save)]
pub(crate) enum Stage {
    /// The backend has not answered yet.
    #[save(skip)]
    Asking,
    /// The body is needed whole.
    #[save(skip)]
    Collecting { head: OriginHead, body: Vec<u8> },
    /// The answer is passed on.
    #[save(skip)]
    Relaying { framing: Framing },
    /// The client is held for a publication.
    Waiting(Box<Wait>),
}

/// Held response of a long poll.
#[derive(Save)]
pub(crate) struct Wait {
    pub(crate) following: Following,
    /// Answer for the client at its timeout.
    pub(crate) reply: HeldReply,
    pub(crate) body: Vec<u8>,
}

impl Proxied {
    pub(crate) fn ask(incoming: &Incoming<'_, '_>, asked: BackendRequest, cx: &mut Cx<'_>) -> Self {
        let request = incoming.request;
        let mut exchange = Exchange::new(incoming);
        exchange.keep_alive |= request.asks_keep_alive();
        let mut proxied = Self {
            exchange,
            asked,
            minor_version: request.minor_version,
            token: 0,
            stage: Stage::Asking,
            upload: incoming
                .is_open
                .then(|| Box::new(Upload::new(request.body))),
        };
        proxied.ask_again(&[], cx);
        proxied
    }

    /// Whether another process can go on with it: the client is held, and its request is whole.
    pub(crate) const fn moves(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_)) && !self.is_uploading()
    }

    /// Whether the request's body still comes.
    pub(crate) const fn is_uploading(&self) -> bool {
        self.upload.is_some()
    }

    /// Asks the backend again with the client's request.
    pub(crate) fn ask_again(&mut self, last_ids: &[(&str, &str)], cx: &mut Cx<'_>) {
        self.token += 1;
        self.stage = Stage::Asking;
        let mut request = self.asked.request(last_ids, cx.own, cx.now);
        if let Some(upload) = &self.upload {
            request.rest = upload.rest;
        }
        cx.order(Order::Ask {
            conn: cx.id,
            token: self.token,
            request,
        });
    }

    pub(crate) fn bytes(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        let mut input = input;
        if let Some(upload) = &mut self.upload {
            if upload.is_progress(input.len()) {
                cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms);
            }
            match upload.feed(input, &mut self.asked.body, cx) {
                Ok(None) => return,
                Ok(Some(rest)) => {
                    input = rest;
                    self.upload = None;
                    cx.set_deadline(None);
                }
                Err(fault) => {
                    cx.count(Counter::BadRequests);
                    return self.give_up(fault.status(), fault.reason(), cx);
                }
            }
        }
        self.exchange
            .keep(input, cx.shared.limits.head_bytes_max, cx);
    }

    /// The client's request cannot be read to its end.
    fn give_up(&mut self, status: u16, sentence: &str, cx: &mut Cx<'_>) {
        cx.order(Order::Forget { conn: cx.id });
        if let Stage::Asking | Stage::Collecting { .. } = self.stage {
            answer_text(status, sentence, &[], false, cx);
        }
        cx.end(End::Flush);
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) -> Becomes {
        if let Some(upload) = &self.upload {
            if upload.uplink.is_paused() {
                // The driver gives up on a backend that takes nothing.
                cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms);
            } else {
                cx.count(Counter::BadRequests);
                self.give_up(408, "the request did not arrive in time", cx);
            }
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => self.wait_is_over(*wait, cx),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        // An answer under way is awaited; a held client gets the answer of its timeout.
        self.exchange.keep_alive = false;
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => {
                let ended = self.wait_is_over(*wait, cx);
                debug_assert!(ended.is_none(), "a connection that ends becomes nothing");
            }
            stage => self.stage = stage,
        }
    }

    /// A subscription that was refused leaves a client that would wait in vain.
    pub(crate) fn answer(&mut self, answer: &Answer, cx: &mut Cx<'_>) -> Becomes {
        if let Answer::Subscribed { result: Err(_), .. } = answer
            && let Stage::Waiting(_) = self.stage
        {
            self.leave_channels(cx);
            return self.refuse(503, "the server has no room for this client", cx);
        }
        None
    }

    pub(crate) fn origin(&mut self, token: u32, event: OriginEvent, cx: &mut Cx<'_>) -> Becomes {
        if token != self.token {
            return None;
        }
        if let OriginEvent::Taken(bytes) = event {
            if let Some(upload) = &mut self.upload
                && upload.uplink.taken(bytes)
            {
                cx.pause(false);
            }
            return None;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Asking);
        match (stage, event) {
            (Stage::Asking, OriginEvent::Head(head)) => self.head(head, cx),
            (Stage::Collecting { head, mut body }, OriginEvent::Body(bytes)) => {
                body.extend_from_slice(&bytes);
                if body.len() > INSTRUCT_BODY_BYTES_MAX {
                    cx.order(Order::Forget { conn: cx.id });
                    return self.bad_gateway("the body of a held response is too large", cx);
                }
                self.stage = Stage::Collecting { head, body };
                None
            }
            (Stage::Collecting { head, body }, OriginEvent::End) => {
                match instruct_of(&head, &body, cx) {
                    Ok(instruct) => self.carry_out(instruct, body, cx),
                    Err(fault) => self.bad_gateway(&fault, cx),
                }
            }
            (Stage::Relaying { framing }, OriginEvent::Body(bytes)) => {
                pass_on(framing, &bytes, cx.out);
                self.stage = Stage::Relaying { framing };
                None
            }
            (Stage::Relaying { framing }, OriginEvent::End) => {
                if framing == Framing::Chunked {
                    cx.out.extend_from_slice(LAST_CHUNK);
                }
                self.done(cx)
            }
            (Stage::Relaying { .. }, OriginEvent::Failed(_)) => {
                // The client sees that something is missing: the end that was announced does not
                // come.
                cx.count(Counter::GripOriginFailures);
                cx.end(End::Flush);
                None
            }
            (Stage::Asking | Stage::Collecting { .. }, OriginEvent::Failed(failure)) => {
                cx.count(Counter::GripOriginFailures);
                let sentence = self.asked.sentence(&failure);
                self.refuse(failure.fault.status(), &sentence, cx)
            }
            (stage, _) => {
                self.stage = stage;
                None
            }
        }
    }

    fn head(&mut self, head: OriginHead, cx: &mut Cx<'_>) -> Becomes {
        let fields = fields(&head.headers);
        let response = ResponseHead::of(&head, &fields);
        if !self.asked.may_instruct() || !response.is_grip() {
            self.relay(head, cx);
            return None;
        }
        if self.upload.is_some() || self.asked.body.len() > KEPT_BYTES_MAX {
            cx.order(Order::Forget { conn: cx.id });
            return self.refuse(400, "Request too large to accept GRIP instruct.", cx);
        }
        if response.is_document() {
            let body = Vec::new();
            self.stage = Stage::Collecting { head, body };
            return None;
        }
        match instruct_of(&head, b"", cx) {
            Ok(instruct) if instruct.hold == Hold::Response => {
                let body = Vec::new();
                self.stage = Stage::Collecting { head, body };
                None
            }
            Ok(instruct) if self.is_stream(&instruct) => self.stream(instruct, None, cx),
            Ok(instruct) => {
                let head = OriginHead {
                    code: instruct.reply.code,
                    reason: instruct.reply.reason.unwrap_or_default(),
                    headers: instruct.reply.headers,
                    ..head
                };
                self.relay(head, cx);
                None
            }
            Err(fault) => {
                cx.order(Order::Forget { conn: cx.id });
                self.bad_gateway(&fault, cx)
            }
        }
    }

    /// Carries out an instruction whose body is complete.
    fn carry_out(&mut self, mut instruct: Instruct, body: Vec<u8>, cx: &mut Cx<'_>) -> Becomes {
        let body = instruct.reply.body.take().unwrap_or(body);
        if self.is_stream(&instruct) {
            return self.stream(instruct, Some(body), cx);
        }
        if instruct.hold == Hold::Response {
            self.wait(instruct, body, cx);
            return None;
        }
        self.respond(instruct.reply, &body, cx)
    }

    /// Begins to pass an answer on.
    fn relay(&mut self, mut head: OriginHead, cx: &mut Cx<'_>) {
        self.asked.cors(&mut head.headers);
        let framing = if head.is_bodiless {
            Framing::None(head.body_bytes)
        } else if is_bodiless(head.code) {
            // `Grip-Status` made it so, and the backend's headers are for another status.
            Framing::None(None)
        } else if let Some(bytes) = head.body_bytes {
            Framing::Length(bytes)
        } else {
            Framing::open(self.minor_version)
        };
        self.exchange.keep_alive &= framing != Framing::Close && self.upload.is_none();
        let reason = Some(head.reason.as_str()).filter(|reason| !reason.is_empty());
        send_head(
            head.code,
            reason,
            &head.headers,
            (framing, self.after()),
            cx,
        );
        self.stage = Stage::Relaying { framing };
    }

    /// Answers with a whole body.
    pub(crate) fn respond(
        &mut self,
        mut reply: HeldReply,
        body: &[u8],
        cx: &mut Cx<'_>,
    ) -> Becomes {
        self.asked.cors(&mut reply.headers);
        let bytes = body.len() as u64;
        let is_head = &*self.asked.method == "HEAD";
        let framing = match is_bodiless(reply.code) {
            true => Framing::None(None),
            false => Framing::Length(bytes),
        };
        let reason = reply.reason.as_deref();
        send_head(
            reply.code,
            reason,
            &reply.headers,
            (framing, self.after()),
            cx,
        );
        if framing != Framing::None(None) && !is_head {
            cx.out.extend_from_slice(body);
        }
        self.done(cx)
    }

    fn bad_gateway(&mut self, fault: &str, cx: &mut Cx<'_>) -> Becomes {
        cx.count(Counter::GripInstructFaults);
        let sentence = if self.asked.route.debug {
            format!("the backend's instructions cannot be followed: {fault}")
        } else {
            "the backend's instructions cannot be followed".to_owned()
        };
        self.refuse(502, &sentence, cx)
    }

    fn refuse(&mut self, status: u16, sentence: &str, cx: &mut Cx<'_>) -> Becomes {
        // The server's own answers do not tell HTTP/1.0 that the connection stays.
        self.exchange.keep_alive &= self.minor_version > 0;
        answer_text(status, sentence, &[], self.exchange.keep_alive, cx);
        self.done(cx)
    }

    pub(crate) const fn after(&self) -> After {
        After::of(self.exchange.keep_alive, self.minor_version)
    }

    /// The answer is whole: the connection may serve the next request.
    fn done(&mut self, cx: &mut Cx<'_>) -> Becomes {
        // After a body that was not awaited the start of the next request is unknown.
        self.exchange.keep_alive &= self.upload.is_none() && !cx.shared.draining;
        match self.exchange.done(cx) {
            Flow::Stay => None,
            Flow::Http(resume) => Some(Next::Http(resume)),
        }
    }

    /// Whether the client stays: it is held, or the answer goes on behind a link.
    pub(crate) fn is_stream(&self, instruct: &Instruct) -> bool {
        let goes_on = instruct.hold == Hold::None && instruct.next.is_some();
        (instruct.hold == Hold::Stream || goes_on) && &*self.asked.method != "HEAD"
    }

    /// Holds the client; with the backend's own body, if that is here whole.
    pub(crate) fn stream(
        &mut self,
        mut instruct: Instruct,
        body: Option<Vec<u8>>,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        self.asked.cors(&mut instruct.reply.headers);
        let framing = Framing::open(self.minor_version);
        let reply = &instruct.reply;
        let mut head = Vec::new();
        encode_head(
            reply.code,
            reply.reason.as_deref(),
            &reply.headers,
            (framing, self.after()),
            Some(&cx.shared.dates.at(cx.now)),
            &mut head,
        );
        let asked = self.asked.take();
        let is_chunked = framing == Framing::Chunked;
        let next = match self.exchange.keep_alive && is_chunked && self.exchange.is_quiet() {
            true => NextRequest::after(asked.peer, cx),
            false => NextRequest::Never,
        };
        let exchange = (self.token, is_chunked, next);
        let mut held = Held::new(asked, exchange, (head, instruct), cx);
        if let Some(body) = body {
            held.body_is_here(&body, cx);
        }
        Some(Next::Held(held))
    }

    // ---- long polls: held until something is published, or the time is over ----

    /// Holds the client until something is published or its timeout.
    pub(crate) fn wait(&mut self, instruct: Instruct, body: Vec<u8>, cx: &mut Cx<'_>) {
        let prefix = &self.asked.route.channel_prefix;
        let following = Following::new(prefix, &instruct.channels, instruct.meta);
        following.subscribe(GRIP_OWN, cx);
        following.ask_last_ids(cx);
        cx.deadline_at(cx.now.mono + u64::from(instruct.timeout_s) * 1000);
        self.stage = Stage::Waiting(Box::new(Wait {
            following,
            reply: instruct.reply,
            body,
        }));
    }

    pub(crate) fn wait_is_over(&mut self, wait: Wait, cx: &mut Cx<'_>) -> Becomes {
        wait.following.leave(cx);
        self.respond(wait.reply, &wait.body, cx)
    }

    pub(crate) fn leave_channels(&self, cx: &mut Cx<'_>) {
        if let Stage::Waiting(wait) = &self.stage {
            wait.following.leave(cx);
        }
    }

    /// Handles the last item of a channel: asks the backend again if the client has another one.
    pub(crate) fn last_item(&mut self, channel: &ChannelName, last: &LastItem, cx: &mut Cx<'_>) {
        let (Stage::Waiting(wait), LastItem::Id(last)) = (&self.stage, last) else {
            return;
        };
        // Asked once: a backend that insists on its id is ahead of the publications.
        if self.token == 1 && wait.following.has_other_than(channel, last) {
            self.recover(cx);
        }
    }

    /// Asks the backend again, with the client's last ids.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => {
                wait.following.leave(cx);
                cx.set_deadline(None);
                self.ask_again(&wait.following.last_ids(), cx);
            }
            stage => self.stage = stage,
        }
    }

    pub(crate) fn publication(
        &mut self,
        publication: &Arc<Publication>,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        let grip = cx.own;
        let Stage::Waiting(wait) = &mut self.stage else {
            return None;
        };
        let at = wait.following.find(&publication.channel)?;
        let item = grip.item(publication);
        match &item.http_response {
            None | Some(HttpResponseItem::Nothing) => None,
            Some(HttpResponseItem::Hint) => {
                self.recover(cx);
                None
            }
            Some(HttpResponseItem::Send(response)) => match wait.following.due(at, &item) {
                Due::Known => None,
                Due::Gap => {
                    self.recover(cx);
                    None
                }
                Due::Next => self.publish(at, (publication, &item), response, cx),
            },
        }
    }

    fn publish(
        &mut self,
        at: usize,
        (publication, item): (&Publication, &Item),
        response: &ResponseItem,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        let Stage::Waiting(wait) = &self.stage else {
            return None;
        };
        let (reply, body) = response.compose(&wait.reply, &wait.body);
        let content = (body.as_slice(), response.content_filters.as_deref());
        let body = wait.following.content_for(at, item, content, cx)?;
        wait.following.leave(cx);
        // Counted here: the connection may serve the next request before anybody looks.
        cx.own.took(publication);
        cx.count(Counter::GripDeliveries);
        self.respond(reply, &body, cx)
    }
}

/// Reads the instructions of an answer; the fault is for operators.
pub(crate) fn instruct_of(head: &OriginHead, body: &[u8], cx: &Cx<'_>) -> Result<Instruct, String> {
    let fields = fields(&head.headers);
    let response = ResponseHead::of(head, &fields);
    let own_max = cx.shared.limits.channels_max;
    let channels_max = cx.own.channels_max(own_max);
    let instruct = Instruct::from_response(response, body, channels_max);
    let mut instruct = instruct.map_err(|fault| fault.to_string())?;
    let headers = &mut instruct.reply.headers;
    headers.retain(|header| !is_response_hop(&header.name, true));
    Ok(instruct)
}
