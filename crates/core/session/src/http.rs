//! The front door: HTTP requests in, answers out, until a gateway claims a request.
//!
//! Owns bytes only while a request is not whole. A whole request in one read is handled from
//! the reader's buffer.
//!
//! Rule for "full": a head or body above its limit is refused by status; for requests that wait for
//! their answers see `pipeline`.

mod body;
mod client;
mod exchange;
mod habit;
mod later;
mod login;
mod page;
mod pipeline;
mod repeat;
pub(crate) mod request;
mod response;
mod serve;
mod subscribe;

use std::net::IpAddr;

use throng_http1::{BadRequest, Body, HttpLimits, Request, parse_request_resumed};
use throng_metrics::Counter;
use throng_types::{End, Save};

pub use exchange::Exchange;
pub use pipeline::{Later, WriteAnswer};
pub use request::{Incoming, Reject};
pub use response::{SAFE, allow_origin, answer_text, respond, respond_json};
pub use serve::send_page;
pub use subscribe::{Entry, Params, StreamHead, check_chunks, check_draining, write_stream_head};

use crate::flow::Resume;
use crate::port::Port;
use crate::route::Claim;
use crate::{Admission, Allowance, Class, CloseReason, Context, Opened, Transport};
use body::{Coming, limits, whole_body};
use page::reader_of_head;
use pipeline::Pipeline;
use response::keep_head;

/// The gateways as the front door sees them.
pub trait Router {
    /// Session type that a connection changes to.
    type Session;

    /// The highest claim to a request, and the place of the gateway that has it.
    fn claim(&self, request: &Incoming<'_, '_>, cx: &Context<'_>) -> Option<(u8, Claim)>;

    /// Returns the text for a path of a gateway that is not configured.
    fn off(&self, request: &Incoming<'_, '_>) -> Option<&'static str>;

    /// Opens a request at the gateway that claimed it.
    ///
    /// # Errors
    /// A status and a sentence for the client.
    fn open(
        &mut self,
        claim: (u8, &Claim),
        request: &Incoming<'_, '_>,
        cx: &mut Context<'_>,
    ) -> Result<Opened<Self::Session>, Reject>;
}

/// Session that the connection changes to, with the bytes that are not read yet.
pub type Becomes<S> = Option<(S, Vec<u8>)>;

/// State between reads of one request. Boxed, because most connections need none.
#[derive(Default, Save)]
#[save(check = Self::is_sound)]
struct Pending {
    /// A head that is not whole; or the head that the body belongs to.
    raw: Vec<u8>,
    /// Bytes of `raw` already searched for the end of a head.
    searched: usize,
    /// The body in progress.
    coming: Option<Coming>,
}

impl Pending {
    const fn is_sound(&self) -> bool {
        self.searched <= self.raw.len()
    }
}

/// A connection that takes HTTP requests. It moves to a process that takes over between two
/// requests, or in the midst of one that is still coming.
#[derive(Save)]
pub struct Http {
    port: Port,
    peer: IpAddr,
    admission: Admission,
    /// A PROXY header comes before anything else.
    awaits_proxy: bool,
    /// Allowance spent by the client; created with its first request.
    allowance: Option<Allowance>,
    /// Whether it has served a request: the first one's time runs since it was accepted.
    has_served: bool,
    pending: Option<Box<Pending>>,
    #[save(skip)]
    pipeline: Option<Box<Pipeline>>,
}

impl Http {
    /// Whether another process can go on with it: every request has its answer.
    #[must_use]
    pub fn moves(&self) -> bool {
        let pipeline = self.pipeline.as_ref();
        pipeline.is_none_or(|pipeline| pipeline.is_empty() && !pipeline.ends)
    }

    /// Creates a connection. Only the client port limits admission.
    #[must_use]
    pub const fn new(port: Port, peer: IpAddr, admission: Admission) -> Self {
        Self {
            port,
            peer,
            admission,
            awaits_proxy: false,
            allowance: None,
            has_served: false,
            pending: None,
            pipeline: None,
        }
    }

    /// Expects the PROXY header first: the port belongs to proxies that send the client's address.
    #[must_use]
    pub fn behind_proxy(self) -> Self {
        Self {
            awaits_proxy: true,
            ..self
        }
    }

    /// A connection that was something else, and takes requests again. The bytes of `resume` are
    /// to be fed to it.
    #[must_use]
    pub const fn again(resume: &Resume) -> Self {
        let mut http = Self::new(resume.port, resume.peer, Admission::Welcome);
        http.allowance = resume.allowance;
        http.has_served = true;
        http
    }

    /// Whether it came by the client port.
    #[must_use]
    pub const fn is_client(&self) -> bool {
        matches!(self.port, Port::Client)
    }

