//! Requests whose answers come later, while the connection goes on reading.
//!
//! A publication is carried out as it arrives, and its answer may depend on another shard. A
//! publisher that sends many requests without waiting must not wait for each, so the front door
//! reads on. Answers leave in the order of their requests. A request of any other kind waits until
//! those before it are answered.
//!
//! Owns: answers that are not known yet or wait for an earlier one, and input behind a request that
//! waits. Never: parses, or carries out a request.
//!
//! Rule for "full": so many requests, or the bytes of two of the longest, may be without an answer.
//! What one read gave behind them is kept, and nothing more is read until all are answered. Queue:
//! `pipelined requests`.
//!
//! Invariants
//! - Tokens rise from entry to entry; an entry has as many as it has publications.
//! - The first entry is not answered yet: else it would have left.
//! - Nothing is `behind` unless an entry waits, and reading is paused while something is.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use throng_auth::{ApiKeys, Caller};
use throng_broker::Draft;
use throng_http1::KnownHead;
use throng_hub::Answer;
use throng_metrics::Histogram;
use throng_types::Millis;

use super::request::Incoming;
use crate::publishing::{publish, publish_all};
use crate::route::Claim;
use crate::{Context, Publications, PublishOutcome, TracedCall};

/// Requests of one connection that may be without an answer. Queue: `pipelined requests`.
const WAITING_MAX: usize = 1024;
/// Entries for which an empty pipeline keeps room.
const KEPT: usize = 16;

/// Writes the answer to a request from the results of its publications.
pub type WriteAnswer =
    fn(results: &[PublishOutcome], style: u8, keep_alive: bool, cx: &mut Context<'_>);

/// A request that was carried out and whose answer comes later.
pub struct Later {
    /// The token of its first publication.
    first: u32,
    /// Length of the request in bytes; or of the answer, once that is written.
    bytes: usize,
    state: State,
    style: u8,
    keep_alive: bool,
    write: WriteAnswer,
    /// When it was carried out, and the call that it is.
    began: Millis,
    call: Histogram,
    trace: Option<Box<TracedCall>>,
}

enum State {
    /// The one publication, the usual case.
    One(Option<PublishOutcome>),
    Many(Publications),
    /// The answer as it stands; `write` is of no use.
    Written(Vec<u8>),
}

impl Later {
    /// An answer to the publishing request `incoming`, which awaits those of `count` publications.
    pub(super) fn new(
        count: usize,
        incoming: &Incoming<'_, '_>,
        (write, style): (WriteAnswer, u8),
        began: Millis,
    ) -> Self {
        let state = match count {
            1 => State::One(None),
            count => State::Many(Publications::new(count)),
        };
        Self {
            first: incoming.first_token,
            bytes: 0,
            state,
            style,
            keep_alive: incoming.request.keep_alive(),
            write,
            began,
            call: Histogram::ApiPublish,
            trace: None,
        }
    }

    /// Counts it as another call than `publish`.
    #[must_use]
    pub const fn as_call(mut self, call: Histogram) -> Self {
        self.call = call;
        self
    }

    fn count(&self) -> u32 {
        match &self.state {
            State::One(_) => 1,
            State::Many(publications) => publications.len() as u32,
            State::Written(_) => 0,
        }
    }

    fn take(&mut self, token: u32, answer: &Answer) {
        match (&mut self.state, answer) {
            (State::One(place), Answer::Published { result }) => *place = Some(*result),
            (State::Many(publications), answer) => {
                publications.take(token.wrapping_sub(self.first), answer);
            }
            _ => {}
        }
    }

    /// Appends the answer if it is known.
    fn write(&self, cx: &mut Context<'_>) -> bool {
        match &self.state {
            State::One(None) => return false,
            State::One(Some(result)) => (self.write)(&[*result], self.style, self.keep_alive, cx),
            State::Many(publications) => match publications.all() {
                Some(results) => (self.write)(&results, self.style, self.keep_alive, cx),
                None => return false,
            },
            State::Written(bytes) => {
                cx.out.extend_from_slice(bytes);
                return true;
            }
        }
        (cx.shared).note_answered(self.call, self.began, cx.now.mono);
        if self.trace.is_some() {
            self.end_traced(cx);
        }
        true
    }

    #[inline(never)]
    fn end_traced(&self, cx: &Context<'_>) {
        let method = self.call.label().map_or("publish", |label| label.value);
        let failed = match &self.state {
            State::One(result) => result.is_some_and(|result| result.is_err()),
            State::Many(publications) => publications.has_errors(),
            State::Written(_) => false,
        };
        cx.shared.end_traced(self.trace.as_deref(), method, failed);
    }

    /// Orders a publication of the hub. Once it is answered, `write` makes the answer; it is given
    /// `style` back.
    pub fn publish<S, O>(
        mut draft: Draft,
        incoming: &Incoming<'_, '_>,
        write: (WriteAnswer, u8),
        cx: &mut Context<'_, S, O>,
    ) -> Self {
        let trace = incoming.traced(cx);
        draft.trace = TracedCall::parent(trace.as_deref());
        publish(incoming.first_token, draft, cx);
        Self {
            trace,
            ..Self::new(1, incoming, write, cx.now.mono)
        }
    }

    /// Orders one publication or more as one batch with one answer.
    pub fn publish_all<S, O>(
        mut drafts: Vec<Draft>,
        incoming: &Incoming<'_, '_>,
        write: (WriteAnswer, u8),
        cx: &mut Context<'_, S, O>,
    ) -> Self {
        let trace = incoming.traced(cx);
        TracedCall::mark(trace.as_deref(), &mut drafts);
        debug_assert_ne!(drafts.len(), 0, "nobody would answer");
        let later = Self::new(drafts.len(), incoming, write, cx.now.mono);
        publish_all(incoming.first_token, drafts, cx);
        Self { trace, ..later }
    }
}

/// Bytes of requests that may be without an answer: as many as two of the longest have.
pub(super) fn waiting_bytes_max(cx: &Context<'_>) -> usize {
    let limits = &cx.shared.limits;
    2 * (limits.head_bytes_max + limits.publish_bytes_max)
}

/// Number of requests that may differ from the known head before no more heads are learned. Each
/// request that matches it pays for one that did not.
pub(super) const PATIENCE: u8 = 4;

pub(super) struct Repeat {
    pub(super) head: KnownHead,
    pub(super) gateway: u8,
    pub(super) claim: Claim,
    pub(super) client: IpAddr,
    /// The keys by which it was judged. A reload brings others, and with them other rules.
    pub(super) keys: Arc<ApiKeys>,
    pub(super) caller: Caller,
}

/// Last judged request of a connection, and the number of misses left.
pub(super) struct Habit {
    pub(super) known: Option<Repeat>,
    pub(super) patience: u8,
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            known: None,
            patience: PATIENCE,
        }
    }
}

