//! The front door: HTTP requests in, answers out, until a gateway claims a request.
//!
//! Owns bytes only while a request is not whole. A whole request in one read is handled from
//! the reader's buffer.
//!
//! Rule for "full": a head or body above its limit is refused by status; for requests that wait for
//! their answers see `pipeline`.

mod body;
mod exchange;
mod grpc;
mod login;
mod page;
mod pipeline;
pub(crate) mod request;
mod response;
mod serve;
mod sign_in;
mod subscribe;

use std::net::IpAddr;

use throng_http1::{BadRequest, Body, HttpLimits, Request, parse_request_resumed};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{End, Http2, Save};

pub use exchange::Exchange;
pub use grpc::{GrpcCode, grpc_end, grpc_message, read_grpc, respond_grpc, write_grpc_head};
pub use pipeline::{Later, WriteAnswer};
pub use request::{Incoming, Reject};
pub use response::{SAFE, allow_origin, answer_text, respond, respond_json};
pub use serve::send_page;
pub use subscribe::{Entry, Params, StreamHead, check_chunks, check_draining, write_stream_head};

use crate::close::Port;
use crate::gateway::Resume;
use crate::route::{Claim, Owner};
use crate::{Admission, Allowance, Class, Context, Event, Opened, Shared, Transport};
use body::{Coming, limits, whole_body};
use grpc::{is_grpc, reject_grpc};
use page::{is_head, known_wrong, reader_of_head};
use pipeline::{Pipeline, waiting_bytes_max};
use response::keep_head;

/// Begin of HTTP/2's preface (RFC 9113 section 3.4), as that of no request of HTTP/1.1.
const PREFACE: &[u8] = b"PRI ";

/// The gateways as the front door sees them.
pub trait Router {
    type Session;

    /// The highest claim to a request, and the place of the gateway that has it.
    fn claim(&self, request: &Incoming<'_, '_>, shared: &Shared) -> Option<(u8, Claim)>;

    /// Returns the text for a path of a gateway that is not configured.
    fn off(&self, request: &Incoming<'_, '_>) -> Option<&'static str>;

    /// Returns the lines of all gateways for the page at `/` of the client port.
    fn client_paths(&self) -> String;

    /// Returns the paths of all gateways on the API port.
    fn api_paths(&self) -> Vec<&'static str>;

    /// Opens a request at the gateway that claimed it.
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
    coming: Option<Coming>,
    /// Decision on the request that the body belongs to; made again by a process that takes over.
    #[save(skip)]
    decided: Option<Decided>,
}

impl Pending {
    const fn is_sound(&self) -> bool {
        self.searched <= self.raw.len()
    }
}

