//! Pusher Channels, protocol 7, without a socket: frames of clients and server, names of channels,
//! close codes, signatures, and the HTTP API of back ends.
//!
//! Owns: the wire forms, and which bytes a signature covers. Never: keeps state, reads a clock, or
//! knows a connection. Lengths of frames and bodies are bounded by whoever receives them.
//!
//! Facts come from Pusher's pages "Channels WebSocket protocol" and "HTTP API reference", and from
//! what the client libraries check.
//!
//! Invariants
//! - Every writer appends one whole JSON object to its `out`, and leaves what is there before.
//! - A signature is checked over the bytes that were received, in constant time.
//! - Bytes from outside never panic.

pub mod api;
mod channel;
mod client;
mod code;
mod server;
mod sign;

pub use channel::{ChannelAccess, ChannelKind, NAME_BYTES_MAX, server_to_user};
pub use client::{
    ChannelUser, ClientFrame, MalformedFrame, SignInFields, SignedInUser, SubscribeFields,
};
pub use code::CloseCode;
pub use server::{
    ErrorScope, EventData, PING, PONG, SUBSCRIPTION_COUNT, SubscriptionFailure, append_delivery,
    append_event, cache_miss, connection_established, error, member_added, member_removed,
    presence_succeeded, signin_success, subscription_error, subscription_succeeded,
    watchlist_event,
};
pub use sign::{AppKeys, channel_message, user_message};
