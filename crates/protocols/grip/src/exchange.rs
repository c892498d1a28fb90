//! One request to an origin and what comes back, as values: the words between sessions,
//! which make requests, and the driver, which carries them.
//!
//! Never: sends anything, or knows who asked.

use std::sync::Arc;

use throng_types::coded_enum;

use crate::headers::Header;
use crate::routes::Route;

/// A request to the first of several origins that can be reached.
#[derive(Clone, Debug)]
pub struct OriginRequest {
    /// Route whose targets are tried in their order.
    pub route: Arc<Route>,
    /// Method of the request, not checked.
    pub method: String,
    pub path: String,
    /// All fields, `Host` among them, but none that delimits the body. A target with a host of
    /// its own replaces `Host`.
    pub headers: Vec<Header>,
    pub body: Vec<u8>,
    /// Bytes that follow the head and `body`.
    pub rest: RequestRest,
}

/// Continuation of a request that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestRest {
    #[default]
    Nothing,
    /// More of the body, which has so many bytes in all, if that is known.
    Body(Option<u64>),
    /// Anything, if the origin answers 101: from then on both sides pass bytes to each other.
    Upgrade,
}

/// Event of one request, in this order: a head, then pieces of the body, then the end; or a failure
/// at any time, and nothing after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginEvent {
    /// The head of the answer; 1xx answers are passed over.
    Head(OriginHead),
    /// Bytes of the body, without their transfer coding.
    Body(Vec<u8>),
    /// The body is whole.
    End,
    /// The origin has taken so many bytes of what follows the request. May come at any time.
    Taken(usize),
    /// There is no answer, or no more of it.
    Failed(OriginFailure),
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginHead {
    /// Status code, from 200 to 999.
    pub code: u16,
    /// As the origin wrote it; may be empty.
    pub reason: String,
    /// All fields, in their order.
    pub headers: Vec<Header>,
    /// Declared length of the body in bytes, if any.
    pub body_bytes: Option<u64>,
    pub is_bodiless: bool,
}

coded_enum! {
    /// Reason for which an answer does not come, and how far the request got.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExchangeError {
        /// Status that a client gets in place of an answer.
        fn status -> u16;
        /// Sentence for that client, which tells nothing about the network behind.
        fn sentence;
        /// No origin could be connected to, or none spoke TLS as it must.
        Unreachable = 502, "no backend of this path can be reached";
        /// The connection broke before the request was written.
        Unsent = 502, "the backend ended the connection without an answer";
        /// The head did not come in time.
        Timeout = 504, "the backend did not answer in time";
        /// The connection ended before the answer was whole.
        Cut = 502, "the backend ended the connection without an answer";
        /// The bytes are no HTTP, or break a bound.
        Garbage = 502, "the backend's answer is not valid HTTP, or too large";
        /// There is no room for another request.
        Busy = 503, "too many requests wait for backends; try again";
    }
}

/// A failure, and what an operator should read about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginFailure {
    /// Kind of the failure, for status and metrics.
    pub fault: ExchangeError,
    /// Cause and place, for the log.
    pub detail: String,
}
