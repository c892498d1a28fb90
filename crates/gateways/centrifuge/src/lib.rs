//! Centrifugo's clients: its SDKs over `/connection/websocket` and the two transports that emulate
//! it, its unidirectional transports, and its server API at `/api/`.
//!
//! The bidirectional protocol is served in JSON and in Protobuf; a publication is encoded once for
//! all sessions with the same form.
//!
//! Never: other gateways, sockets, clocks; the encoding of the protocol is [`throng_centrifuge`]'s.

mod asked;
mod asking;
mod call;
mod channels;
mod commands;
mod connect;
mod control;
mod emulation;
mod events;
mod forms;
mod gateway;
mod open;
mod order;
mod results;
mod server_api;
mod socket;
mod subscribing;
mod surveyed;

pub use commands::price;
pub use emulation::Upstream;
pub use events::Session;
pub use gateway::Centrifuge;
pub use order::{Mail, Order, Upward};

/// Context of an event for a session of this gateway.
type Cx<'a> = throng_session::Context<'a, throng_session::ProxyOptions, Order>;