    /// Returns transport and identity, for gauges.
    #[must_use]
    pub const fn class(&self) -> Class<'_> {
        Class {
            transport: Transport::Http,
            is_client: self.is_client(),
            identity: None,
        }
    }

    fn limits<S, O>(&self, claim: Option<&Claim>, cx: &Context<'_, S, O>) -> HttpLimits {
        limits(self.port, claim, cx)
    }

    /// Bytes arrived; all of them are taken.
    pub fn bytes<R: Router>(
        &mut self,
        input: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        if self.awaits_proxy {
            return self.proxy_header(input, router, cx);
        }
        if let Some(pipeline) = &mut self.pipeline {
            if pipeline.ends && !pipeline.is_empty() {
                return None;
            }
            if pipeline.is_blocked() {
                pipeline.put_behind(input);
                return None;
            }
        }
        let Some(pending) = self.pending.as_mut() else {
            return self.requests(input, 0, router, cx);
        };
        if pending.coming.is_some() {
            return self.more_body(input, router, cx);
        }
        let (mut raw, searched) = (std::mem::take(&mut pending.raw), pending.searched);
        raw.extend_from_slice(input);
        self.pending = None;
        self.requests(&raw, searched, router, cx)
    }

    /// Serves the requests at the start of `input`, and keeps an incomplete one.
    fn requests<R: Router>(
        &mut self,
        mut input: &[u8],
        mut searched: usize,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        // The bound of a body depends on the gateway that the request is for.
        let any_body = HttpLimits {
            body_bytes_max: u64::MAX,
            ..self.limits(None, cx)
        };
        while !input.is_empty() {
            if let Some(bytes) = self.repeat(input, router, cx) {
                input = &input[bytes..];
                searched = 0;
                if self.takes_nothing(cx) {
                    return None;
                }
                continue;
            }
            let (mut request, head_bytes) = match parse_request_resumed(input, searched, &any_body)
            {
                Ok(Some(whole)) => whole,
                Ok(None) => {
                    if self.has_served && searched == 0 {
                        cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms);
                    }
                    self.pending = Some(Box::new(Pending {
                        raw: input.to_vec(),
                        searched: input.len(),
                        coming: None,
                    }));
                    return None;
                }
                Err(fault) => {
                    // A wrong scheme in a setting, mostly, and its owner looks here.
                    if fault == BadRequest::Tls {
                        cx.shared.notices.refused("tls", "", "", fault);
                    }
                    self.bad_request((fault.status(), fault.reason()), input, cx);
                    return None;
                }
            };
            searched = 0;
            let (head, rest) = input.split_at(head_bytes);
            let claim = self.claim(&request, router, cx);
            if self.is_waiting() && !self.may_pipeline(&request, claim.as_ref(), cx) {
                return self.wait_with(input, cx);
            }
            let limits = self.limits(claim.as_ref().map(|(_, claim)| claim), cx);
            if matches!(request.body, Body::Length(bytes) if bytes > limits.body_bytes_max) {
                let fault = BadRequest::BodyTooLarge;
                self.bad_request((fault.status(), fault.reason()), input, cx);
                return None;
            }
            let (body, body_bytes) = match whole_body(&request, rest, &limits) {
                Ok(Some(whole)) => whole,
                Ok(None) => {
                    if request.expects_continue() {
                        cx.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    if claim.as_ref().is_some_and(|(_, claim)| claim.streams_body) {
                        return self.open_body(&request, claim, rest, router, cx);
                    }
                    self.pending = Some(Box::new(Pending {
                        raw: head.to_vec(),
                        searched: 0,
                        coming: Some(Coming::new(request.body, &limits, cx.now)),
                    }));
                    return self.more_body(rest, router, cx);
                }
                Err(fault) => {
                    self.bad_request((fault.status(), fault.reason()), input, cx);
                    return None;
                }
            };
            input = &rest[body_bytes..];
            if cx.shared.draining && input.is_empty() {
                request.close_after();
            }
            let start = cx.out.len();
            let opened = self.serve(&request, claim, (&body, false), router, cx);
            let is_later = matches!(opened, Opened::Later(_));
            if let Some(session) = self.opened(opened, (start, head_bytes + body_bytes), cx) {
                return Some((session, input.to_vec()));
            }
            if let Some(claim) = claim.filter(|_| is_later) {
                self.learn(head, &request, claim, cx);
            }
            if self.takes_nothing(cx) {
                return None;
            }
        }
        None
    }

    /// Passes a request whose body is still coming to its gateway.
    fn open_body<R: Router>(
        &mut self,
        request: &Request<'_>,
        claim: Option<(u8, Claim)>,
        rest: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        match self.serve(request, claim, (&[], true), router, cx) {
            Opened::Session(session) => Some((session, rest.to_vec())),
            // A refusal; the start of the next request is unknown.
            Opened::Answered { .. } | Opened::Later(_) => {
                cx.end(End::Flush);
                None
            }
        }
    }

