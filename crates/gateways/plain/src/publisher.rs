//! `GET /pub` with an upgrade, on the API port: a publisher's WebSocket.
//!
//! Each message is a publication ([`Wanted`]); messages are numbered from 1. Messages of one read
//! go to the hub together. Answers are text: `{"ack":N}` confirms all messages up to number N, and
//! `{"n":N,"status":S,"error":"…"}`, before it, refuses number N.
//!
//! Owns: the messages that have no answer yet. Never: access control; the front door asks for a key
//! like for every call of the server API.
//!
//! Rule for "full": while so many messages have no answer, nothing is read; what one read gave
//! before is carried out. Queue: `publisher's messages`.
//!
//! Invariants
//! - `open` has an entry for each message after number `done`, in order; its first is not
//!   answered.
//! - The hub's token of a publication is the low half of its number.

use std::collections::VecDeque;
use std::io::Write as _;

use throng_broker::Draft;
use throng_centrifuge::payload_of;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::encode::ws_text;
use throng_session::{CloseReason, Event, Heard, PublishResult, WebSocket, draft, publish_all};
use throng_types::Save;
use throng_ws::WsLimits;

use crate::context::Cx;
use crate::publication::Wanted;
use crate::publish::status_of;
use crate::socket::{SERVICE_RESTART, beat};

/// Messages that may be without an answer before reading pauses. Queue: `publisher's messages`.
const OPEN_MAX: usize = 1024;
/// Messages acknowledged at once while others are without an answer.
const ACK_EVERY: u64 = 64;
/// Bytes of a message beside its data.
const LINE_BYTES_MAX: usize = 1024;

/// WebSocket of a publisher.
#[derive(Save)]
#[save(check = Self::is_sound)]
pub struct Publisher {
    ws: WebSocket,
    /// All messages up to this number are answered.
    done: u64,
    /// The number that was acknowledged last.
    acknowledged: u64,
    /// Flags of the messages after `done`: whether each is answered. Bound: [`OPEN_MAX`], and one
    /// read's.
    #[save(skip)]
    open: VecDeque<bool>,
    is_paused: bool,
    /// The server ends it as soon as all messages are answered.
    #[save(skip)]
    ends: bool,
}

impl Publisher {
    /// Creates a publisher whose handshake was answered.
    pub(crate) fn open(cx: &mut Cx<'_>) -> Self {
        let publisher = Self {
            ws: WebSocket::new((), cx),
            done: 0,
            acknowledged: 0,
            open: VecDeque::new(),
            is_paused: false,
            ends: false,
        };
        publisher.arm(cx);
        publisher
    }

    /// Whether another process can go on with it: all messages are answered.
    pub(crate) fn moves(&self) -> bool {
        self.ws.moves() && self.open.is_empty() && !self.ends
    }

    /// Whether what was loaded can go on: of the answered messages, a few are to be acknowledged.
    const fn is_sound(&self) -> bool {
        self.acknowledged <= self.done
    }

    fn arm(&self, cx: &mut Cx<'_>) {
        if !self.ws.is_closing() {
            let beat = self.ws.beat_at(cx);
            cx.set_deadline(beat);
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        if self.ws.is_closing() {
            return;
        }
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => self.timeout(cx),
            Event::Answer {
                token,
                answer: Answer::Published { result },
            } => self.answer(token, result, cx),
            Event::Close(why) => self.close(why, cx),
            _ => {}
        }
    }

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if self.ends {
            return;
        }
        let limits = WsLimits::new(cx.shared.limits.publish_bytes_max + LINE_BYTES_MAX);
        let mut drafts = Vec::new();
        let mut decoder = self.ws.take_decoder(cx);
        let fed = decoder.feed(input, &limits, |event| {
            match self.ws.hear(&event, cx) {
                Heard::Nothing => {}
                Heard::Alive => self.arm(cx),
                Heard::Message { data, .. } => self.message(data, &mut drafts, cx),
            }
            self.ws.flow()
        });
        self.order(&mut drafts, cx);
        self.ws.put_decoder(decoder, fed, cx);
        if self.open.len() >= OPEN_MAX && !self.is_paused {
            self.is_paused = true;
            cx.pause(true);
        }
    }

    /// Takes a message. Its publication is ordered with the others.
    fn message(&mut self, message: &[u8], drafts: &mut Vec<Draft>, cx: &mut Cx<'_>) {
        match Wanted::parse(message) {
            Ok(wanted) => {
                self.open.push_back(false);
                drafts.push(Draft {
                    idempotency_key: wanted.idempotency_key.map(Into::into),
                    ..draft(wanted.channel, payload_of(wanted.data))
                });
            }
            Err(fault) => {
                // It has a number, so those before it are ordered by themselves.
                self.order(drafts, cx);
                self.open.push_back(true);
                let number = self.done + self.open.len() as u64;
                refuse(number, (400, fault.sentence()), cx);
                self.pass_answered();
                self.acknowledge(cx);
            }
        }
    }

    /// Orders publications, those of the last messages.
    fn order(&mut self, drafts: &mut Vec<Draft>, cx: &mut Cx<'_>) {
        if drafts.is_empty() {
            return;
        }
        let counters = &cx.shared.counters;
        counters.add(Counter::PublicationsApi, drafts.len() as u64);
        let last = self.done + self.open.len() as u64;
        let first = last - drafts.len() as u64 + 1;
        publish_all(first as u32, std::mem::take(drafts), cx);
    }

    fn answer(&mut self, token: u32, result: PublishResult, cx: &mut Cx<'_>) {
        let first = (self.done + 1) as u32;
        let at = token.wrapping_sub(first);
        let Some(place) = self.open.get_mut(at as usize) else {
            return;
        };
        *place = true;
        if let Err(refusal) = result {
            refuse(self.done + 1 + u64::from(at), status_of(refusal), cx);
        }
        self.pass_answered();
        self.acknowledge(cx);
        if self.is_paused && self.open.len() <= OPEN_MAX / 2 {
            self.is_paused = false;
            cx.pause(false);
        }
        if self.ends {
            self.end(cx);
        }
    }

    fn pass_answered(&mut self) {
        while self.open.pop_front_if(|answered| *answered).is_some() {
            self.done += 1;
        }
        if self.open.is_empty() {
            self.open.shrink_to(OPEN_MAX);
        }
    }

    /// Acknowledges answered messages: all if no other is on its way, else in batches.
    fn acknowledge(&mut self, cx: &mut Cx<'_>) {
        let new = self.done - self.acknowledged;
        let is_due = new >= ACK_EVERY || new > 0 && self.open.is_empty();
        if is_due && !self.ws.is_closing() {
            self.acknowledged = self.done;
            let number = self.done;
            // Writing to memory does not fail.
            ws_text(cx.out, |out| _ = write!(out, "{{\"ack\":{number}}}"));
        }
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        beat(&mut self.ws, cx);
        self.arm(cx);
    }

    /// The server ends it, once all that it was given is answered.
    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        cx.count(why.counter());
        self.ends = true;
        cx.pause(true);
        self.end(cx);
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        if self.open.is_empty() {
            self.ws.close(SERVICE_RESTART, "shutdown", cx);
        }
    }
}

/// Writes the refusal of a message.
fn refuse(number: u64, (status, sentence): (u16, &str), cx: &mut Cx<'_>) {
    ws_text(cx.out, |out| {
        _ = write!(
            out,
            "{{\"n\":{number},\"status\":{status},\"error\":\"{sentence}\"}}"
        );
    });
}
