//! Server-sent events (WHATWG HTML, section 9.2), for both roles.
//!
//! Owns: the text of an event stream. Never: HTTP, reconnecting, or what an id means.
//!
//! Invariants
//! - No input to an encoder can begin a field or end an event that the caller did not
//!   ask for: data and comments are split at line ends, ids and event names with
//!   line ends are refused.
//! - What the decoder reports does not depend on how the stream was cut.

mod decode;
mod encode;

pub use decode::{DecodedEvent, SseDecoder, SseLimits, StreamError};
pub use encode::{
    EVENT_END, FieldError, SseEvent, encode_comment, encode_data, encode_event, encode_id,
};
