//! One request, from the choice of a backend to the last byte of its answer.
//!
//! Which failure leads to another try: a backend that cannot be connected to hands over to the
//! next; a kept link that ends before the first byte of an answer is replaced once, whatever the
//! method, if all of the request is still there: the backend was closing it while it was asked.
//! Nothing else is tried again, because the backend may have done as it was asked.

use throng_http1::BodyDecoder;
use throng_http1::origin::{
    OriginEvent, OriginFailure, OriginFailureKind, OriginRequest, RequestRest,
};
use throng_http1::origin::{OriginTarget, TargetAddress};
use throng_peer::{Ended, LinkEvent, LinkId, PeerContext, ReadFlow};
use throng_types::Millis;

use crate::call::{AnswerTo, AskLimits, BackendLimits, Reply};
use crate::place::Key;
use crate::pool::Pool;
use crate::test_target::TestTarget;
use crate::uplink::{Step, Uplink};
use crate::wire::{Answer, decode, encode, host, limits};

/// Bytes of an answer that a backend may be ahead of the client.
const WINDOW_BYTES: i64 = 64 << 10;
/// Answers of the kind 1xx before the real one.
const INTERIM_MAX: usize = 16;

enum Via {
    None,
    Link(LinkId),
    Test(Box<TestTarget>),
}

enum State {
    /// Waits for a link; nothing was sent.
    Connecting,
    /// Asked; the part of the answer's head that has arrived is in `input`.
    Asking,
    /// Relays a body; true if the link can be used again behind it.
    Body(BodyDecoder, bool),
    Tunnel,
}

pub(crate) enum Next {
    On,
    Done,
    /// The exchange failed; the text says why.
    Failed(OriginFailureKind, String),
}

/// One request under way. `T` is the caller's token, dropped when the exchange ends.
pub(crate) struct Exchange<T> {
    request: OriginRequest,
    to: AnswerTo,
    token: T,
    /// Status and body of an answer that is wanted whole. Bound: [`AskLimits::bytes_max`], and what
    /// one read brought.
    whole: (u16, Vec<u8>),
    host: String,
    /// Place in the list of the targets that is tried next.
    next: usize,
    /// Failures of those before. Bound: one a target.
    tried: Vec<String>,
    key: Option<Key>,
    via: Via,
    is_kept: bool,
    state: State,
    /// Bytes received and not yet taken. Bound: `head_bytes_max`, and one read.
    input: Vec<u8>,
    interim: usize,
    /// Bytes that the backend may still send. Below zero after a read that brought more.
    credit: i64,
    is_held: bool,
    uplink: Uplink,
    /// The kernel has not taken all that was written.
    in_flight: bool,
    /// The request was taken whole.
    is_sent: bool,
    /// End of a request whose answer is wanted whole.
    gives_up_at: Option<Millis>,
}

/// Things that an exchange works with, apart from itself.
pub(crate) struct Tools<'a, 'c, T> {
    pub(crate) limits: &'a BackendLimits,
    pub(crate) pool: &'a mut Pool,
    pub(crate) cx: &'a mut PeerContext<'c, Reply<T>>,
}

impl<T> Exchange<T> {
    pub(crate) fn new(request: OriginRequest, to: AnswerTo, token: T, now: Millis) -> Self {
        let gives_up_at = match &to {
            AnswerTo::Whole(limits) => Some(now + limits.timeout_ms),
            _ => None,
        };
        Self {
            uplink: Uplink::new(request.rest == RequestRest::Body(None)),
            host: host(&request),
            request,
            to,
            token,
            whole: (0, Vec::new()),
            next: 0,
            tried: Vec::new(),
            key: None,
            via: Via::None,
            is_kept: false,
            state: State::Connecting,
            input: Vec::new(),
            interim: 0,
            credit: WINDOW_BYTES,
            is_held: false,
            in_flight: false,
            is_sent: false,
            gives_up_at,
        }
    }

    pub(crate) const fn link(&self) -> Option<LinkId> {
        match self.via {
            Via::Link(link) => Some(link),
            _ => None,
        }
    }

    /// Goes on to the next target.
    pub(crate) fn start(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        let Some(target) = self.request.to.targets.get(self.next) else {
            return Next::Failed(OriginFailureKind::Unreachable, self.tried.join("; "));
        };
        self.next += 1;
        let key = Key::of(target, &self.host);
        if target.address == TargetAddress::Test {
            self.via = Via::Test(Box::new(TestTarget::new(&self.request)));
            self.key = Some(key);
            return self.ask(tools);
        }
        let kept = match self.request.rest {
            RequestRest::Upgrade => None,
            RequestRest::Nothing | RequestRest::Body(_) => tools.pool.take(&key),
        };
        self.key = Some(key);
        match kept {
            Some(link) => {
                (self.via, self.is_kept) = (Via::Link(link), true);
                self.ask(tools)
            }
            None => self.dial(tools),
        }
    }

