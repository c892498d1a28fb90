//! Spans of what a shard does for callers who trace it.
//!
//! Owns the spans of one turn. Never: sends them; the server does when the turn is over, since only
//! then answers and deliveries have left. It also ends those that last as long as the turn.
//!
//! Rule for "full": a span beyond [`SPANS_MAX`] is dropped and counted. Queue: `spans`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use throng_broker::Draft;
use throng_metrics::{Counter, Counters};
use throng_types::{ChannelName, ConnId, Now, Rng, SpanContext};

/// Spans that one turn of a shard may end. Queue: `spans`.
const SPANS_MAX: usize = 1024;

/// Call of the server API whose caller traces it.
pub struct TracedCall {
    pub context: SpanContext,
    parent_id: u64,
    start_unix_ms: u64,
}

impl TracedCall {
    /// Returns the span of a call, as the parent of what follows from it.
    pub fn parent(call: Option<&Self>) -> Option<Box<SpanContext>> {
        call.map(|call| Box::new(call.context))
    }

    /// Makes a call the parent of what becomes of its publications.
    pub fn mark(call: Option<&Self>, drafts: &mut [Draft]) {
        if call.is_some() {
            for draft in drafts {
                draft.trace = Self::parent(call);
            }
        }
    }
}

/// Sampled traces that clients came with, for webhooks.
#[derive(Default)]
pub struct ClientTraces {
    /// Traces by the index of their connection. Bound: the connections of this shard.
    known: RefCell<BTreeMap<u32, SpanContext>>,
}

impl ClientTraces {
    pub fn note(&self, conn: ConnId, trace: SpanContext) {
        self.known.borrow_mut().insert(conn.index(), trace);
    }

    pub fn of(&self, conn: ConnId) -> Option<Box<SpanContext>> {
        self.known
            .borrow()
            .get(&conn.index())
            .copied()
            .map(Box::new)
    }

    pub fn gone(&self, conn: ConnId) {
        self.known.borrow_mut().remove(&conn.index());
    }
}

/// Piece of work that the current turn ends.
pub struct Span {
    pub context: SpanContext,
    pub parent_id: u64,
    pub start_unix_us: u64,
    /// `None` lasts until the turn is over.
    pub end_unix_us: Option<u64>,
    pub work: SpanWork,
}

/// Kind of work, with what spans tell of it.
pub enum SpanWork {
    /// Call of the server API, by its method, from its request to its answer.
    Call { method: &'static str, failed: bool },
    /// Publication on its way to a broker elsewhere, until that has taken or refused it.
    Broker { channel: ChannelName, failed: bool },
    /// Publication from its broker until the last subscriber of a shard was visited.
    Fanout { channel: ChannelName, members: u32 },
    /// Publication from the end of its fan-out to the turn's last write.
    Write { channel: ChannelName },
}

/// Spans of one shard, while there is a collector.
pub struct Tracer {
    random: RefCell<Rng>,
    /// Spans that this turn has ended. Bound: [`SPANS_MAX`].
    spans: RefCell<Vec<Span>>,
}

impl Tracer {
    #[must_use]
    pub const fn new(random: Rng) -> Self {
        Self {
            random: RefCell::new(random),
            spans: RefCell::new(Vec::new()),
        }
    }

    fn new_id(&self) -> u64 {
        self.random.borrow_mut().next_u64().max(1)
    }

    /// Begins a call with this header `traceparent`; `None` if its caller does not trace it.
    pub fn begin(&self, traceparent: Option<&str>, now: Now) -> Option<Box<TracedCall>> {
        let parent = SpanContext::sampled(traceparent?)?;
        let span_id = self.new_id();
        Some(Box::new(TracedCall {
            context: SpanContext { span_id, ..parent },
            parent_id: parent.span_id,
            start_unix_ms: now.unix_ms,
        }))
    }

    /// Notes that this turn answers a call.
    pub fn end(&self, call: &TracedCall, method: &'static str, failed: bool, counters: &Counters) {
        let span = Span {
            context: call.context,
            parent_id: call.parent_id,
            start_unix_us: call.start_unix_ms * 1000,
            end_unix_us: None,
            work: SpanWork::Call { method, failed },
        };
        self.push(span, counters);
    }

    /// Notes a piece of work of this turn that follows from `by`, with its start and end as in
    /// [`Span`]: the last subscriber got a publication that a broker had accepted before, for
    /// example.
    pub fn followed(
        &self,
        by: SpanContext,
        (start_unix_us, end_unix_us): (u64, Option<u64>),
        work: SpanWork,
        counters: &Counters,
    ) {
        let span_id = self.new_id();
        let span = Span {
            context: SpanContext { span_id, ..by },
            parent_id: by.span_id,
            start_unix_us,
            end_unix_us,
            work,
        };
        self.push(span, counters);
    }

    fn push(&self, span: Span, counters: &Counters) {
        let mut spans = self.spans.borrow_mut();
        match spans.len() < SPANS_MAX {
            true => spans.push(span),
            false => counters.count(Counter::TraceSpansFull),
        }
    }

    /// Takes the spans that this turn has ended.
    pub fn take(&self) -> Vec<Span> {
        std::mem::take(&mut *self.spans.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_so_many_spans_and_counts_the_others() {
        let (tracer, counters) = (Tracer::new(Rng::new(1)), Counters::new());
        let now = Now::new(0, 5);
        let parent = "00-0000000000000000000000000000000a-000000000000000b-01";
        assert!(tracer.begin(None, now).is_none());
        let call = tracer.begin(Some(parent), now).expect("it is sampled");
        for _ in 0..SPANS_MAX - 1 {
            tracer.end(&call, "publish", false, &counters);
        }
        let channel = ChannelName::new("news").expect("a good name");
        for members in 1..=2 {
            let channel = channel.clone();
            let work = SpanWork::Fanout { channel, members };
            tracer.followed(call.context, (6_000, Some(6_500)), work, &counters);
        }
        assert_eq!(counters.counter(Counter::TraceSpansFull), 1);
        let spans = tracer.take();
        let (first, last) = (&spans[0], &spans[SPANS_MAX - 1]);
        let times = |span: &Span| (span.start_unix_us, span.end_unix_us);
        assert_eq!((first.parent_id, times(first)), (0xb, (5_000, None)));
        assert_eq!(last.parent_id, first.context.span_id);
        assert_eq!(times(last), (6_000, Some(6_500)));
        assert_eq!((first.context.trace_id, last.context.trace_id), (0xa, 0xa));
        assert_ne!(first.context.span_id, last.context.span_id);
        assert!(tracer.take().is_empty());
    }
}