    /// Goes on with a body that did not come whole.
    fn more_body<R: Router>(
        &mut self,
        input: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        let mut pending = self.pending.take()?;
        let coming = pending.coming.as_mut()?;
        let rest = match coming.feed(input) {
            Ok(Some(rest)) => rest,
            Ok(None) => {
                cx.deadline_at(coming.due_at(&cx.shared.limits));
                self.pending = Some(pending);
                return None;
            }
            Err(fault) => {
                self.bad_request((fault.status(), fault.reason()), &pending.raw, cx);
                return None;
            }
        };
        let body = std::mem::take(&mut coming.body);
        let head = pending.raw;
        let any_body = HttpLimits {
            body_bytes_max: u64::MAX,
            ..self.limits(None, cx)
        };
        // It was parsed before, with the same limits.
        let Ok(Some((mut request, _))) = parse_request_resumed(&head, 0, &any_body) else {
            return None;
        };
        if cx.shared.draining && rest.is_empty() {
            request.close_after();
        }
        let claim = self.claim(&request, router, cx);
        let start = cx.out.len();
        let opened = self.serve(&request, claim, (&body, false), router, cx);
        if let Some(session) = self.opened(opened, (start, head.len() + body.len()), cx) {
            return Some((session, rest.to_vec()));
        }
        if self.takes_nothing(cx) {
            return None;
        }
        self.requests(rest, 0, router, cx)
    }

    /// Everything that came is answered.
    fn answered(&mut self, keep_alive: bool, cx: &mut Context<'_>) {
        self.has_served = true;
        if keep_alive {
            cx.deadline_at(cx.now.mono + cx.shared.limits.keepalive_timeout_ms);
        } else {
            cx.end(End::Flush);
        }
    }

    /// Refuses a request, behind the answers to those before it, and ends the connection, because
    /// the start of the next request is unknown. `raw` holds its bytes so far.
    fn bad_request(&mut self, (status, sentence): (u16, &str), raw: &[u8], cx: &mut Context<'_>) {
        cx.count(Counter::BadRequests);
        let start = cx.out.len();
        let any_body = HttpLimits {
            body_bytes_max: u64::MAX,
            ..self.limits(None, cx)
        };
        let mut headers = Vec::new();
        let reader = match parse_request_resumed(raw, 0, &any_body) {
            Ok(Some((request, _))) => self.reader(&request, cx),
            _ if self.is_client() => {
                let head = known_wrong(raw, &any_body);
                reader_of_head(self.port, head, cx.shared)
            }
            _ => None,
        };
        allow_origin(reader, &mut headers);
        if self.port == Port::Api {
            headers.extend(SAFE);
        }
        answer_text(status, sentence, &headers, false, cx);
        if is_head(raw) {
            keep_head(start, cx.out);
        }
        self.written((start, false), cx);
    }

    /// Handles the deadline of a connection.
    pub fn timeout(&mut self, cx: &mut Context<'_>) {
        if let Some(pending) = self.pending.take() {
            let fault = (408, "the request did not arrive in time");
            self.bad_request(fault, &pending.raw, cx);
        } else if !self.is_waiting() {
            cx.end(End::Flush);
        }
    }

    /// Ends the connection for the server. Outside an answer there is nothing to write.
    pub fn close(&mut self, _: &CloseReason, cx: &mut Context<'_>) {
        // A call of the server API that has begun is answered, and is the last one then.
        let is_call = self.pending.is_some() && !self.is_client();
        match &mut self.pipeline {
            // Answers come within this turn or the next few; they are not cut off.
            Some(pipeline) if !pipeline.is_empty() => pipeline.ends = true,
            _ if is_call => {}
            _ => cx.end(End::Flush),
        }
    }
}

/// The shortest beginning of a head that already shows the fault; all of a head without one. The
/// answer depends on nothing behind it, so it is the same wherever the network cut the head.
fn known_wrong<'b>(head: &'b [u8], limits: &HttpLimits) -> &'b [u8] {
    let (mut fine, mut wrong) = (0, head.len());
    while fine + 1 < wrong {
        let middle = fine.midpoint(wrong);
        match parse_request_resumed(&head[..middle], 0, limits) {
            Err(_) => wrong = middle,
            Ok(_) => fine = middle,
        }
    }
    &head[..wrong]
}

/// Whether these are the first bytes of a request with the method HEAD, whatever follows.
fn is_head(mut raw: &[u8]) -> bool {
    while let Some(rest) = raw.strip_prefix(b"\r\n") {
        raw = rest;
    }
    raw.starts_with(b"HEAD ")
}
