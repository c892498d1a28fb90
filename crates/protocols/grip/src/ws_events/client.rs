//! Conversation of one client with its backend.
//!
//! Whatever happens is first noted as a fact: what the client said, that it closed or went,
//! that the backend is to be asked. Then [`Conversation::pump`] looks at all facts and makes
//! the next request, if there is reason for one and the line is free. Nothing else makes
//! requests, so that there is never a second one.
//!
//! Never: opens connections, reads a clock, or makes ids and randomness.
//!
//! Invariants
//! - At most one request is under way or waits for its retry.
//! - After [`ConversationPhase::Done`] there are no commands.

mod answer;

use std::collections::VecDeque;

use throng_http1::origin::OriginFailureKind;
use throng_types::{Millis, Save};

use crate::headers::Header;
use crate::instruct::ResponseHead;
use crate::item::WsKind;
use crate::ws_events::control::GripFilter;
use crate::ws_events::event::{
    ConversationCommand, ConversationLimits, ConversationPhase, EVENTS_TYPE, EventKind,
    EventsReplyError, Full, WsHttpEvent, encode_event,
};

/// Body for a client whose handshake found no backend.
const NO_BACKEND: &[u8] = b"The backend did not accept this connection.\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
enum Stage {
    Opening,
    Talking,
    Detached,
    Over,
}

/// End of the client's side, and whether the backend was told.
#[derive(Clone, Debug, Default)]
enum ClientEnd {
    #[default]
    Here,
    Closed {
        content: Vec<u8>,
        told: bool,
    },
    Lost {
        told: bool,
    },
}

/// Content of one request.
#[derive(Clone, Debug, Default)]
struct Offer {
    body: Vec<u8>,
    shown: Extent,
    /// Nothing of the queue was left out.
    shows_all: bool,
    close_bytes: Option<usize>,
}

impl Offer {
    fn event(kind: EventKind) -> Self {
        let mut offer = Self {
            shows_all: true,
            ..Self::default()
        };
        let content = None;
        encode_event(WsHttpEvent { kind, content }, &mut offer.body);
        offer
    }
}

/// The way to the backend.
#[derive(Clone, Debug, Save)]
enum Line {
    Free {
        ask_at: Option<Millis>,
    },
    #[save(skip)]
    Busy(Offer),
    #[save(skip)]
    Retry {
        at: Millis,
        offer: Offer,
    },
}

/// One client's conversation with its backend.
#[derive(Clone, Debug, Save)]
pub struct Conversation {
    limits: ConversationLimits,
    connection_id: Box<str>,
    stage: Stage,
    line: Line,
    #[save(skip)]
    uplink: Uplink,
    #[save(skip)]
    client: ClientEnd,
    #[save(skip)]
    backend_closed: bool,
    /// The backend is to be asked even if there is nothing to tell it.
    #[save(skip)]
    ask: bool,
    #[save(skip)]
    failures: u32,
    keep_alive_s: u32,
    meta: Vec<(String, Vec<u8>)>,
    grip: Option<GripFilter>,
}

impl Conversation {
    /// For a client whose handshake has come. `connection_id` is unique, such as a UUID.
    /// The first command is the request with OPEN.
    #[must_use]
    pub fn start(
        limits: ConversationLimits,
        connection_id: &str,
        out: &mut Vec<ConversationCommand>,
    ) -> Self {
        let mut this = Self {
            limits,
            connection_id: connection_id.into(),
            stage: Stage::Opening,
            line: Line::Free { ask_at: None },
            uplink: Uplink::default(),
            client: ClientEnd::Here,
            backend_closed: false,
            ask: true,
            failures: 0,
            keep_alive_s: 0,
            meta: Vec::new(),
            grip: None,
        };
        this.pump(out);
        this
    }

    /// Whether another process can go on with it: it does not wait for its backend, and neither
    /// side has ended it.
    #[must_use]
    pub fn moves(&self) -> bool {
        let is_idle = self.uplink.queue.is_empty() && !self.ask;
        let is_here = matches!(self.client, ClientEnd::Here) && !self.backend_closed;
        let is_talking = matches!(self.stage, Stage::Talking | Stage::Detached);
        is_idle && is_here && is_talking && matches!(self.line, Line::Free { .. })
    }

