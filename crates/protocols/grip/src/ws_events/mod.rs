//! WebSocket-over-HTTP: one client's WebSocket as a row of HTTP requests to a backend.
//!
//! `event` codes what goes back and forth, `control` reads what the backend tells the proxy,
//! and `client` is the conversation itself.

mod client;
mod command;
mod control;
mod event;
mod reply;
#[cfg(test)]
mod tests;

pub use client::Conversation;
pub use command::{Command, ConversationLimits, Failure, Full, Handshake, Phase, claims_events};
pub use control::{
    ControlFault, ControlMessage, GripFilter, GripMessage, MESSAGE_PREFIX, WsKeepAlive, grip_prefix,
};
pub use event::{EVENTS_TYPE, Event, EventFault, EventKind, decode_events, encode_event};
pub use reply::{EventsReply, FirstReply, ReplyFault};
