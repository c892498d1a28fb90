//! `POST /publish/`: items in, one answer out.

use throng_grip::headers::HeaderRef;
use throng_grip::publish::{Answer, AnswerType, PublishRequest};
use throng_http1::query;
use throng_hub::Asker;
use throng_metrics::Counter;

use super::order::GripOrder;
use crate::Desk;
use crate::api::{Call, Incoming, Wording};
use crate::effects::{Fx, Order};
use crate::http::Next;

/// Serves a request of a publisher.
pub(crate) fn publish(incoming: &Incoming<'_, '_>, desk: &Desk, fx: &mut Fx<'_>) -> Next {
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    let headers: Vec<HeaderRef<'_>> = request.headers().collect();
    let read = PublishRequest::read(request.method, request.path(), &headers, incoming.body);
    let (items, answer_type) = match read {
        PublishRequest::Answer(answer) => {
            tell(&answer, keep_alive, fx);
            return Next::Answered { keep_alive };
        }
        PublishRequest::Recover { answer_type } => {
            fx.orders.push(Order::Grip(GripOrder::Recover));
            tell(&Answer::done(answer_type, "Updated"), keep_alive, fx);
            return Next::Answered { keep_alive };
        }
        PublishRequest::Publish { items, answer_type } => (items, answer_type),
    };
    if items.is_empty() {
        tell(&Answer::done(answer_type, "Published"), keep_alive, fx);
        return Next::Answered { keep_alive };
    }
    desk.board
        .add(Counter::PublicationsGrip, items.len() as u64);
    let is_json = answer_type == AnswerType::Json;
    let wording = Wording::Grip { is_json };
    let counts =
        query::pairs(request.query()).any(|(name, value)| name == "receivers" && value == "1");
    let mut call = Call::publications(items.len(), true, wording, keep_alive);
    if counts {
        call.count_receivers(items.len());
    }
    for (token, item) in items.into_iter().enumerate() {
        fx.orders.push(Order::Grip(GripOrder::Publish {
            asker: Asker {
                conn: incoming.id,
                token: token as u32,
            },
            item: Box::new(item),
            patient: false,
            counts,
        }));
    }
    Next::Waits(call)
}

/// Writes an answer.
pub(crate) fn tell(answer: &Answer, keep_alive: bool, fx: &mut Fx<'_>) {
    let mut headers = vec![("Content-Type", answer.answer_type.media_type())];
    if answer.code == 405 {
        headers.push(("Allow", "POST"));
    }
    let body = answer.body.as_bytes();
    throng_http1::encode_response(answer.code, &headers, body, keep_alive, fx.out);
}

/// Tells a publisher what became of all its items.
///
/// `receivers` is there if it was asked for; in it, how many connections took the items, if that
/// is certain.
pub(crate) fn published(
    is_taken: bool,
    is_json: bool,
    receivers: Option<Option<u64>>,
    keep_alive: bool,
    fx: &mut Fx<'_>,
) {
    let answer_type = if is_json {
        AnswerType::Json
    } else {
        AnswerType::Text
    };
    let answer = match receivers {
        _ if !is_taken => Answer::overloaded(),
        None => Answer::done(answer_type, "Published"),
        Some(receivers) => Answer::published_to(answer_type, receivers),
    };
    tell(&answer, keep_alive, fx);
}
