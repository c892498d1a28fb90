//! Calls of gRPC: a message goes and one comes back, each call on a stream of HTTP/2.
//!
//! Which failure leads to another try: a call that never left, or that the backend has not looked
//! at (RFC 9113 section 8.7), is made again, at most [`TRIES_MAX`] times in all. Nothing else is
//! tried again, because the backend may have done as it was asked.
//!
//! Invariants
//! - All calls to a place are on one link, until that leaves: they end there, and later ones have
//!   a new link. A link leaves when its backend says so, and when a call got no answer in time and
//!   nothing else came either: the way may be dead.
//! - The deadline of a link is that of its first call, or its own while it has none.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use throng_http1::Headers;
use throng_http1::origin::{OriginFailure, OriginFailureKind, OriginRequest};
use throng_http2::{Code, Conn, H2Event, H2Limits, Scratch, encode_request};
use throng_peer::{LinkEvent, LinkId, PeerContext};
use throng_types::{Millis, percent_decoded};

use crate::call::{AskLimits, BackendLimits, Reply};
use crate::place::Key;
use crate::wire::{host, limits};

/// Bytes before each message: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;
/// Calls after which a link leaves: the numbers of its streams do not suffice for ever.
const CALLS_MAX: u32 = 1 << 20;

/// Tries of a call: backends may send links away as often as they like, and calls wait for their
/// turn on each.
const TRIES_MAX: u8 = 5;

/// One call under way.
pub(crate) struct MessageCall<T> {
    key: Key,
    /// Its body is the message, behind its length.
    request: OriginRequest,
    limits: AskLimits,
    token: T,
    until: Millis,
    /// When it was made, or left.
    since: Millis,
    stream: Option<u32>,
    /// Bytes of the body that have left.
    left: usize,
    /// The message that comes. Bound: [`AskLimits::bytes_max`].
    answer: Vec<u8>,
    status: Option<String>,
    /// Text of the status.
    sentence: String,
    tries: u8,
}

/// Outcome of a call, or of one try.
enum Outcome {
    Message,
    Failed(OriginFailureKind, String),
    /// The backend has not looked at it; the text says why.
    Unserved(String),
}

fn garbage(what: impl Into<String>) -> Outcome {
    Outcome::Failed(OriginFailureKind::Garbage, what.into())
}

impl<T> MessageCall<T> {
    pub(crate) fn new(
        key: Key,
        mut request: OriginRequest,
        limits: AskLimits,
        token: T,
        now: Millis,
    ) -> Self {
        let length = u32::try_from(request.body.len()).unwrap_or(u32::MAX);
        let prefix = [&[0], &length.to_be_bytes()[..]].concat();
        request.body.splice(..0, prefix);
        Self {
            key,
            request,
            limits,
            token,
            until: now + limits.timeout_ms,
            since: now,
            stream: None,
            left: 0,
            answer: Vec::new(),
            status: None,
            sentence: String::new(),
            tries: 1,
        }
    }

    /// Encodes the fields that begin its stream.
    fn head(&self, now: Millis) -> Vec<u8> {
        let timeout = format!("{}m", self.until.0.saturating_sub(now.0).min(99_999_999));
        let fields = self.request.headers.iter();
        let fields = fields.filter(|field| !field.is("Host"));
        let fields = fields.map(|field| (field.name.as_str(), &field.value[..]));
        let fields = fields.chain([("grpc-timeout", timeout.as_bytes())]);
        let (method, path) = (&self.request.method, &self.request.path);
        let scheme = if self.key.place.tls { "https" } else { "http" };
        let mut block = Vec::new();
        let host = host(&self.request);
        encode_request(method, scheme, &host, path, None, fields, &mut block);
        block
    }

