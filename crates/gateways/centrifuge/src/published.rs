//! How publications of the server API are answered.

use throng_broker::Refusal;
use throng_centrifuge::api::{
    ApiResult, PublishResult, ServerApiError, encode_bare_error, encode_response,
};
use throng_metrics::Counter;
use throng_session::{Context, PublishResult as Outcome, respond_json};

/// A style of answer: to a broadcast, a list.
const BROADCAST: u8 = 1;
/// A style of answer: errors show in the HTTP status too.
const ERRORS_IN_STATUS: u8 = 2;

/// Returns the style bits of a publishing request's answer.
pub(crate) const fn style(errors_in_status: bool, is_broadcast: bool) -> u8 {
    let errors = if errors_in_status {
        ERRORS_IN_STATUS
    } else {
        0
    };
    errors | if is_broadcast { BROADCAST } else { 0 }
}

/// Answers publications of a request of its own.
pub(crate) fn write_published(
    outcomes: &[Outcome],
    style: u8,
    keep_alive: bool,
    cx: &mut Context<'_>,
) {
    let mut results = Vec::new();
    let result = match outcomes.first() {
        Some(&only) if style & BROADCAST == 0 => published(only).map(ApiResult::Publish),
        _ => {
            results.extend(outcomes.iter().copied().map(published));
            Ok(ApiResult::Broadcast(&results))
        }
    };
    let (mut status, mut body) = (200, Vec::new());
    if let Err(error) = result {
        cx.count(Counter::error(error.code()));
    }
    match result {
        Err(error) if style & ERRORS_IN_STATUS != 0 => {
            status = error.http_status();
            encode_bare_error(error, &mut body);
        }
        _ => encode_response(result.as_ref().map_err(|error| *error), &mut body),
    }
    respond_json(status, &body, keep_alive, cx);
}

pub(crate) fn published(outcome: Outcome) -> Result<PublishResult, ServerApiError> {
    match outcome {
        Ok(position) => Ok(PublishResult { position }),
        Err(refusal) => Err(error_of(refusal)),
    }
}

/// The server API's code for a refusal.
pub(crate) const fn error_of(refusal: Refusal) -> ServerApiError {
    match refusal {
        // Temporary, and the API has no other code for that.
        Refusal::Busy => ServerApiError::Internal,
        Refusal::Unavailable => ServerApiError::Unavailable,
        Refusal::Unknown => ServerApiError::Unknown,
        Refusal::NotWritten => ServerApiError::NotWritten,
        Refusal::NotOnDisk => ServerApiError::NotOnDisk,
        Refusal::UnknownChannel => ServerApiError::UnknownChannel,
        // Only sessions are refused like that.
        Refusal::AlreadySubscribed | Refusal::ChannelLimit | Refusal::Cancelled => {
            ServerApiError::BadRequest
        }
        Refusal::NotAvailable | Refusal::TooLong => ServerApiError::NotAvailable,
        Refusal::UnrecoverablePosition => ServerApiError::UnrecoverablePosition,
    }
}