    #[must_use]
    pub fn phase(&self) -> ConversationPhase {
        match (self.stage, &self.client) {
            (Stage::Over, _) => ConversationPhase::Done,
            (Stage::Detached, _) => ConversationPhase::Detached,
            (Stage::Opening, _) => ConversationPhase::Connecting,
            (Stage::Talking, ClientEnd::Closed { .. }) => ConversationPhase::Closing,
            (Stage::Talking, _) => ConversationPhase::Open,
        }
    }

    /// Tells whether there is room for a message of so many bytes; without, stop reading the
    /// client.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let (uplink, bytes_max) = (&self.uplink, self.limits.pending_bytes_max);
        uplink.queue.len() < PENDING_MESSAGES_MAX
            && (bytes_max.checked_sub(uplink.bytes)).is_some_and(|left| bytes <= left)
    }

    /// When [`Conversation::on_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Millis> {
        match &self.line {
            Line::Free { ask_at } => *ask_at,
            Line::Busy(_) => None,
            Line::Retry { at, .. } => Some(*at),
        }
    }

    /// A whole message of the client, or a ping or pong. A message larger than
    /// `pending_bytes_max` never fits: close with 1009.
    pub fn on_message(
        &mut self,
        kind: WsKind,
        content: Vec<u8>,
        out: &mut Vec<ConversationCommand>,
    ) -> Result<(), Full> {
        if self.phase() != ConversationPhase::Open || self.is_lost() {
            // Detached or closing: nobody is there for it.
            return Ok(());
        }
        if !self.has_room(content.len()) {
            return Err(Full);
        }
        let kind = match kind {
            WsKind::Text => EventKind::Text,
            WsKind::Binary => EventKind::Binary,
            WsKind::Ping => EventKind::Ping,
            WsKind::Pong => EventKind::Pong,
        };
        self.uplink.push(kind, content);
        self.pump(out);
        Ok(())
    }

    /// The client sent a close frame, as the first or as the answer to one. `code` is None for a
    /// close without one.
    pub fn on_close(
        &mut self,
        code: Option<u16>,
        reason: &[u8],
        out: &mut Vec<ConversationCommand>,
    ) {
        match (self.stage, &self.client) {
            (Stage::Detached, _) => self.stage = Stage::Over,
            (Stage::Talking, ClientEnd::Here) => {
                let content = code.map(|code| [&code.to_be_bytes()[..], reason].concat());
                self.client = ClientEnd::Closed {
                    content: content.unwrap_or_default(),
                    told: false,
                };
                self.pump(out);
            }
            _ => {}
        }
    }

    /// The client has gone without a close, or after one that the backend has not seen.
    pub fn on_lost(&mut self, out: &mut Vec<ConversationCommand>) {
        if self.stage == Stage::Detached {
            self.stage = Stage::Over;
        } else if !self.is_lost() {
            self.client = ClientEnd::Lost { told: false };
            self.pump(out);
        }
    }

    /// Somebody published `refresh`: the backend is asked, also without an event.
    pub fn refresh(&mut self, out: &mut Vec<ConversationCommand>) {
        if self.phase() == ConversationPhase::Open && !self.is_lost() {
            self.ask = true;
            self.pump(out);
        }
    }

    /// Time has passed: a retry or a keep-alive may be due.
    pub fn on_timeout(&mut self, now: Millis, out: &mut Vec<ConversationCommand>) {
        match std::mem::replace(&mut self.line, Line::Free { ask_at: None }) {
            Line::Retry { at, offer } if at <= now => {
                self.request(&offer, out);
                self.line = Line::Busy(offer);
            }
            Line::Free { ask_at: Some(at) } if at <= now => {
                self.ask = true;
                self.pump(out);
            }
            early => self.line = early,
        }
    }

    /// The request in flight has no answer. If the backend cannot have read it, and it is not the
    /// one that opens the conversation, it is made again after a pause, at most
    /// [`ConversationLimits::retries_max`] times; otherwise the conversation ends. `jitter_ms` is
    /// random, from 0 to 999.
    pub fn on_failure(
        &mut self,
        now: Millis,
        failure: OriginFailureKind,
        jitter_ms: u64,
        out: &mut Vec<ConversationCommand>,
    ) {
        let offer = match std::mem::replace(&mut self.line, Line::Free { ask_at: None }) {
            Line::Busy(offer) => offer,
            other => {
                self.line = other;
                return;
            }
        };
        // What the backend may have read would be said twice.
        let is_unsent = matches!(
            failure,
            OriginFailureKind::Unreachable | OriginFailureKind::Busy | OriginFailureKind::Unsent
        );
        let may_repeat = is_unsent && self.stage != Stage::Opening;
        if !may_repeat || self.failures >= self.limits.retries_max {
            return self.fail(None, out);
        }
        let pause_ms = self
            .limits
            .retry_ms
            .saturating_mul(1 << self.failures.min(20));
        self.failures += 1;
        let at = now + (pause_ms + jitter_ms);
        self.line = Line::Retry { at, offer };
    }

    /// The request in flight has its answer. `body` may be cut after `reply_bytes_max + 1` bytes.
    pub fn on_response(
        &mut self,
        now: Millis,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<ConversationCommand>,
    ) {
        let offer = match std::mem::replace(&mut self.line, Line::Free { ask_at: None }) {
            Line::Busy(offer) | Line::Retry { offer, .. } => offer,
            Line::Free { ask_at } => {
                self.line = Line::Free { ask_at };
                return;
            }
        };
        self.failures = 0;
        match self.take_answer(&offer, head, body, out) {
            Ok(()) => {}
            Err(EventsReplyError::NotEvents) if self.stage == Stage::Opening => {
                return self.reject(head, body, out);
            }
            Err(fault) => return self.fail(Some(fault), out),
        }
        self.pump(out);
        let is_talk = matches!(self.stage, Stage::Opening | Stage::Talking);
        if let Line::Free { ask_at } = &mut self.line {
            let pause_ms = u64::from(self.keep_alive_s) * 1000;
            *ask_at = (is_talk && pause_ms > 0).then(|| now + pause_ms);
        }
    }

    const fn is_lost(&self) -> bool {
        matches!(self.client, ClientEnd::Lost { .. })
    }

    /// Makes the next request if there is reason for one and the line is free.
    fn pump(&mut self, out: &mut Vec<ConversationCommand>) {
        if !matches!(self.line, Line::Free { .. }) {
            return;
        }
        if let Some(offer) = self.next_offer() {
            self.ask = false;
            self.request(&offer, out);
            self.line = Line::Busy(offer);
        }
    }

    fn next_offer(&mut self) -> Option<Offer> {
        match (self.stage, &mut self.client) {
            (Stage::Over | Stage::Detached, _) | (_, ClientEnd::Lost { told: true }) => None,
            (_, ClientEnd::Lost { told }) => {
                *told = true;
                Some(Offer::event(EventKind::Disconnect))
            }
            (Stage::Opening, _) => self.ask.then(|| Offer::event(EventKind::Open)),
            (Stage::Talking, client) => {
                let close_due = matches!(client, ClientEnd::Closed { told: false, .. });
                let has_words = self.uplink.has_news() || close_due;
                (self.ask || has_words).then(|| self.offer())
            }
        }
    }

    /// All that waits, or as much as one request may have.
    fn offer(&self) -> Offer {
        let mut offer = Offer::default();
        let messages_max = self.limits.events_max;
        offer.shown = self.uplink.write(messages_max, &mut offer.body);
        offer.shows_all = offer.shown.messages == self.uplink.queue.len();
        if offer.shown.messages < messages_max
            && let ClientEnd::Closed {
                content,
                told: false,
            } = &self.client
        {
            let kind = EventKind::Close;
            let content = Some(content.as_slice()).filter(|content| !content.is_empty());
            encode_event(WsHttpEvent { kind, content }, &mut offer.body);
            offer.close_bytes = Some(content.map_or(0, <[u8]>::len));
        }
        offer
    }

    fn request(&self, offer: &Offer, out: &mut Vec<ConversationCommand>) {
        let number = |number: usize| number.to_string();
        let mut headers = vec![
            Header::new("Accept", EVENTS_TYPE),
            Header::new("Connection-Id", self.connection_id.as_bytes()),
            Header::new("Content-Type", EVENTS_TYPE),
            Header::new("Content-Length", number(offer.body.len())),
        ];
        if self.uplink.offered.bytes > 0 {
            let bytes = number(self.uplink.offered.bytes);
            headers.push(Header::new("Content-Bytes-Replayed", bytes));
        }
        let meta = self.meta.iter();
        headers
            .extend(meta.map(|(name, value)| Header::new(format!("Meta-{name}"), value.clone())));
        let body = offer.body.clone();
        out.push(ConversationCommand::Request { headers, body });
    }

    fn fail(&mut self, fault: Option<EventsReplyError>, out: &mut Vec<ConversationCommand>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        self.line = Line::Free { ask_at: None };
        if self.is_lost() {
            return;
        }
        match stage {
            Stage::Over | Stage::Detached => {}
            Stage::Opening => out.push(ConversationCommand::Reject {
                code: 502,
                headers: vec![Header::new("Content-Type", "text/plain")],
                body: NO_BACKEND.to_vec(),
            }),
            Stage::Talking => out.push(ConversationCommand::Abort(fault)),
        }
    }
}