    /// Takes a part of the answer; tells the outcome if it was the last.
    fn hear(&mut self, event: H2Event<'_>) -> Option<Outcome> {
        match event {
            H2Event::Response { response, ends, .. } => {
                self.note_status(response.headers());
                match response.status {
                    200 => ends.then(|| self.outcome()),
                    // Another one follows.
                    ..200 => None,
                    status => Some(garbage(format!("it answers with status {status} of HTTP"))),
                }
            }
            H2Event::Data { data, ends, .. } => {
                self.answer.extend_from_slice(data);
                let bytes_max = self.limits.bytes_max;
                match self.answer.len() > bytes_max + PREFIX_BYTES {
                    true => Some(garbage(format!(
                        "it answers with more than {bytes_max} bytes"
                    ))),
                    false => ends.then(|| self.outcome()),
                }
            }
            H2Event::Trailers { fields, .. } => {
                self.note_status(fields);
                Some(self.outcome())
            }
            H2Event::Reset { code, .. } => {
                let what = format!("it has reset the call with code {}", code.0);
                Some(match code {
                    Code::REFUSED_STREAM => Outcome::Unserved(what),
                    _ => Outcome::Failed(OriginFailureKind::Cut, what),
                })
            }
            _ => None,
        }
    }

    fn note_status(&mut self, fields: Headers<'_>) {
        for (name, value) in fields {
            let text = String::from_utf8_lossy(value);
            match name {
                "grpc-status" => self.status = Some(text.into_owned()),
                "grpc-message" => {
                    self.sentence = percent_decoded(&text).unwrap_or_else(|| text.into_owned());
                }
                _ => {}
            }
        }
    }

    /// Judges an answer that has ended.
    fn outcome(&self) -> Outcome {
        let length = self.answer.len().saturating_sub(PREFIX_BYTES) as u32;
        match (
            self.status.as_deref(),
            self.answer.split_first_chunk::<PREFIX_BYTES>(),
        ) {
            (None, _) => garbage("the answer has no gRPC status"),
            (Some("0"), Some(([0, prefix @ ..], _))) if *prefix == length.to_be_bytes() => {
                Outcome::Message
            }
            (Some("0"), _) => garbage("the answer is not one message without compression"),
            (Some(status), _) => {
                let what = format!("gRPC status {status}: {}", self.sentence);
                Outcome::Failed(OriginFailureKind::Cut, what)
            }
        }
    }
}

/// A link, and the calls on it.
struct Carrier<T> {
    key: Key,
    conn: Conn,
    /// Bytes for the end of the turn, or for a link that is not there yet. Bound: heads of calls.
    out: Vec<u8>,
    is_connected: bool,
    /// Whether it takes no more calls.
    leaves: bool,
    heard_at: Millis,
    /// Number of calls so far, which are their tags.
    made: u32,
    /// Calls under way, by their tags. Bound: the caller's.
    calls: BTreeMap<u32, MessageCall<T>>,
    /// Calls that have no stream. Queue: `calls of gRPC`.
    waiting: VecDeque<u32>,
    /// When calls have to end. Bound: one a call.
    due: BTreeSet<(Millis, u32)>,
    /// Bound: calls that end in one turn.
    over: Vec<(MessageCall<T>, Outcome)>,
}

impl<T> Carrier<T> {
    fn new(key: Key, limits: &H2Limits) -> Self {
        let mut out = Vec::new();
        Self {
            key,
            conn: Conn::client(limits, &mut out),
            out,
            is_connected: false,
            leaves: false,
            heard_at: Millis(0),
            made: 0,
            calls: BTreeMap::new(),
            waiting: VecDeque::new(),
            due: BTreeSet::new(),
            over: Vec::new(),
        }
    }

    fn add(&mut self, call: MessageCall<T>) {
        self.made += 1;
        self.leaves = self.made == CALLS_MAX;
        self.due.insert((call.until, self.made));
        self.waiting.push_back(self.made);
        self.calls.insert(self.made, call);
    }

    /// Sends what may leave now.
    fn go_on(&mut self, now: Millis) {
        while self.conn.is_settled()
            && self.conn.can_open()
            && let Some(tag) = self.waiting.pop_front()
        {
            if let Some(call) = self.calls.get_mut(&tag) {
                call.stream = self.conn.open(tag, &call.head(now), false, &mut self.out);
                call.since = now;
                self.send(tag);
            }
        }
        while let Some((_, tag)) = self.conn.next_writable() {
            self.send(tag);
        }
    }