    fn dial(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        self.is_kept = false;
        self.state = State::Connecting;
        if let Some(key) = &self.key {
            let timeout_ms = self.request.to.connect_timeout_ms;
            self.via = Via::Link(tools.cx.dial(key.dial(timeout_ms, false)));
            self.set_deadline(None, tools);
        }
        Next::On
    }

    pub(crate) fn event(
        &mut self,
        event: LinkEvent<'_>,
        tools: &mut Tools<'_, '_, T>,
    ) -> (ReadFlow, Next) {
        let next = match event {
            LinkEvent::Connected => self.ask(tools),
            LinkEvent::Bytes(bytes) => return self.got(bytes, tools),
            LinkEvent::Written => self.written(tools),
            LinkEvent::Ended(why) => self.ended(why, tools),
            LinkEvent::Timeout(waits_since) => self.timeout(waits_since, tools),
        };
        (ReadFlow::More, next)
    }

    fn target(&self) -> Option<&OriginTarget> {
        self.request.to.targets.get(self.next.checked_sub(1)?)
    }

    /// Writes the request as far as it is known.
    fn ask(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        self.state = State::Asking;
        (self.is_sent, self.interim) = (false, 0);
        let mut bytes = Vec::new();
        if let Some(target) = self.target() {
            encode(&self.request, target, &mut bytes);
        }
        bytes.extend(self.uplink.begin(self.is_kept));
        self.write(bytes, tools)
    }

    fn write(&mut self, bytes: Vec<u8>, tools: &mut Tools<'_, '_, T>) -> Next {
        match &mut self.via {
            Via::None => Next::On,
            Via::Link(link) => {
                tools.cx.write(*link, bytes);
                self.in_flight = true;
                let stalled_at = tools.cx.now.mono + self.stall_ms(tools.limits);
                self.set_deadline(Some(stalled_at), tools);
                Next::On
            }
            Via::Test(target) => {
                let mut answer = Vec::new();
                let is_over = target.feed(&bytes, &mut answer);
                self.is_sent = true;
                let next = match answer.is_empty() {
                    true => Next::On,
                    false => self.got(&answer, tools).1,
                };
                match (next, is_over) {
                    (Next::On, true) => self.ended(Ended::ByPeer, tools),
                    (Next::On, false) => self.written(tools),
                    (next, _) => next,
                }
            }
        }
    }

    /// The kernel has taken all that was written.
    fn written(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        self.in_flight = false;
        if self.uplink.untold > 0 {
            let bytes = std::mem::take(&mut self.uplink.untold);
            self.tell(OriginEvent::Taken(bytes), tools);
        }
        self.pump(tools)
    }

    /// Writes the next piece of what follows the request.
    fn pump(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        let step = match (&self.state, self.request.rest) {
            _ if self.in_flight => return Next::On,
            (State::Asking, RequestRest::Body(_)) | (State::Tunnel, _) => self.uplink.next(),
            (State::Asking, RequestRest::Nothing | RequestRest::Upgrade) => Step::Done,
            (State::Connecting | State::Body(..), _) => return Next::On,
        };
        match step {
            Step::Write(bytes) => self.write(bytes, tools),
            // As long as its client takes.
            Step::Wait => {
                self.set_deadline(None, tools);
                Next::On
            }
            Step::Done if self.is_sent => Next::On,
            Step::Done => {
                self.is_sent = true;
                let within_ms = self.request.to.response_timeout_ms;
                let is_asked = matches!(self.state, State::Asking) && within_ms > 0;
                let at = is_asked.then(|| tools.cx.now.mono + within_ms);
                self.set_deadline(at, tools);
                Next::On
            }
        }
    }

    /// A piece of what follows the request; `None` for the end.
    pub(crate) fn follows(&mut self, piece: Option<Vec<u8>>, tools: &mut Tools<'_, '_, T>) -> Next {
        if matches!(self.state, State::Body(..)) {
            // The answer came early, and the rest is of no interest.
            return Next::On;
        }
        let has_room = match piece {
            Some(piece) => self.uplink.push(piece),
            None => {
                self.uplink.finish();
                true
            }
        };
        if !has_room {
            let what = "more followed the request than there is room for";
            return Next::Failed(OriginFailureKind::Unsent, what.to_owned());
        }
        self.pump(tools)
    }

