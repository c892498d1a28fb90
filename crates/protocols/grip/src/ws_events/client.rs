//! One client's conversation with its backend.
//!
//! Owns: what waits for the backend, what is in flight, meta, keep-alives and retries.
//! Never: opens connections, reads a clock, or makes ids and randomness.
//!
//! Invariants
//! - At most one request is in flight; while one waits for its retry there is no other.
//! - `pending_bytes` is the sum over `pending`, at most `pending_bytes_max`.
//! - After `Phase::Done` there are no commands.

use std::collections::VecDeque;

use throng_types::Millis;

use super::control::{ControlFault, ControlMessage, GripFilter, GripMessage, grip_prefix};
use super::event::{EVENTS_TYPE, Event, EventKind, encode_event};
use super::reply::{EventsReply, FirstReply, ReplyFault};
use crate::headers::{Header, HeaderRef, has_prefix};
use crate::instruct::ResponseHead;
use crate::item::WsKind;

/// Bounds of a [`Conversation`]; the defaults are Pushpin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Bytes of the client's messages that wait for the backend; when full, stop reading.
    pub pending_bytes_max: usize,
    /// The largest answer of a backend, in bytes.
    pub reply_bytes_max: usize,
    /// What of the body of a refusal reaches the client, in bytes.
    pub reject_bytes_max: usize,
    /// Messages in one request; 1 for a target with `one_event`.
    pub events_max: usize,
    /// How often one request is tried again.
    pub retries_max: u32,
    /// The pause before the first retry; it doubles each time.
    pub retry_ms: u64,
}

impl Default for ConversationLimits {
    fn default() -> Self {
        Self {
            pending_bytes_max: 200_000,
            reply_bytes_max: 1_000_000,
            reject_bytes_max: 100_000,
            events_max: usize::MAX,
            retries_max: 5,
            retry_ms: 1000,
        }
    }
}

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// OPEN has not been answered.
    Connecting,
    /// Messages go both ways.
    Open,
    /// The client has closed; the backend may still answer.
    Closing,
    /// The backend has let go; the client stays, and what it sends is discarded.
    Detached,
    /// Over.
    Done,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The backend was not reached: connecting or TLS failed.
    Unreachable,
    /// It failed or took too long before the body was written whole.
    Unsent,
    /// It failed after that, so that trying again might say things twice.
    Sent,
}

/// What the caller has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// POST these fields and this body, with the fields of [`Handshake::headers`] and a fresh
    /// `Grip-Sig`, and report by [`Conversation::on_response`] or [`Conversation::on_failure`].
    Request {
        /// Beside those of the handshake.
        headers: Vec<Header>,
        /// Events.
        body: Vec<u8>,
    },
    /// Answer the client's handshake with 101 and these fields.
    Accept {
        /// Without those between backend and proxy.
        headers: Vec<Header>,
    },
    /// Answer the client's handshake with a refusal. The conversation is over.
    Reject {
        /// The status.
        code: u16,
        /// The fields.
        headers: Vec<Header>,
        /// The body.
        body: Vec<u8>,
    },
    /// Send the client a message.
    Send {
        /// Which opcode.
        kind: WsKind,
        /// The payload.
        content: Vec<u8>,
    },
    /// Do what the backend says about subscriptions, meta and keep-alives.
    Control(ControlMessage),
    /// A control message that means nothing: log it. Too many filters: close with 1011.
    ControlFault(ControlFault),
    /// Send the client a close frame.
    Close {
        /// The backend's code.
        code: Option<u16>,
        /// Its reason.
        reason: Vec<u8>,
    },
    /// End the client's connection without a close. The conversation is over.
    Abort(Option<ReplyFault>),
}

/// The client's handshake as it is repeated on each request.
#[derive(Clone, Copy, Debug)]
pub struct Handshake;

