//! Centrifugo's clients: its SDKs over `/connection/websocket`, its unidirectional transports, and
//! its server API at `/api/`.
//!
//! Replies carry their command's id; the hub's answers bring it back as their token. A reply may
//! overtake another one's, a delivery never overtakes its subscription's reply.
//!
//! Never: other gateways, sockets, clocks; the words of the protocol are
//! [`throng_centrifuge`]'s.

mod call;
mod channels;
mod commands;
mod connect;
mod context;
mod forms;
mod gateway;
mod open;
mod reply;
mod results;
mod server_api;
mod session;
mod socket;
mod socket_events;
mod uni_stream;

pub use gateway::Centrifuge;
pub use session::Session;