    /// Sends one frame of a message.
    fn send(&mut self, tag: u32) {
        if let Some(call) = self.calls.get_mut(&tag)
            && let Some(id) = call.stream
        {
            let rest = &call.request.body[call.left..];
            let sent = self.conn.data(id, rest.len(), true, &mut self.out);
            self.out.extend_from_slice(&rest[..sent]);
            call.left += sent;
        }
    }

    fn read(&mut self, mut input: &[u8], now: Millis, limits: &H2Limits, scratch: &mut Scratch) {
        self.heard_at = now;
        while !input.is_empty() {
            let conn = &mut self.conn;
            match conn.read(&mut input, now, limits, scratch, &mut self.out) {
                Ok(event) => event.into_iter().for_each(|event| self.heard(event)),
                Err(fault) => {
                    self.leaves = true;
                    let what = format!("it does not keep to HTTP/2: {}", fault.reason());
                    self.end_where(|_| true, |_| garbage(what.as_str()));
                }
            }
        }
    }

    fn heard(&mut self, event: H2Event<'_>) {
        let tag = match &event {
            H2Event::Data { id, tag, data, .. } => {
                self.conn.took(*id, data.len(), &mut self.out);
                *tag
            }
            H2Event::Response { tag, .. }
            | H2Event::Trailers { tag, .. }
            | H2Event::Reset { tag, .. } => *tag,
            H2Event::GoAway { last, code } => {
                self.leaves = true;
                let is_unserved = |stream: Option<u32>| stream.is_none_or(|id| id > *last);
                let what = format!("it takes no more calls: code {}", code.0);
                return self.end_where(is_unserved, |_| Outcome::Unserved(what.clone()));
            }
            H2Event::Request { .. } | H2Event::Writable => return,
        };
        let call = self.calls.get_mut(&tag);
        if let Some(outcome) = call.and_then(|call| call.hear(event)) {
            self.end(tag, outcome);
        }
    }

    fn end(&mut self, tag: u32, outcome: Outcome) {
        if let Some(call) = self.calls.remove(&tag) {
            self.due.remove(&(call.until, tag));
            match call.stream {
                Some(id) => self.conn.reset(id, Code::CANCEL, &mut self.out),
                None => self.waiting.retain(|waits| *waits != tag),
            }
            self.over.push((call, outcome));
        }
    }

    /// Ends calls by their streams.
    fn end_where(
        &mut self,
        which: impl Fn(Option<u32>) -> bool,
        outcome: impl Fn(Option<u32>) -> Outcome,
    ) {
        let found = self.calls.iter().filter(|(_, call)| which(call.stream));
        let found: Vec<_> = found.map(|(tag, call)| (*tag, call.stream)).collect();
        for (tag, stream) in found {
            self.end(tag, outcome(stream));
        }
    }

    /// Ends calls whose time has come; without calls, it was kept for long enough.
    fn late(&mut self, now: Millis) {
        self.leaves |= self.due.is_empty();
        while let Some(&(at, tag)) = self.due.first()
            && at <= now
            && let Some(call) = self.calls.get(&tag)
        {
            self.leaves |= self.heard_at <= call.since;
            let what = format!("no whole answer within {} ms", call.limits.timeout_ms);
            self.end(tag, Outcome::Failed(OriginFailureKind::Timeout, what));
        }
    }
}

/// Links to all places.
pub(crate) struct Carriers<T> {
    /// Bound: one a place, and those that leave.
    all: BTreeMap<LinkId, Carrier<T>>,
    scratch: Scratch,
    limits: H2Limits,
    idle_timeout_ms: u64,
}

