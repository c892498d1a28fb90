//! One client's conversation with its backend.
//!
//! Owns: what waits for the backend, what is in flight, meta, keep-alives and retries.
//! Never: opens connections, reads a clock, or makes ids and randomness.
//!
//! Invariants
//! - At most one request is in flight; while one waits for its retry there is no other.
//! - `pending_bytes` is the sum over `pending`, at most `pending_bytes_max`.
//! - After `Phase::Done` there are no commands.

mod incoming;
mod outgoing;

use std::collections::VecDeque;

use throng_types::Millis;

use super::command::{Command, ConversationLimits, Failure, Full, Phase};
use super::control::GripFilter;
use super::event::{EVENTS_TYPE, Event, EventKind, encode_event};
use super::reply::ReplyFault;
use crate::headers::Header;
use crate::instruct::ResponseHead;
use crate::item::WsKind;

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
