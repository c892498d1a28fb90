//! Words for orders and calls that are refused.

use throng_broker::Refusal;
use throng_pusher::api::error_answer;
use throng_session::{Context, respond_json};

/// Status and sentence of a refusal.
pub(crate) type Refused = (u16, &'static str);

/// Sentence for a client or back end whose order was refused.
pub(crate) const fn sentence_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Busy => "a queue is full; try again in a moment",
        Refusal::Unavailable | Refusal::Unknown => {
            "the broker is unavailable; try again in a moment"
        }
        _ => "the channel refused it",
    }
}

/// Status and sentence for a back end whose publication was refused.
pub(crate) const fn status_of(refusal: Refusal) -> Refused {
    (503, sentence_of(refusal))
}

/// Answers a call with a sentence in JSON.
pub(crate) fn answer_error<S, O>(
    status: u16,
    why: &str,
    keep_alive: bool,
    cx: &mut Context<'_, S, O>,
) {
    let mut body = Vec::new();
    error_answer(status, why, &mut body);
    respond_json(status, &body, keep_alive, cx);
}