impl Handshake {
    /// The fields of the client's request that go with each request, without those that the
    /// conversation sets. Apply the proxy's own rules for requests too.
    #[must_use]
    pub fn headers(fields: &[HeaderRef<'_>]) -> Vec<Header> {
        const OWN: [&str; 7] = [
            "Upgrade",
            "Connection",
            "Accept",
            "Connection-Id",
            "Content-Type",
            "Content-Length",
            "Sec-WebSocket-Extensions",
        ];
        let mut out: Vec<Header> = fields
            .iter()
            .filter(|(name, _)| !OWN.iter().any(|other| other.eq_ignore_ascii_case(name)))
            .filter(|(name, _)| !has_prefix(name, "Meta-"))
            .map(|&(name, value)| Header::new(name, value))
            .collect();
        out.push(Header::new("Sec-WebSocket-Extensions", "grip"));
        out
    }
}

/// The client's messages are full: it must not be read until [`Conversation::room_bytes`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backend is behind: the client's messages are full")]
pub struct Full;

#[derive(Clone, Debug, Default)]
struct InFlight {
    messages: usize,
    content_bytes: usize,
    close_bytes: usize,
    /// Not all that waits fits the request.
    is_partial: bool,
    has_close: bool,
    body: Vec<u8>,
}

/// One client's conversation with its backend.
#[derive(Clone, Debug)]
pub struct Conversation {
    limits: ConversationLimits,
    phase: Phase,
    connection_id: Box<str>,
    pending: VecDeque<(EventKind, Vec<u8>)>,
    pending_bytes: usize,
    in_flight: Option<InFlight>,
    retries: u32,
    retry_at: Option<Millis>,
    keep_alive_interval_s: u32,
    keep_alive_at: Option<Millis>,
    meta: Vec<(String, Vec<u8>)>,
    /// What of `pending` was offered already and not accepted.
    replay_messages: usize,
    replay_bytes: usize,
    grip: Option<GripFilter>,
    client_close: Option<Vec<u8>>,
    close_sent: bool,
    backend_closed: bool,
    is_lost: bool,
    disconnect_sent: bool,
    refresh_due: bool,
    is_paused: bool,
}

impl Conversation {
    /// For a client whose handshake has come. `connection_id` is unique, such as a UUID.
    /// The first command is the request with OPEN.
    #[must_use]
    pub fn start(limits: ConversationLimits, connection_id: &str, out: &mut Vec<Command>) -> Self {
        let mut this = Self {
            limits,
            phase: Phase::Connecting,
            connection_id: connection_id.into(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            in_flight: None,
            retries: 0,
            retry_at: None,
            keep_alive_interval_s: 0,
            keep_alive_at: None,
            meta: Vec::new(),
            replay_messages: 0,
            replay_bytes: 0,
            grip: None,
            client_close: None,
            close_sent: false,
            backend_closed: false,
            is_lost: false,
            disconnect_sent: false,
            refresh_due: false,
            is_paused: false,
        };
        this.update(out);
        this
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many bytes of messages there is room for; with none, stop reading the client.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.limits
            .pending_bytes_max
            .saturating_sub(self.pending_bytes)
    }

    /// When [`Conversation::on_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Millis> {
        self.retry_at.or(self.keep_alive_at)
    }

    /// A whole message of the client, or a ping or pong. A message larger than
    /// `pending_bytes_max` never fits: close with 1009.
    pub fn on_message(
        &mut self,
        kind: WsKind,
        content: Vec<u8>,
        out: &mut Vec<Command>,
    ) -> Result<(), Full> {
        if self.phase != Phase::Open || self.is_lost {
            // Detached or closing: nobody is there for it.
            return Ok(());
        }
        if content.len() > self.room_bytes() {
            return Err(Full);
        }
        let kind = match kind {
            WsKind::Text => EventKind::Text,
            WsKind::Binary => EventKind::Binary,
            WsKind::Ping => EventKind::Ping,
            WsKind::Pong => EventKind::Pong,
        };
        self.pending_bytes += content.len();
        self.pending.push_back((kind, content));
        self.update_if_needed(out);
        Ok(())
    }

    /// The client sent a close frame, as the first or as the answer to one. `code` is None for a
    /// close without one.
    pub fn on_close(&mut self, code: Option<u16>, reason: &[u8], out: &mut Vec<Command>) {
        if self.phase == Phase::Detached {
            self.phase = Phase::Done;
        }
        if self.phase != Phase::Open || self.is_lost {
            return;
        }
        self.phase = Phase::Closing;
        self.client_close = Some(match code {
            Some(code) => [&code.to_be_bytes()[..], reason].concat(),
            None => Vec::new(),
        });
        self.update_if_needed(out);
    }

    /// The client has gone without a close, or after one that the backend has not seen.
    pub fn on_lost(&mut self, out: &mut Vec<Command>) {
        match self.phase {
            Phase::Done => {}
            Phase::Detached => self.phase = Phase::Done,
            _ if self.is_lost => {}
            _ => {
                self.is_lost = true;
                self.update_if_needed(out);
            }
        }
    }

