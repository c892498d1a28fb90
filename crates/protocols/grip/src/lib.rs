//! GRIP, the protocol of Pushpin, without a socket: what backends instruct, what publishers
//! send, what goes between a WebSocket and its HTTP backend.
//!
//! The facts are those of Pushpin 1.41 unless a module says otherwise. Each module is a
//! reader, a writer or a state machine over bytes and time that come in as arguments.
//!
//! Never: sockets, clocks, signing, or knowing of connections and shards.

pub mod command;
pub mod filters;
pub mod headers;
pub mod hold;
pub mod instruct;
pub mod item;
pub mod proxy;
pub mod publish;
pub mod routes;
pub mod sequence;
pub mod sig;
pub mod stats;
pub mod tnet;
mod value;
pub mod ws_events;
pub mod zmtp;

pub use value::{Coding, DocumentError, Value, decode_base64};
