//! Publishers by HTTP: `POST /publish/` and `/recover`.

use throng_grip::publish::{AnswerType, PublishAnswer, PublishRequest};
use throng_http1::field::HeaderRef;
use throng_http1::query;
use throng_hub::Answer as Published;
use throng_metrics::Counter;
use throng_session::{Exchange, Flow, Incoming, Opened, Publications, TracedCall, respond};

use crate::Cx;
use crate::order::Order;

/// Request of a publisher whose items are on their way.
pub struct Publishing {
    exchange: Exchange,
    publications: Publications,
    answer_type: AnswerType,
    receivers: Option<Receivers>,
    /// Span of the request, if its sender traces it.
    trace: Option<Box<TracedCall>>,
}

/// Number of connections that took the items, for a publisher that asks for it.
struct Receivers {
    /// Number of items without a count yet, or for ever.
    unknown: usize,
    sum: u64,
}

/// Serves a request of a publisher.
pub(crate) fn publish(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Opened<Box<Publishing>> {
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    let headers: Vec<HeaderRef<'_>> = request.headers().collect();
    let read = PublishRequest::read(request.method, request.path(), &headers, incoming.body);
    let (items, answer_type) = match read {
        PublishRequest::Answer(answer) => {
            write(&answer, keep_alive, cx);
            return Opened::Answered { keep_alive };
        }
        PublishRequest::Recover { answer_type } => {
            cx.order(Order::Recover);
            write(&PublishAnswer::done(answer_type, "Updated"), keep_alive, cx);
            return Opened::Answered { keep_alive };
        }
        PublishRequest::Publish { items, answer_type } => (items, answer_type),
    };
    if items.is_empty() {
        write(
            &PublishAnswer::done(answer_type, "Published"),
            keep_alive,
            cx,
        );
        return Opened::Answered { keep_alive };
    }
    let counters = &cx.shared.counters;
    counters.add(Counter::PublicationsGrip, items.len() as u64);
    let counts =
        query::pairs(request.query()).any(|(name, value)| name == "receivers" && value == "1");
    let publishing = Publishing {
        exchange: Exchange::new(incoming),
        publications: Publications::new(items.len()),
        answer_type,
        receivers: counts.then_some(Receivers {
            unknown: items.len(),
            sum: 0,
        }),
        trace: incoming.traced(cx),
    };
    for (token, item) in items.into_iter().enumerate() {
        let reply_to = cx.reply_to(token as u32);
        cx.order(Order::Publish {
            reply_to,
            item: Box::new(item),
            patient: false,
            counts,
            trace: TracedCall::parent(publishing.trace.as_deref()),
        });
    }
    cx.set_deadline(None);
    Opened::Session(Box::new(publishing))
}

impl Publishing {
    pub(crate) fn bytes(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        self.exchange.keep_behind_api_call(input, cx);
    }

    /// The answer comes within this turn or the next few; it is not cut off, and is the last one.
    pub(crate) const fn close(&mut self) {
        self.exchange.keep_alive = false;
    }

    /// Handles the result of one item; answers the request after the last one.
    pub(crate) fn published(&mut self, token: u32, answer: &Published, cx: &mut Cx<'_>) -> Flow {
        let Some(results) = self.publications.answer(token, answer) else {
            return Flow::Stay;
        };
        let is_taken = results.iter().all(Result::is_ok);
        (cx.shared).end_traced(self.trace.as_deref(), "grip.publish", !is_taken);
        write(&self.answer(is_taken), self.exchange.keep_alive, cx);
        self.exchange.done(cx)
    }

    /// Adds the number of connections that took one of the items.
    pub(crate) fn received(&mut self, count: u64) {
        if let Some(receivers) = &mut self.receivers {
            receivers.unknown = receivers.unknown.saturating_sub(1);
            receivers.sum += count;
        }
    }

    fn answer(&self, is_taken: bool) -> PublishAnswer {
        match &self.receivers {
            _ if !is_taken => PublishAnswer::overloaded(),
            None => PublishAnswer::done(self.answer_type, "Published"),
            // A number that is not certain is not sent.
            Some(known) => {
                let sum = Some(known.sum).filter(|_| known.unknown == 0);
                PublishAnswer::published_to(self.answer_type, sum)
            }
        }
    }
}

fn write(answer: &PublishAnswer, keep_alive: bool, cx: &mut Cx<'_>) {
    let mut headers = vec![("Content-Type", answer.answer_type.media_type())];
    if answer.code == 405 {
        headers.push(("Allow", "POST"));
    }
    let body = answer.body.as_bytes();
    respond(answer.code, &headers, body, keep_alive, cx);
}
