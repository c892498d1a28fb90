//! HTTP/1.1 heads, bodies and upgrades (RFC 9110, RFC 9112), for both roles.
//!
//! Owns: the syntax of heads (on top of `httparse`), the decision how a body is
//! delimited, the decoding of bodies, and the encoding of both.
//! Never: reads, writes, allocates for bytes that have not arrived, or decides
//! what a request means.
//!
//! Invariants
//! - What a parser answers for some bytes does not depend on how they were cut:
//!   once it refuses a prefix, it refuses every longer input with the same fault,
//!   and once it accepts one, more bytes change nothing.
//! - A message has one reading. Whatever two HTTP implementations are known to
//!   read differently (RFC 9112 section 11.2) is refused, never repaired.
//! - No input to an encoder can add a line to a head: see [`encode_response`].

mod body;
mod encode;
mod fault;
pub mod field;
mod head;
mod known;
pub mod origin;
pub mod query;
mod request;
mod response;

pub use body::{BodyDecoder, BodyStep};
pub use encode::{
    CHUNK_END, LAST_CHUNK, encode_chunk, encode_chunk_head, encode_request, encode_response,
    encode_response_end, encode_response_head, encode_response_start, encode_stream_head,
    reason_phrase,
};
pub use fault::{BadBody, BadRequest, BadResponse};
pub use head::{Body, HEADERS_CAP, Headers, HttpLimits, ResponseBody, is_token};
pub use known::KnownHead;
pub use request::{Request, parse_request, parse_request_resumed};
pub use response::{Response, parse_response};
