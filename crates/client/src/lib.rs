//! Client's side of a connection, as bytes in and events out.
//!
//! Owns: the address that a person writes ([`Target`]), the response to a request ([`HeadReader`],
//! [`ResponseReader`]), a whole exchange over a connection that blocks ([`IncomingResponse`]), also
//! on a stream of HTTP/2 ([`Http2Stream`]), the
//! client's side of a WebSocket ([`WebSocketClient`]), a subscription over `/sse`, `/stream` or
//! `/ws` ([`Subscription`]), and Centrifugo's commands and replies ([`centrifugo`]). The command
//! line, the load generator and the comparison use it; a simulator can, since nothing here knows
//! where bytes come from.
//!
//! Never: opens a socket, reads a clock, draws a number. The caller hands in masking keys
//! and handshake keys. Requests are encoded by `throng_http1::encode_request`.
//!
//! Invariant: reported events do not depend on how the bytes were cut.

pub mod centrifugo;
mod exchange;
mod http2;
mod lines;
mod response;
mod subscription;
mod target;
mod websocket;

pub use exchange::{ExchangeError, IncomingResponse};
pub use http2::Http2Stream;
pub use lines::{LineTooLong, Lines};
pub use response::{BytesAfterHead, HeadReader, ResponseEvent, ResponseReadError, ResponseReader};
pub use subscription::{
    Subscription, SubscriptionEvent, SubscriptionNotice, SubscriptionTransport,
};
pub use target::Target;
pub use websocket::{WebSocketClient, WebSocketError};
