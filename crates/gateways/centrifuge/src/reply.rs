//! Replies that say why not, and small things that several commands need.

use throng_broker::Refusal;
use throng_centrifuge::{ErrorCode, encode_error};
use throng_metrics::Counter;
use throng_session::encode::ws_text;
use throng_types::Now;

use crate::context::Cx;

/// Replies with an error.
pub(crate) fn error(command: u32, code: ErrorCode, cx: &mut Cx<'_>) {
    cx.count(Counter::error(code.code()));
    ws_text(cx.out, |out| encode_error(command, code, out));
}

/// Seconds from now to a moment.
pub(crate) fn ttl(at_unix_s: u64, now: Now) -> u32 {
    u32::try_from(at_unix_s.saturating_sub(now.unix_s())).unwrap_or(u32::MAX)
}

/// The code that says why the hub refused.
pub(crate) const fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Busy => ErrorCode::TooManyRequests,
        // A temporary code: who still wants the subscription asks again.
        Refusal::Cancelled => ErrorCode::Internal,
        Refusal::UnknownChannel => ErrorCode::UnknownChannel,
        Refusal::AlreadySubscribed => ErrorCode::AlreadySubscribed,
        Refusal::ChannelLimit => ErrorCode::LimitExceeded,
        Refusal::NotAvailable => ErrorCode::NotAvailable,
        Refusal::UnrecoverablePosition => ErrorCode::UnrecoverablePosition,
    }
}
