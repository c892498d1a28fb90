//! HTTP/2 (RFC 9113) and HPACK (RFC 7541) for both roles, as bytes in and events out; extended
//! CONNECT (RFC 8441) for WebSockets.
//!
//! Owns: frames, blocks of fields, the states of streams, flow control both ways, answers to
//! SETTINGS and PING, and a budget for frames that cost us and serve nobody. Heads come out as
//! those of HTTP/1.1, by `throng-http1`, so that sessions know one form of a request.
//! Never: sockets, clocks, queues. Payloads that go out are not seen here: the caller puts them
//! behind the head of a DATA frame.
//!
//! Invariants
//! - What is reported, and the fault that ends it, do not depend on how the bytes were cut; only a
//!   body's bytes come in pieces as they arrive.
//! - Nothing is held for a stream but [`STREAM_BYTES`]. A connection holds one frame that is not
//!   whole, one block of fields, and HPACK's table until the peer has heard that we want none.
//! - Blocks of fields that go out have no state, so they can be shared by connections.
//! - A peer that does more than is good for anybody is sent away with ENHANCE_YOUR_CALM.

mod asked;
mod budget;
mod conn;
mod frame;
mod head;
mod hpack;
mod streams;

pub use asked::{UPGRADE_KEY, answer_upgrade, encode_asked, write_answer};
pub use conn::{Conn, H2Event, H2Limits};
pub use frame::{Code, FRAME_BYTES_MAX, H2Fault};
pub use head::{Scratch, encode_request, encode_response};
pub use hpack::{encode_field, encode_status};
pub use streams::STREAM_BYTES;