    /// Somebody published `refresh`: the backend is asked, also without an event.
    pub fn refresh(&mut self, out: &mut Vec<Command>) {
        if self.phase == Phase::Open && !self.is_lost {
            self.refresh_due = true;
            self.update_if_needed(out);
        }
    }

    /// Whether the client's outbound queue is too full for another answer of the backend.
    pub fn set_paused(&mut self, is_paused: bool, out: &mut Vec<Command>) {
        self.is_paused = is_paused;
        self.update_if_needed(out);
    }

    /// Time has passed: a retry or a keep-alive may be due.
    pub fn on_timeout(&mut self, now: Millis, out: &mut Vec<Command>) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.send(out);
        } else if self.keep_alive_at.is_some_and(|at| at <= now) && self.in_flight.is_none() {
            self.update(out);
        }
    }

    /// The request in flight has no answer. `jitter_ms` is random, from 0 to 999.
    pub fn on_failure(
        &mut self,
        now: Millis,
        failure: Failure,
        jitter_ms: u64,
        out: &mut Vec<Command>,
    ) {
        if self.in_flight.is_none() || self.retry_at.is_some() {
            return;
        }
        let again = failure != Failure::Sent
            && self.phase != Phase::Connecting
            && self.retries < self.limits.retries_max;
        if again {
            let pause_ms = self
                .limits
                .retry_ms
                .saturating_mul(1 << self.retries.min(20));
            self.retries += 1;
            self.retry_at = Some(now + (pause_ms + jitter_ms));
        } else {
            self.fail(None, out);
        }
    }

    /// The request in flight has its answer. `body` may be cut after `reply_bytes_max + 1` bytes.
    pub fn on_response(
        &mut self,
        now: Millis,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<Command>,
    ) {
        let Some(sent) = self.in_flight.take() else {
            return;
        };
        self.retries = 0;
        match self.take_response(&sent, head, body, out) {
            Ok(()) => self.go_on(now, out),
            Err(ReplyFault::NotEvents) if self.phase == Phase::Connecting => {
                self.reject(head, body, out);
            }
            Err(fault) => self.fail(Some(fault), out),
        }
    }

    fn take_response(
        &mut self,
        sent: &InFlight,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<Command>,
    ) -> Result<(), ReplyFault> {
        let is_first = self.phase == Phase::Connecting;
        if body.len() > self.limits.reply_bytes_max {
            return Err(ReplyFault::TooLarge);
        }
        let reply = EventsReply::parse(head, body)?;
        if let Some(interval_s) = reply.keep_alive_interval_s {
            self.keep_alive_interval_s = interval_s;
        }
        let has_closed = self.accept(sent, reply.content_bytes_accepted)?;
        for (name, value) in &reply.set_meta {
            self.put_meta(name, value);
        }
        let opens = is_first && FirstReply::opens(&reply)?;
        if self.disconnect_sent {
            self.phase = Phase::Done;
            return Ok(());
        }
        if opens {
            self.open(head, out);
        }
        let skip = usize::from(opens);
        self.relay(
            reply.events.get(skip..).unwrap_or_default(),
            has_closed,
            out,
        )
    }

    fn open(&mut self, head: ResponseHead<'_>, out: &mut Vec<Command>) {
        self.phase = Phase::Open;
        self.grip = grip_prefix(
            head.headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("Sec-WebSocket-Extensions"))
                .map(|&(_, value)| value),
        )
        .map(|prefix| GripFilter::new(&prefix));
        if !self.is_lost {
            out.push(Command::Accept {
                headers: FirstReply(head).accepted_headers(),
            });
        }
    }

    /// Takes what the backend accepted off the front, and says whether it has seen the close.
    fn accept(&mut self, sent: &InFlight, accepted: Option<usize>) -> Result<bool, ReplyFault> {
        let offered = sent.content_bytes + sent.close_bytes;
        let accepted = accepted.unwrap_or(offered);
        if accepted > offered {
            return Err(ReplyFault::Accepted);
        }
        let content = accepted.min(sent.content_bytes);
        let messages = self.remove(content, sent.messages);
        if sent.is_partial && messages == 0 && content == 0 {
            return Err(ReplyFault::Accepted);
        }
        self.replay_messages = sent.messages - messages;
        self.replay_bytes = sent.content_bytes - content;
        if !sent.has_close || content < sent.content_bytes {
            return Ok(false);
        }
        // There is nothing left to wait for, so the close cannot be put off.
        if accepted < offered {
            return Err(ReplyFault::Accepted);
        }
        self.pending.clear();
        self.pending_bytes = 0;
        self.replay_messages = 0;
        self.replay_bytes = 0;
        self.close_sent = true;
        Ok(true)
    }

    /// Removes bytes from the front, at most so many messages, and says how many went whole.
    fn remove(&mut self, mut bytes: usize, messages_max: usize) -> usize {
        let mut removed = 0;
        while removed < messages_max {
            let Some((_, content)) = self.pending.front_mut() else {
                break;
            };
            if bytes < content.len() {
                content.drain(..bytes);
                self.pending_bytes -= bytes;
                break;
            }
            bytes -= content.len();
            self.pending_bytes -= content.len();
            self.pending.pop_front();
            removed += 1;
        }
        removed
    }

    fn put_meta(&mut self, name: &str, value: &[u8]) {
        self.meta
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.meta.push((name.to_owned(), value.to_owned()));
        }
    }

    fn relay(
        &mut self,
        events: &[Event<'_>],
        has_closed: bool,
        out: &mut Vec<Command>,
    ) -> Result<(), ReplyFault> {
        let (mut closed, mut disconnected, mut detached) = (false, false, false);
        for event in events {
            let kind = match event.kind {
                EventKind::Open => return Err(ReplyFault::OpenTwice),
                EventKind::Disconnect => {
                    disconnected = true;
                    break;
                }
                EventKind::Close => {
                    closed = true;
                    self.backend_close(event, out);
                    break;
                }
                EventKind::Text => WsKind::Text,
                EventKind::Binary => WsKind::Binary,
                EventKind::Ping => WsKind::Ping,
                EventKind::Pong => WsKind::Pong,
            };
            detached |= self.message(kind, event.bytes(), out);
        }
        // Without keep-alives the answer to a close is the backend's one chance to close too.
        let is_unclean = has_closed && !self.backend_closed && self.keep_alive_interval_s == 0;
        if closed && self.close_sent || has_closed && self.backend_closed {
            self.phase = Phase::Done;
        } else if disconnected || is_unclean {
            self.fail(None, out);
        } else if detached && self.phase == Phase::Open && !self.is_lost {
            self.phase = Phase::Detached;
            self.pending.clear();
            self.pending_bytes = 0;
            self.client_close = Some(Vec::new());
        }
        Ok(())
    }

    fn backend_close(&mut self, event: &Event<'_>, out: &mut Vec<Command>) {
        if self.backend_closed || self.is_lost {
            return;
        }
        self.backend_closed = true;
        let (code, reason) = match event.close_code() {
            Some((code, reason)) => (Some(code), reason.to_owned()),
            None => (None, Vec::new()),
        };
        out.push(Command::Close { code, reason });
    }

    /// Hands on a message; true if it was the order to detach.
    fn message(&mut self, kind: WsKind, content: &[u8], out: &mut Vec<Command>) -> bool {
        let is_data = matches!(kind, WsKind::Text | WsKind::Binary);
        let content = match &self.grip {
            Some(grip) if is_data => match grip.sort(kind == WsKind::Text, content) {
                GripMessage::Client(content) => content,
                GripMessage::Nobody => return false,
                GripMessage::Control(Ok(control)) => {
                    let is_detach = control == ControlMessage::Detach;
                    out.push(Command::Control(control));
                    return is_detach;
                }
                GripMessage::Control(Err(fault)) => {
                    out.push(Command::ControlFault(fault));
                    return false;
                }
            },
            _ => content,
        };
        if !self.is_lost {
            let content = content.to_owned();
            out.push(Command::Send { kind, content });
        }
        false
    }

    fn go_on(&mut self, now: Millis, out: &mut Vec<Command>) {
        self.keep_alive_at = None;
        self.update_if_needed(out);
        let is_over = matches!(self.phase, Phase::Done | Phase::Detached);
        if self.in_flight.is_none() && self.keep_alive_interval_s > 0 && !is_over {
            self.keep_alive_at = Some(now + u64::from(self.keep_alive_interval_s) * 1000);
        }
    }

    fn update_if_needed(&mut self, out: &mut Vec<Command>) {
        if self.in_flight.is_none() && self.phase != Phase::Done && self.needs_update() {
            self.update(out);
        }
    }

    fn needs_update(&self) -> bool {
        if self.is_lost && !self.disconnect_sent || self.refresh_due {
            return true;
        }
        if self.is_paused {
            return false;
        }
        let has_news =
            self.pending.len() > self.replay_messages || self.pending_bytes > self.replay_bytes;
        let close_due = self.client_close.is_some() && !self.close_sent;
        !self.pending.is_empty() && has_news || close_due
    }

    /// Makes the next request out of all that waits.
    fn update(&mut self, out: &mut Vec<Command>) {
        self.keep_alive_at = None;
        self.refresh_due = false;
        let mut sent = InFlight::default();
        let event = |kind, content| Event { kind, content };
        if self.phase == Phase::Connecting && !self.is_lost {
            encode_event(event(EventKind::Open, None), &mut sent.body);
        } else if self.is_lost && !self.disconnect_sent {
            self.disconnect_sent = true;
            encode_event(event(EventKind::Disconnect, None), &mut sent.body);
        } else {
            self.gather(&mut sent);
        }
        self.in_flight = Some(sent);
        self.send(out);
        if self.phase == Phase::Detached {
            // The backend's answer to the close does not matter any more.
            self.in_flight = None;
            self.client_close = None;
        }
    }

    fn gather(&self, sent: &mut InFlight) {
        for (kind, content) in self.pending.iter().take(self.limits.events_max) {
            let is_bare = content.is_empty() && matches!(kind, EventKind::Ping | EventKind::Pong);
            let content = Some(content.as_slice()).filter(|_| !is_bare);
            encode_event(
                Event {
                    kind: *kind,
                    content,
                },
                &mut sent.body,
            );
            sent.messages += 1;
            sent.content_bytes += content.map_or(0, <[u8]>::len);
        }
        sent.is_partial = sent.messages < self.pending.len();
        let Some(close) = self.client_close.as_deref().filter(|_| !self.close_sent) else {
            return;
        };
        if sent.messages < self.limits.events_max {
            let content = Some(close).filter(|close| !close.is_empty());
            encode_event(
                Event {
                    kind: EventKind::Close,
                    content,
                },
                &mut sent.body,
            );
            sent.close_bytes = close.len();
            sent.has_close = true;
        }
    }

    fn send(&self, out: &mut Vec<Command>) {
        let Some(sent) = &self.in_flight else {
            return;
        };
        let mut headers = vec![
            Header::new("Accept", EVENTS_TYPE),
            Header::new("Connection-Id", self.connection_id.as_bytes()),
            Header::new("Content-Type", EVENTS_TYPE),
            Header::new("Content-Length", sent.body.len().to_string()),
        ];
        if self.replay_bytes > 0 {
            headers.push(Header::new(
                "Content-Bytes-Replayed",
                self.replay_bytes.to_string(),
            ));
        }
        headers.extend(
            self.meta
                .iter()
                .map(|(name, value)| Header::new(format!("Meta-{name}"), value.as_slice())),
        );
        out.push(Command::Request {
            headers,
            body: sent.body.clone(),
        });
    }

    fn reject(&mut self, head: ResponseHead<'_>, body: &[u8], out: &mut Vec<Command>) {
        self.phase = Phase::Done;
        if self.is_lost {
            return;
        }
        out.push(Command::Reject {
            code: head.code,
            headers: head
                .headers
                .iter()
                .filter(|(name, _)| !name.eq_ignore_ascii_case("Content-Length"))
                .map(|&(name, value)| Header::new(name, value))
                .collect(),
            body: body
                .iter()
                .copied()
                .take(self.limits.reject_bytes_max)
                .collect(),
        });
    }

    fn fail(&mut self, fault: Option<ReplyFault>, out: &mut Vec<Command>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        self.in_flight = None;
        self.keep_alive_at = None;
        match phase {
            _ if self.is_lost => {}
            Phase::Done | Phase::Detached => {}
            Phase::Connecting => out.push(Command::Reject {
                code: 502,
                headers: vec![Header::new("Content-Type", "text/plain")],
                body: b"Error while proxying to origin.\n".to_vec(),
            }),
            Phase::Open | Phase::Closing => out.push(Command::Abort(fault)),
        }
    }
}
