//! WebSocket-over-HTTP: one client's WebSocket as a row of HTTP requests to a backend.
//!
//! `event` codes what goes back and forth, `control` reads what the backend tells the proxy,
//! and `client` is the conversation itself.

mod client;
mod control;
mod event;
#[cfg(test)]
mod tests;

pub use client::Conversation;
pub use control::{
    ControlError, ControlMessage, GripFilter, GripMessage, MESSAGE_PREFIX, WsKeepAlive, grip_prefix,
};
pub use event::{
    ConversationCommand, ConversationLimits, ConversationPhase, EVENTS_TYPE, EventError, EventKind,
    EventsReply, EventsReplyError, Full, WsHttpEvent, claims_events, decode_events, encode_event,
    handshake_headers,
};
