//! The thread that sends spans to a collector of OpenTelemetry (`[trace]`): OTLP over HTTP, as
//! JSON (OpenTelemetry Protocol 1.x, "OTLP/HTTP").
//!
//! Owns the spans that wait. Never: makes one, or sends one again. What the collector does not take
//! is dropped and counted, and the log says so once.
//!
//! Rule for "full": so many spans may wait or be on their way; shards drop more, and count them.
//! Queue: `spans`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use throng_backend::{
    Address, AskLimits, BackendLimits, Client, ClientPeer, Requests, WholeAnswer,
};
use throng_config::Config;
use throng_http1::field::Header;
use throng_http1::origin::OriginRequest;
use throng_metrics::{Counter, Counters, Exemplars, Histogram};
use throng_outward::{CallSender, Host};
use throng_session::{Span, SpanWork, Tracer};
use throng_types::{ChannelName, Millis, lock};

use crate::options::StartError;

/// Spans of all shards that wait for the collector. Queue: `spans`.
const WAITING_MAX: usize = 4096;
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// Milliseconds for which a span waits for others, at most.
const SETTLE_MS: u64 = 1000;
/// Milliseconds for one request.
const TIMEOUT_MS: u64 = 10_000;
/// Bytes of an answer, which nobody reads.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Spans that a turn of a shard has ended.
struct Ended {
    spans: Vec<Span>,
    end_unix_us: u64,
}

/// Handle of the running thread.
pub(crate) struct Traces {
    calls: CallSender<Ended>,
    waiting: Arc<AtomicUsize>,
    _host: Host<Ended>,
}

impl Traces {
    /// Starts the thread; `None` without a collector. `node` is the name of this one; `counters`
    /// are the thread's own; it fills `exemplars`.
    pub(crate) fn start(
        config: &Config,
        (node, version): (&str, &str),
        (counters, exemplars): (Arc<Counters>, Arc<Mutex<Exemplars>>),
    ) -> Result<Option<Arc<Self>>, StartError> {
        let Some(url) = &config.trace.otlp_url else {
            return Ok(None);
        };
        let mut address = Address::from_url(url, TIMEOUT_MS)
            .map_err(|fault| StartError::Trace(fault.to_string()))?;
        address.path = format!("{}/v1/traces", address.path.trim_end_matches('/'));
        let waiting = Arc::new(AtomicUsize::new(0));
        let exporter = Exporter {
            address,
            resource: json!({"attributes": [
                text("service.name", "throng"),
                text("service.instance.id", node),
                text("service.version", version),
            ]}),
            spans: Vec::new(),
            due: Millis(0),
            is_sending: false,
            is_failing: false,
            waiting: waiting.clone(),
            counters,
            exemplars,
        };
        let limits = BackendLimits {
            idle_max: 1,
            ..BackendLimits::default()
        };
        let peer = ClientPeer::new(exporter, limits);
        let host = throng_outward::start("traces", move || peer, Box::new(|reply| match reply {}));
        let host = host.map_err(StartError::Shard)?;
        Ok(Some(Arc::new(Self {
            calls: host.calls(),
            waiting,
            _host: host,
        })))
    }

    /// Takes the spans that a shard's turn has ended; `counters` are the shard's.
    pub(crate) fn take(&self, tracer: &Tracer, end_unix_us: u64, counters: &Counters) {
        let spans = tracer.take();
        if spans.is_empty() {
            return;
        }
        let count = spans.len();
        if self.waiting.fetch_add(count, Ordering::Relaxed) + count > WAITING_MAX {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
            return counters.add(Counter::TraceSpansFull, count as u64);
        }
        self.calls.send(Ended { spans, end_unix_us });
    }
}

/// Client of the collector.
struct Exporter {
    address: Address,
    resource: Value,
    /// Spans as OTLP has them. Bound: [`WAITING_MAX`].
    spans: Vec<Value>,
    /// When they are sent, whatever their number.
    due: Millis,
    is_sending: bool,
    is_failing: bool,
    waiting: Arc<AtomicUsize>,
    counters: Arc<Counters>,
    exemplars: Arc<Mutex<Exemplars>>,
}

impl Client for Exporter {
    type Call = Ended;
    /// Number of spans in the request.
    type Token = usize;

    fn call(&mut self, Ended { spans, end_unix_us }: Ended, asks: &mut Requests<usize>) {
        if self.spans.is_empty() {
            self.due = asks.now.mono + SETTLE_MS;
        }
        let mut exemplars = lock(&self.exemplars);
        for span in &spans {
            if let Some(histogram) = histogram_of(&span.work) {
                // Histograms count up to the end of the turn.
                let us = end_unix_us.saturating_sub(span.start_unix_us);
                exemplars.put(histogram, us, span.context.trace_id, end_unix_us / 1000);
            }
        }
        drop(exemplars);
        let spans = spans.iter().map(|span| otlp(span, end_unix_us));
        self.spans.extend(spans);
        self.look(asks);
    }

    fn woken(&mut self, asks: &mut Requests<usize>) {
        self.look(asks);
    }

