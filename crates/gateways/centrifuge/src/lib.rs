//! Centrifugo's clients: its SDKs over `/connection/websocket` and the two transports that emulate
//! it, its unidirectional transports, and its server API at `/api/`.
//!
//! The bidirectional protocol is served in JSON and in Protobuf; a publication is encoded once for
//! all sessions with the same form.
//!
//! Never: other gateways, sockets, clocks; the encoding of the protocol is [`throng_centrifuge`]'s.

mod answered;
mod asked;
mod asking;
mod awaited;
mod call;
mod channels;
mod commands;
mod connect;
mod context;
mod emulation;
mod forms;
mod found;
mod gateway;
mod grant;
mod manner;
mod mode;
mod open;
mod order;
mod own_forms;
mod pending;
mod published;
mod refused;
mod reply;
mod results;
mod server_api;
mod session;
mod socket;
mod socket_events;
mod subscribing;
mod surveyed;
mod uni_stream;
mod upstream;
mod upward;
mod welcoming;
mod wish;

pub use commands::price;
pub use gateway::Centrifuge;
pub use order::{Mail, Order};
pub use session::Session;
pub use upstream::Upstream;
pub use upward::Upward;
