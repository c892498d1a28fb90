//! Centrifugo client protocol v2 in JSON and Protobuf, and the HTTP server API that belongs to it.
//!
//! Owns: the wire forms of commands, replies and pushes, their codes and texts, and the bodies of
//! `POST /api/...`. Never: decides what a connection may do, keeps state, or does I/O.
//!
//! Facts come from the protocol's public schema (`client.proto`, version 2) and Centrifugo's pages
//! "Client protocol", "Unidirectional protocol", "Codes" and "Server API".
//!
//! Invariants
//! - Every encoder of JSON appends one object without a raw `\n` or `\r`, so that the caller may
//!   join several with `\n` in one frame, or put one behind `data:` in an event stream.
//! - Bytes from outside never panic; a frame that breaks the protocol is [`Malformed`], for which
//!   the connection is closed with code 3501.

pub mod api;
mod code;
mod codec;
mod command;
mod field;
mod filter;
mod form;
mod json;
mod protobuf;
pub mod proxy;
mod reply;
mod request;
mod strict;

pub use code::{ErrorCode, Malformed};
pub use codec::{Codec, Commands};
pub use command::{ClientCommand, ClientRequest};
pub use field::{IfThere, Tags};
pub use filter::{DEPTH_MAX, FilterNode, NODES_MAX, TagFilter, VALUES_MAX};
pub use json::ClientData;
pub use reply::{
    ClientInfo, ConnectResult, HistoryResult, PING, Push, RefreshResult, Reply, SubRefreshResult,
    SubscribePush, SubscribeResult, encode_push,
};
pub use request::{Connect, Emulation, HeaderFields, History, Since, Subscribe};
