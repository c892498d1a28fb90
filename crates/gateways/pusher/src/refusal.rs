//! Words for orders and calls that are refused.

use throng_broker::Refusal;
use throng_metrics::AppMetric;
use throng_pusher::api::error_answer;
use throng_session::http::SAFE;
use throng_session::{Context, PublishOutcome, respond, respond_json};

use crate::quota::Over;

/// Answer to a call that is refused.
pub(crate) struct Refused {
    status: u16,
    pub(crate) why: &'static str,
    /// Seconds after which the caller may try again, if that is known.
    retry_after_s: Option<u64>,
}

impl From<Over> for Refused {
    fn from((limit, wait_s): Over) -> Self {
        Self {
            status: 429,
            why: match limit {
                AppMetric::RefusedReads => "the app asks more than it may",
                AppMetric::RefusedHistory => "the app's cache channels hold as much as they may",
                _ => "the app publishes more than it may",
            },
            retry_after_s: Some(wait_s),
        }
    }
}

impl From<(u16, &'static str)> for Refused {
    fn from((status, why): (u16, &'static str)) -> Self {
        Self {
            status,
            why,
            retry_after_s: None,
        }
    }
}

/// Sentence for a client or back end whose order was refused.
pub(crate) const fn sentence_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Busy => "a queue is full; try again in a moment",
        Refusal::Unavailable => "the broker is unavailable; try again in a moment",
        Refusal::Unknown => "the broker did not answer; it may have published",
        _ => "the channel refused it",
    }
}

/// Answer to a back end whose publication was refused.
pub(crate) fn refused(refusal: Refusal) -> Refused {
    (503, sentence_of(refusal)).into()
}

/// Answers a call whose publications are all answered: with a body, or why one was refused.
pub(crate) fn answer<S, O>(
    results: &[PublishOutcome],
    body: &[u8],
    keep_alive: bool,
    cx: &mut Context<'_, S, O>,
) {
    match results.iter().find_map(|result| result.err()) {
        Some(refusal) => answer_error(refused(refusal), keep_alive, cx),
        None => respond_json(200, body, keep_alive, cx),
    }
}

/// Answers a call with a sentence in JSON.
pub(crate) fn answer_error<S, O>(
    refused: impl Into<Refused>,
    keep_alive: bool,
    cx: &mut Context<'_, S, O>,
) {
    let refused = refused.into();
    let mut body = Vec::new();
    error_answer(refused.status, refused.why, &mut body);
    let Some(wait_s) = refused.retry_after_s else {
        return respond_json(refused.status, &body, keep_alive, cx);
    };
    let wait_s = wait_s.to_string();
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Retry-After", &*wait_s),
    ];
    headers.extend(SAFE);
    respond(refused.status, &headers, &body, keep_alive, cx);
}