/// Owner of a request, and its claim; `None` if nothing is at the path.
type Decided = Option<(Owner, Claim)>;

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
    pub fn moves(&self) -> bool {
        let pipeline = self.pipeline.as_ref();
        pipeline.is_none_or(|pipeline| pipeline.is_empty() && !pipeline.ends)
    }

    /// Creates a connection. Only the client port limits admission.
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
    pub fn behind_proxy(self) -> Self {
        Self {
            awaits_proxy: true,
            ..self
        }
    }

    /// A connection that was something else, and takes requests again. The bytes of `resume` are
    /// to be fed to it.
    pub const fn again(resume: &Resume) -> Self {
        let mut http = Self::new(resume.port, resume.peer, Admission::Welcome);
        http.allowance = resume.allowance;
        http.has_served = true;
        http
    }

    pub const fn is_client(&self) -> bool {
        matches!(self.port, Port::Client)
    }

    /// The port that it came by, and its client's address, as far as that is known.
    pub const fn origin(&self) -> (Port, IpAddr) {
        (self.port, self.peer)
    }

    pub const fn class(&self) -> Class<'_> {
        Class {
            transport: Transport::Http,
            is_client: self.is_client(),
            is_connected: false,
            identity: None,
        }
    }

    /// Limits of a head, whose body has the bound of the gateway that the request is for.
    fn head_limits(&self, cx: &Context<'_>) -> HttpLimits {
        HttpLimits {
            body_bytes_max: u64::MAX,
            ..limits(self.port, None, cx)
        }
    }

    /// Lets something happen to the connection, which may become a gateway's.
    pub fn event<R: Router>(
        &mut self,
        event: Event<'_>,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        match event {
            Event::Bytes(input) => return self.bytes(input, router, cx),
            Event::Answer { token, answer } => return self.answer(token, &answer, router, cx),
            Event::Timeout => return self.timeout(cx),
            Event::Close(_) => self.close(cx),
            _ => {}
        }
        None
    }

    fn bytes<R: Router>(
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
            if !pipeline.behind.is_empty() {
                pipeline.behind.extend_from_slice(input);
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
        if self.begins_http2(input, cx) {
            return None;
        }
        let any_body = self.head_limits(cx);
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
                        ..Pending::default()
                    }));
                    return None;
                }
                Err(fault) => {
                    // A wrong scheme in a setting, mostly, and its owner looks here.
                    if fault == BadRequest::Tls {
                        cx.shared.notices.refused("tls", "", "", fault);
                    }
                    return self.bad_request((fault.status(), fault.reason()), input, cx);
                }
            };
            searched = 0;
            let (head, rest) = input.split_at(head_bytes);
            let decided = self.decide(&request, router, cx);
            let claim = decided.as_ref().map(|(_, claim)| claim);
            if self.is_waiting() && !self.may_pipeline(&request, claim, cx) {
                return self.wait_with(input, cx);
            }
            let limits = limits(self.port, claim, cx);
            if matches!(request.body, Body::Length(bytes) if bytes > limits.body_bytes_max) {
                let fault = BadRequest::BodyTooLarge;
                return self.bad_request((fault.status(), fault.reason()), input, cx);
            }
            let (body, body_bytes) = match whole_body(&request, rest, &limits) {
                Ok(Some(whole)) => whole,
                Ok(None) => {
                    if request.expects_continue() {
                        cx.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    if claim.is_some_and(|claim| claim.streams_body) {
                        return self.open_body(&request, decided, rest, router, cx);
                    }
                    self.pending = Some(Box::new(Pending {
                        raw: head.to_vec(),
                        searched: 0,
                        coming: Some(Coming::new(request.body, &limits, cx.now)),
                        decided: Some(decided),
                    }));
                    return self.more_body(rest, router, cx);
                }
                Err(fault) => {
                    return self.bad_request((fault.status(), fault.reason()), input, cx);
                }
            };
            input = &rest[body_bytes..];
            if cx.shared.draining && input.is_empty() {
                request.close_after();
            }
            let start = cx.out.len();
            let opened = self.serve(&request, decided, (&body, false), router, cx);
            let is_later = matches!(opened, Opened::Later(_));
            if let Some(session) = self.opened(opened, (start, head_bytes + body_bytes), cx) {
                return Some((session, input.to_vec()));
            }
            if let Some((Owner::Gateway(place), claim)) = decided.filter(|_| is_later) {
                self.learn(head, &request, (place, claim), cx);
            }
            if self.takes_nothing(cx) {
                return None;
            }
        }
        None
    }

    /// Whether HTTP/2 is spoken from now on: a connection begins with it, and may, or its client
    /// agreed on it. First bytes that do not tell yet look like a head that is not whole.
    fn begins_http2(&self, input: &[u8], cx: &mut Context<'_>) -> bool {
        let (may, shared) = (cx.shared.limits.http2, &cx.shared);
        let begins = !self.has_served
            && match shared.http2.get() {
                Http2::None => input.starts_with(PREFACE) && may[usize::from(shared.is_tls.get())],
                Http2::Agreed => true,
                Http2::Stream => false,
            };
        if begins {
            cx.out.extend_from_slice(input);
            cx.actions.http2 = Some(self.peer);
        }
        begins
    }

    /// Passes a request whose body is still coming to its gateway.
    fn open_body<R: Router>(
        &mut self,
        request: &Request<'_>,
        decided: Decided,
        rest: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        match self.serve(request, decided, (&[], true), router, cx) {
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
                return self.bad_request((fault.status(), fault.reason()), &pending.raw, cx);
            }
        };
        let body = std::mem::take(&mut coming.body);
        let head = std::mem::take(&mut pending.raw);
        let any_body = self.head_limits(cx);
        // It was parsed before, with the same limits.
        let Ok(Some((mut request, _))) = parse_request_resumed(&head, 0, &any_body) else {
            return None;
        };
        if cx.shared.draining && rest.is_empty() {
            request.close_after();
        }
        let decided = pending.decided;
        let decided = decided.unwrap_or_else(|| self.decide(&request, router, cx));
        let start = cx.out.len();
        let opened = self.serve(&request, decided, (&body, false), router, cx);
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
    fn bad_request<S>(
        &mut self,
        (status, sentence): (u16, &str),
        raw: &[u8],
        cx: &mut Context<'_>,
    ) -> Becomes<S> {
        let is_ours = status == 503;
        if !is_ours {
            cx.count(Counter::BadRequests);
        }
        let start = cx.out.len();
        let any_body = self.head_limits(cx);
        let mut headers = Vec::from(if is_ours {
            &[("Retry-After", "5")][..]
        } else {
            &[]
        });
        let reader = match parse_request_resumed(raw, 0, &any_body) {
            Ok(Some((request, _))) if is_grpc(&request, cx) => {
                reject_grpc(&Reject::new(status, sentence), cx);
                self.written((start, false), cx);
                return None;
            }
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
        None
    }

    fn timeout<S>(&mut self, cx: &mut Context<'_>) -> Becomes<S> {
        if let Some(pending) = self.pending.take() {
            let fault = (408, "the request did not arrive in time");
            return self.bad_request(fault, &pending.raw, cx);
        }
        if !self.is_waiting() {
            cx.end(End::Flush);
        }
        None
    }

    /// Ends the connection for the server.
    fn close(&mut self, cx: &mut Context<'_>) {
        // A call of the server API that has begun is answered, and is the last one then.
        let is_call = self.pending.is_some() && !self.is_client();
        match &mut self.pipeline {
            // Answers come within this turn or the next few; they are not cut off.
            Some(pipeline) if !pipeline.is_empty() => pipeline.ends = true,
            _ if is_call => {}
            _ => match self.pending.take() {
                Some(pending) if !self.awaits_proxy => {
                    let fault = (503, "the server is going down: send the request again");
                    self.bad_request::<()>(fault, &pending.raw, cx);
                }
                _ => cx.end(End::Flush),
            },
        }
    }

    /// Records the outcome of a request. `start` is where its answer begins, if that is written;
    /// `bytes` is the length of the request.
    pub(super) fn opened<S>(
        &mut self,
        opened: Opened<S>,
        (start, bytes): (usize, usize),
        cx: &mut Context<'_>,
    ) -> Option<S> {
        match opened {
            Opened::Session(session) => {
                debug_assert!(!self.is_waiting(), "it waits for those before it");
                return Some(session);
            }
            Opened::Answered { keep_alive } => self.written((start, keep_alive), cx),
            Opened::Later(later) => {
                self.has_served = true;
                // The client has done its part.
                cx.set_deadline(None);
                self.pipeline.get_or_insert_default().push(later, bytes);
            }
        }
        None
    }

    /// An answer was written from `start` on; it leaves behind those that are not known yet.
    pub(super) fn written(&mut self, (start, keep_alive): (usize, bool), cx: &mut Context<'_>) {
        match self.pipeline.as_mut().filter(|known| !known.is_empty()) {
            None => self.answered(keep_alive, cx),
            Some(pipeline) => {
                cx.set_deadline(None);
                let answer = cx.out.split_off(start.min(cx.out.len()));
                pipeline.push_written(answer, keep_alive);
            }
        }
    }

    /// Whether further input is ignored.
    pub(super) fn takes_nothing(&self, cx: &Context<'_>) -> bool {
        cx.has_ended() || self.waiting().is_some_and(|pipeline| pipeline.ends)
    }

    /// Whether a request before has no answer yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting().is_some()
    }

    /// The pipeline, if a request in it has no answer yet.
    fn waiting(&self) -> Option<&Pipeline> {
        let pipeline = self.pipeline.as_deref();
        pipeline.filter(|pipeline| !pipeline.is_empty())
    }

    /// Whether a request may be carried out while others before it have no answer.
    pub(super) fn may_pipeline(
        &self,
        request: &Request<'_>,
        claim: Option<&Claim>,
        cx: &Context<'_>,
    ) -> bool {
        let bytes_max = waiting_bytes_max(cx);
        let has_room = |pipeline: &Pipeline| pipeline.has_room(bytes_max);
        claim.is_some_and(|claim| claim.pipelines)
            && !request.expects_continue()
            && self.pipeline.as_deref().is_some_and(has_room)
    }

    /// Leaves input where it is until every request before it is answered.
    pub(super) fn wait_with<S>(&mut self, input: &[u8], cx: &mut Context<'_>) -> Becomes<S> {
        let pipeline = self.pipeline.get_or_insert_default();
        pipeline.behind.extend_from_slice(input);
        cx.pause(true);
        None
    }

    /// Handles the hub's answer to a publication. Finished answers leave, and input left behind is
    /// taken once nothing waits.
    pub(super) fn answer<R: Router>(
        &mut self,
        token: u32,
        answer: &Answer,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        let pipeline = self.pipeline.as_mut().filter(|known| !known.is_empty())?;
        pipeline.answer(token, answer, cx);
        if !pipeline.is_empty() {
            return None;
        }
        let (ends, behind) = (pipeline.ends, std::mem::take(&mut pipeline.behind));
        self.answered(!ends, cx);
        if self.pending.is_some() && !ends {
            // The next request has begun to come.
            cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms);
        }
        if behind.is_empty() || cx.has_ended() {
            return None;
        }
        cx.pause(false);
        self.requests(&behind, 0, router, cx)
    }
}
