//! WebSocket (RFC 6455) for both roles, as bytes in and events out.
//!
//! Owns: frames, masking, fragmentation, UTF-8 and close-code rules, the opening
//! handshake's fields. Never: sockets, HTTP parsing, clocks, randomness (mask keys and
//! nonces are arguments), replies (whoever feeds the [`WsDecoder`] decides what to send).
//!
//! One extension is spoken, permessage-deflate ([`deflate`], RFC 7692), if the caller agrees to
//! it; each message is compressed by itself, so that no connection has a window. Without it a frame
//! with a reserved bit set is a fault (RFC 6455 section 5.2). Nothing is offered to servers, and a
//! response that claims an extension is a fault.

mod decode;
mod deflate;
mod encode;
mod frame;
pub mod handshake;

pub use decode::{WsDecoder, WsEvent, WsLimits};
pub use deflate::{DeflateOffer, TAIL as DEFLATE_TAIL, deflate, deflated, encode_deflated};
pub use encode::{
    Masking, encode_close, encode_close_answer, encode_header, encode_message, encode_message_with,
    encode_ping, encode_pong, header_bytes,
};
pub use frame::{
    CLOSE_REASON_BYTES_MAX, CONTROL_BYTES_MAX, CloseFrame, HEADER_BYTES_MAX, Opcode, WsError,
    WsRole, close_code_valid,
};