/// The answers of one connection. Boxed, and there only once a request has waited.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Requests without an answer, in order. Bound: [`WAITING_MAX`].
    waiting: VecDeque<Later>,
    bytes: usize,
    /// Token of the next request's first publication.
    pub(super) next_token: u32,
    /// Input that waits behind unanswered requests. Bound: a head that is not whole, and what one
    /// read gives.
    pub(super) behind: Vec<u8>,
    /// Nothing that comes is taken: the connection ends once all is answered.
    pub(super) ends: bool,
    pub(super) habit: Habit,
}

impl Pipeline {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one more request has room; `bytes_max` bounds the bytes of all of them.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.waiting.len() < WAITING_MAX && self.bytes < bytes_max
    }

    /// Adds a request of so many bytes.
    pub(super) fn push(&mut self, mut later: Later, bytes: usize) {
        later.bytes = bytes;
        self.bytes += bytes;
        self.next_token = later.first.wrapping_add(later.count());
        self.ends |= !later.keep_alive;
        self.waiting.push_back(later);
    }

    /// Adds an answer that is known and has to wait for those before it.
    pub(super) fn push_written(&mut self, answer: Vec<u8>, keep_alive: bool) {
        let bytes = answer.len();
        let later = Later {
            first: self.next_token,
            bytes: 0,
            state: State::Written(answer),
            style: 0,
            keep_alive,
            write: |_, _, _, _| {},
            began: Millis(0),
            call: Histogram::ApiPublish,
            trace: None,
        };
        self.push(later, bytes);
    }

    /// Takes the answer to a publication and appends the answers that may leave.
    pub(super) fn answer(&mut self, token: u32, answer: &Answer, cx: &mut Context<'_>) {
        let Some(head) = self.waiting.front().map(|head| head.first) else {
            return;
        };
        let distance = |first: u32| first.wrapping_sub(head);
        let is_not_after = |later: &Later| distance(later.first) <= distance(token);
        // Mostly it is the first one's.
        let is_next = self.waiting.get(1).is_none_or(|next| !is_not_after(next));
        let after = match is_next {
            true => 1,
            false => self.waiting.partition_point(is_not_after),
        };
        let Some(later) = after.checked_sub(1).and_then(|at| self.waiting.get_mut(at)) else {
            return;
        };
        later.take(token, answer);
        while let Some(head) = self.waiting.pop_front_if(|head| head.write(cx)) {
            self.bytes -= head.bytes;
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT);
        }
    }
}