    fn answered(&mut self, count: usize, answer: WholeAnswer, asks: &mut Requests<usize>) {
        self.is_sending = false;
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        let fault = match answer {
            Ok((200..=299, _)) => None,
            Ok((status, _)) => Some(format!("the answer has status {status}")),
            Err(failure) => Some(failure.detail),
        };
        let result = match fault {
            None => Counter::TraceSpansSent,
            Some(_) => Counter::TraceSpansFailed,
        };
        self.counters.add(result, count as u64);
        if let Some(why) = fault.as_ref().filter(|_| !self.is_failing) {
            tracing::warn!("trace.otlp_url: the collector takes no spans, they are dropped: {why}");
        }
        self.is_failing = fault.is_some();
        self.look(asks);
    }
}

impl Exporter {
    /// Sends what is due or enough for a request, or waits until it is.
    fn look(&mut self, asks: &mut Requests<usize>) {
        if self.is_sending || self.spans.is_empty() {
            return;
        }
        if self.spans.len() < BATCH_MAX && asks.now.mono < self.due {
            return asks.wake_at(self.due);
        }
        let count = self.spans.len().min(BATCH_MAX);
        let spans: Vec<Value> = self.spans.drain(..count).collect();
        let scope = json!({"scope": {"name": "throng"}, "spans": spans});
        let body = json!({"resourceSpans": [{"resource": &self.resource, "scopeSpans": [scope]}]});
        let headers = vec![Header::new("Content-Type", "application/json")];
        let request = OriginRequest {
            body: body.to_string().into_bytes(),
            ..self.address.request("POST", headers)
        };
        let limits = AskLimits {
            bytes_max: ANSWER_BYTES_MAX,
            timeout_ms: TIMEOUT_MS,
        };
        self.is_sending = true;
        asks.ask(request, limits, count);
    }
}

/// Histogram in which the time of a piece of work is.
fn histogram_of(work: &SpanWork) -> Option<Histogram> {
    match work {
        SpanWork::Fanout { .. } => Some(Histogram::DeliveryLag),
        SpanWork::Call { method, .. } => {
            let is_it = |it: &&Histogram| {
                { it.label() }.is_some_and(|it| it.key == "method" && it.value == *method)
            };
            Histogram::ALL.iter().find(is_it).copied()
        }
        SpanWork::Broker { .. } | SpanWork::Write { .. } => None,
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A span in OTLP's JSON: ids in hexadecimal, times in nanoseconds as text. One without an end
/// lasts until that of the turn.
fn otlp(span: &Span, turn_end_unix_us: u64) -> Value {
    let of = |channel: &ChannelName| text("messaging.destination.name", channel.as_str());
    // Kinds of spans: 1 is internal, 2 a server's, 3 a client's.
    let (name, kind, failed, attributes) = match &span.work {
        SpanWork::Call { method, failed } => (*method, 2, *failed, json!([])),
        SpanWork::Broker { channel, failed } => ("broker", 3, *failed, json!([of(channel)])),
        SpanWork::Fanout { channel, members } => {
            let members =
                json!({"key": "throng.members", "value": {"intValue": members.to_string()}});
            ("fan-out", 1, false, json!([of(channel), members]))
        }
        SpanWork::Write { channel } => ("write", 1, false, json!([of(channel)])),
    };
    let end_unix_us = span.end_unix_us.unwrap_or(turn_end_unix_us);
    // Codes of a status: 0 is unset, 2 an error.
    let code = if failed { 2 } else { 0 };
    json!({
        "traceId": format!("{:032x}", span.context.trace_id),
        "spanId": format!("{:016x}", span.context.span_id),
        "parentSpanId": format!("{:016x}", span.parent_id),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": span.start_unix_us.saturating_mul(1000).to_string(),
        "endTimeUnixNano": (end_unix_us * 1000).to_string(),
        "attributes": attributes,
        "status": {"code": code},
    })
}

#[cfg(test)]
mod tests {
    use throng_types::SpanContext;

    use super::*;

    #[test]
    fn a_write_lasts_from_the_end_of_its_fan_out_to_that_of_the_turn() {
        let channel = || ChannelName::new("news").expect("a good name");
        let (channel, members, written) = (channel(), 2, channel());
        let fanout = SpanWork::Fanout { channel, members };
        let write = SpanWork::Write { channel: written };
        let spans = [(5_000, Some(5_300), fanout), (5_300, None, write)];
        let told = spans.map(|(start_unix_us, end_unix_us, work)| {
            let span = Span {
                context: SpanContext::default(),
                parent_id: 7,
                start_unix_us,
                end_unix_us,
                work,
            };
            otlp(&span, 5_700)
        });
        let of = |key| told.each_ref().map(|span| span[key].as_str());
        assert_eq!(of("name"), [Some("fan-out"), Some("write")]);
        assert_eq!(of("startTimeUnixNano"), [Some("5000000"), Some("5300000")]);
        assert_eq!(of("endTimeUnixNano"), [Some("5300000"), Some("5700000")]);
        let place = json!([text("messaging.destination.name", "news")]);
        assert_eq!(told[1]["attributes"], place);
    }
}