/// A stretch of the queue, from its front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    messages: usize,
    bytes: usize,
}

/// Messages that the backend has not taken: what bounds those that have no bytes. Queue: `uplink`.
const PENDING_MESSAGES_MAX: usize = 4096;

/// Messages of the client that the backend has not taken yet. `bytes` is the sum over `queue`, and
/// `offered` is never more than that.
#[derive(Clone, Debug, Default)]
struct Uplink {
    /// Bound: [`PENDING_MESSAGES_MAX`], and `pending_bytes_max` of the limits.
    queue: VecDeque<(EventKind, Vec<u8>)>,
    bytes: usize,
    /// The backend was shown this much and has left it lying.
    offered: Extent,
}

impl Uplink {
    fn push(&mut self, kind: EventKind, content: Vec<u8>) {
        self.bytes += content.len();
        self.queue.push_back((kind, content));
    }

    /// Tells whether there is something that the backend was not shown yet.
    fn has_news(&self) -> bool {
        self.queue.len() > self.offered.messages || self.bytes > self.offered.bytes
    }

    /// Writes at most so many messages from the front as events, and says how far that went.
    fn write(&self, messages_max: usize, out: &mut Vec<u8>) -> Extent {
        let mut extent = Extent::default();
        for (kind, content) in self.queue.iter().take(messages_max) {
            // A ping or pong that says nothing has no length on the wire.
            let is_bare = matches!(kind, EventKind::Ping | EventKind::Pong) && content.is_empty();
            let content = (!is_bare).then_some(content.as_slice());
            encode_event(
                WsHttpEvent {
                    kind: *kind,
                    content,
                },
                out,
            );
            extent.messages += 1;
            extent.bytes += content.map_or(0, <[u8]>::len);
        }
        extent
    }

    /// The backend was shown `shown` and took `taken` bytes of it: these go, with every message
    /// that they cover whole. False if nothing went, which brings a conversation no further.
    fn take(&mut self, shown: Extent, taken: usize) -> bool {
        let mut left = Extent {
            messages: shown.messages,
            bytes: shown.bytes - taken,
        };
        let mut surplus = taken;
        while left.messages > 0
            && let Some((_, content)) = self.queue.front_mut()
        {
            if content.len() > surplus {
                content.drain(..surplus);
                break;
            }
            surplus -= content.len();
            self.queue.pop_front();
            left.messages -= 1;
        }
        self.bytes -= taken;
        self.offered = left;
        taken > 0 || left.messages < shown.messages
    }
}