impl<T> Carriers<T> {
    pub(crate) fn new(own: &BackendLimits) -> Self {
        Self {
            all: BTreeMap::new(),
            scratch: Scratch::default(),
            limits: H2Limits {
                http: limits(own.head_bytes_max),
                ..H2Limits::USUAL
            },
            idle_timeout_ms: own.idle_timeout_ms,
        }
    }

    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.all.contains_key(&link)
    }

    /// Counts the calls under way.
    pub(crate) fn calls(&self) -> usize {
        self.all.values().map(|carrier| carrier.calls.len()).sum()
    }

    pub(crate) fn make(&mut self, call: MessageCall<T>, cx: &mut PeerContext<'_, Reply<T>>) {
        let mut all = self.all.iter();
        let known = all.find(|(_, carrier)| !carrier.leaves && carrier.key == call.key);
        let link = known.map(|(link, _)| *link).unwrap_or_else(|| {
            let within_ms = call.request.to.connect_timeout_ms;
            cx.dial(call.key.dial(within_ms, true))
        });
        let carrier = self.all.entry(link);
        let new = || Carrier::new(call.key.clone(), &self.limits);
        carrier.or_insert_with(new).add(call);
        self.settle(link, cx);
    }

    pub(crate) fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Reply<T>>,
    ) {
        let now = cx.now.mono;
        let Some(carrier) = self.all.get_mut(&link) else {
            return;
        };
        match event {
            LinkEvent::Connected => carrier.is_connected = true,
            LinkEvent::Bytes(input) => carrier.read(input, now, &self.limits, &mut self.scratch),
            LinkEvent::Written => {}
            LinkEvent::Timeout(_) => carrier.late(now),
            LinkEvent::Ended(why) => {
                let is_connected = carrier.is_connected;
                let outcome = |stream| match stream {
                    None if is_connected => Outcome::Unserved(why.to_string()),
                    None => Outcome::Failed(OriginFailureKind::Unreachable, why.to_string()),
                    Some(_) => Outcome::Failed(OriginFailureKind::Cut, format!("no answer: {why}")),
                };
                carrier.end_where(|_| true, outcome);
                let over = std::mem::take(&mut carrier.over);
                self.all.remove(&link);
                return self.answer(over, cx);
            }
        }
        self.settle(link, cx);
    }

    /// Lets a link go on, or leave, and answers the calls that are over.
    fn settle(&mut self, link: LinkId, cx: &mut PeerContext<'_, Reply<T>>) {
        let Some(carrier) = self.all.get_mut(&link) else {
            return;
        };
        let now = cx.now.mono;
        carrier.go_on(now);
        let over = std::mem::take(&mut carrier.over);
        let first = carrier.due.first().map(|(at, _)| *at);
        let is_last = carrier.leaves && first.is_none();
        if is_last && carrier.conn.is_settled() {
            carrier.conn.close(Code::NO_ERROR, "", &mut carrier.out);
        }
        if carrier.is_connected && !carrier.out.is_empty() {
            cx.write(link, std::mem::take(&mut carrier.out));
        }
        match is_last {
            true if carrier.is_connected => cx.finish(link),
            true => cx.end(link),
            false => {
                let idle_until = now + self.idle_timeout_ms;
                cx.set_deadline(link, first.or(Some(idle_until)));
            }
        }
        if is_last {
            self.all.remove(&link);
        }
        self.answer(over, cx);
    }

    fn answer(&mut self, over: Vec<(MessageCall<T>, Outcome)>, cx: &mut PeerContext<'_, Reply<T>>) {
        for (mut call, outcome) in over {
            let (fault, what) = match outcome {
                Outcome::Message => {
                    call.answer.drain(..PREFIX_BYTES);
                    cx.reply(Reply::Whole(call.token, Ok((200, call.answer))));
                    continue;
                }
                Outcome::Unserved(_) if call.tries < TRIES_MAX => {
                    let again = MessageCall {
                        stream: None,
                        left: 0,
                        answer: Vec::new(),
                        status: None,
                        tries: call.tries + 1,
                        ..call
                    };
                    self.make(again, cx);
                    continue;
                }
                Outcome::Unserved(what) => (OriginFailureKind::Unsent, what),
                Outcome::Failed(fault, what) => (fault, what),
            };
            let detail = format!("{}: {what}", call.key);
            let failure = OriginFailure { fault, detail };
            cx.reply(Reply::Whole(call.token, Err(failure)));
        }
    }
}