    /// The client has taken bytes of the answer: as many more may come.
    pub(crate) fn granted(&mut self, bytes: usize, tools: &mut Tools<'_, '_, T>) {
        self.credit += i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.credit > 0
            && std::mem::take(&mut self.is_held)
            && let Via::Link(link) = self.via
        {
            tools.cx.resume(link);
        }
    }

    fn got(&mut self, bytes: &[u8], tools: &mut Tools<'_, '_, T>) -> (ReadFlow, Next) {
        self.input.extend_from_slice(bytes);
        let mut next = Next::On;
        if matches!(self.state, State::Asking) {
            next = self.head(tools);
        }
        if matches!(next, Next::On) {
            next = match self.state {
                State::Connecting | State::Asking => Next::On,
                State::Body(..) => self.body(tools),
                State::Tunnel => {
                    let data = std::mem::take(&mut self.input);
                    self.pass_on(data, tools);
                    Next::On
                }
            };
        }
        // A link that goes back to the pool is read on.
        self.is_held = self.credit <= 0 && matches!(next, Next::On);
        (
            if self.is_held {
                ReadFlow::Hold
            } else {
                ReadFlow::More
            },
            next,
        )
    }

    /// Reads until a head that is not 1xx is whole.
    fn head(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        let head_limits = limits(tools.limits.head_bytes_max);
        let is_head = self.request.method == "HEAD";
        let garbage = |what: &str| Next::Failed(OriginFailureKind::Garbage, what.to_owned());
        let answer = loop {
            match decode(&self.input, &head_limits, is_head) {
                Ok(None) => return Next::On,
                Ok(Some(answer)) => {
                    self.input.drain(..answer.bytes);
                    let code = answer.head.code;
                    if code >= 200 || code == 101 && self.request.rest == RequestRest::Upgrade {
                        break answer;
                    }
                    self.interim += 1;
                    // 101 would make this another protocol, for which nobody asked.
                    if code == 101 || self.interim > INTERIM_MAX {
                        return garbage("an upgrade that nobody asked for");
                    }
                }
                Err(fault) => {
                    return garbage(&format!("the answer is not HTTP: {}", fault.reason()));
                }
            }
        };
        self.begin_body(answer, &head_limits, tools)
    }

    fn begin_body(
        &mut self,
        answer: Answer,
        head_limits: &throng_http1::HttpLimits,
        tools: &mut Tools<'_, '_, T>,
    ) -> Next {
        let code = answer.head.code;
        self.set_deadline(None, tools);
        match self.to {
            AnswerTo::Nobody => return Next::Done,
            AnswerTo::Whole(_) | AnswerTo::Message(_) => self.whole.0 = code,
            AnswerTo::Conn(..) => self.tell(OriginEvent::Head(answer.head), tools),
        }
        if code == 101 {
            self.state = State::Tunnel;
            return self.pump(tools);
        }
        let decoder = BodyDecoder::for_response(answer.body, head_limits);
        self.state = State::Body(decoder, answer.keep_alive);
        Next::On
    }

    fn body(&mut self, tools: &mut Tools<'_, '_, T>) -> Next {
        let State::Body(decoder, _) = &mut self.state else {
            return Next::On;
        };
        let (mut used, mut data) = (0, Vec::new());
        while !decoder.is_done() && used < self.input.len() {
            match decoder.feed(&self.input[used..]) {
                Ok(step) => {
                    data.extend_from_slice(step.data);
                    used += step.consumed;
                }
                Err(fault) => {
                    let what = format!("the body of the answer is broken: {}", fault.reason());
                    return Next::Failed(OriginFailureKind::Garbage, what);
                }
            }
        }
        let is_done = decoder.is_done();
        self.input.drain(..used);
        if let AnswerTo::Whole(AskLimits { bytes_max, .. }) = self.to {
            self.whole.1.extend(data);
            if self.whole.1.len() > bytes_max {
                let what = format!("it answers with more than {bytes_max} bytes");
                return Next::Failed(OriginFailureKind::Garbage, what);
            }
        } else {
            self.pass_on(data, tools);
        }
        match is_done {
            true => Next::Done,
            false => Next::On,
        }
    }

    fn pass_on(&mut self, data: Vec<u8>, tools: &mut Tools<'_, '_, T>) {
        if !data.is_empty() {
            self.credit -= i64::try_from(data.len()).unwrap_or(i64::MAX);
            self.tell(OriginEvent::Body(data), tools);
        }
    }

    fn tell(&self, event: OriginEvent, tools: &mut Tools<'_, '_, T>) {
        if let AnswerTo::Conn(conn, number) = self.to {
            tools.cx.reply(Reply::Event(conn, number, event));
        }
    }

    fn ended(&mut self, why: Ended, tools: &mut Tools<'_, '_, T>) -> Next {
        let text = match &why {
            Ended::ByPeer => "it closed the connection",
            Ended::Unreachable(text) | Ended::Broken(text) => text,
        };
        let at = self.key.as_ref().map(ToString::to_string);
        let at = at.unwrap_or_default();
        self.via = Via::None;
        match &self.state {
            State::Connecting => {
                self.tried.push(format!("{at}: {text}"));
                self.start(tools)
            }
            State::Asking if !self.input.is_empty() || self.interim > 0 => {
                Next::Failed(OriginFailureKind::Cut, format!("no answer: {text}"))
            }
            State::Asking if self.is_kept && self.uplink.is_whole() => self.dial(tools),
            State::Asking if self.is_sent => {
                Next::Failed(OriginFailureKind::Cut, format!("no answer: {text}"))
            }
            State::Asking => {
                let what = format!("the connection broke while the request was sent: {text}");
                Next::Failed(OriginFailureKind::Unsent, what)
            }
            State::Body(decoder, _) => match why {
                Ended::ByPeer if decoder.may_end_here() => Next::Done,
                Ended::ByPeer => {
                    Next::Failed(OriginFailureKind::Cut, "it ended its answer early".into())
                }
                _ => Next::Failed(OriginFailureKind::Cut, text.to_owned()),
            },
            State::Tunnel => match why {
                Ended::ByPeer => Next::Done,
                _ => Next::Failed(OriginFailureKind::Cut, text.to_owned()),
            },
        }
    }

    /// The deadline has come. `waits_since` is when the kernel last took some of the bytes that
    /// wait for it.
    fn timeout(&mut self, waits_since: Option<Millis>, tools: &mut Tools<'_, '_, T>) -> Next {
        let late = |what: String| Next::Failed(OriginFailureKind::Timeout, what);
        if self.gives_up_at.is_some_and(|at| at <= tools.cx.now.mono)
            && let AnswerTo::Whole(limits) = &self.to
        {
            let within_ms = limits.timeout_ms;
            return late(format!("no whole answer within {within_ms} ms"));
        }
        let stall_ms = self.stall_ms(tools.limits);
        if !self.in_flight {
            return late(format!("no answer within {stall_ms} ms"));
        }
        // All of it may have been taken in this turn.
        let stalled_at = waits_since.unwrap_or(tools.cx.now.mono) + stall_ms;
        if stalled_at <= tools.cx.now.mono {
            return late(format!("it took nothing of the request for {stall_ms} ms"));
        }
        self.set_deadline(Some(stalled_at), tools);
        Next::On
    }

    /// Time for which the backend may take nothing, in milliseconds.
    fn stall_ms(&self, limits: &BackendLimits) -> u64 {
        match self.request.to.response_timeout_ms {
            ms if ms > 0 && !matches!(self.state, State::Tunnel) => ms,
            _ => limits.stall_timeout_ms,
        }
    }

    fn set_deadline(&self, at: Option<Millis>, tools: &mut Tools<'_, '_, T>) {
        if let Via::Link(link) = self.via {
            let first = at.into_iter().chain(self.gives_up_at).min();
            tools.cx.set_deadline(link, first);
        }
    }

    /// Ends it: frees its link, and answers.
    pub(crate) fn finish(
        self,
        result: Result<(), (OriginFailureKind, String)>,
        tools: Tools<'_, '_, T>,
    ) {
        let Tools { limits, pool, cx } = tools;
        let is_clean = result.is_ok()
            && self.is_sent
            && self.input.is_empty()
            && matches!(self.state, State::Body(ref decoder, true) if decoder.is_done());
        if let Via::Link(link) = self.via {
            cx.set_deadline(link, Some(cx.now.mono + limits.idle_timeout_ms));
            let closed = match (&self.key, is_clean) {
                (Some(key), true) => pool.put(key, link),
                _ => vec![link],
            };
            closed.into_iter().for_each(|link| cx.end(link));
        }
        let failure = result.err().map(|(fault, what)| {
            let at = { self.key.as_ref() }.filter(|_| fault != OriginFailureKind::Unreachable);
            let detail = match at {
                Some(at) => format!("{at}: {what}"),
                None => what,
            };
            OriginFailure { fault, detail }
        });
        match self.to {
            AnswerTo::Nobody => {}
            AnswerTo::Conn(conn, number) => {
                let event = failure.map_or(OriginEvent::End, OriginEvent::Failed);
                cx.reply(Reply::Event(conn, number, event));
            }
            AnswerTo::Whole(_) | AnswerTo::Message(_) => {
                let answer = failure.map_or(Ok(self.whole), Err);
                cx.reply(Reply::Whole(self.token, answer));
            }
        }
    }
}
