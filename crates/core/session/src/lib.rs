//! One connection as a state machine: bytes in, bytes and orders out.
//!
//! A session begins as HTTP, and its first request decides what it becomes: a
//! WebSocket, an event stream, a stream of lines, or an answer. What it wants of the
//! hub it writes down as [`Order`]s; whoever runs it carries them out and hands the
//! answers back. What all sessions of a shard share is the [`Desk`].
//!
//! Never: sockets, clocks, channels' members. An idle session owns no heap memory
//! unless its client brought a token or subscribed to several channels at once.

mod api;
mod appwrite;
mod centrifuge;
mod client_id;
mod cursor;
mod desk;
mod effects;
mod format;
mod grip;
mod http;
mod identity;
mod opening;
mod permit;
mod route;
mod session;
mod standing;
mod stream;
mod ws;

pub use appwrite::{
    AppwriteDesk, AppwriteProject, Credential, Found, Lookup, News, Order as AppwriteOrder,
    Outside, Refused, Room, RoomOptions, Wanted, Wire,
};
pub use client_id::{ClientId, NodeKey};
pub use cursor::{Cursor, CursorEntry};
pub use desk::{Desk, PUSHPIN_METRICS, Page, Pages, SessionLimits};
pub use effects::{End, Fx, NodeCount, Order, Question, Told};
pub use format::{
    CENTRIFUGE, PLAIN_WS, SSE, SSE_MANY, STREAM, STREAM_MANY, UNI_HTTP, UNI_SSE, UNI_WS, encode,
};
pub use grip::{
    GripDesk, GripHome, GripOptions, GripOrder, LastItem, NAMESPACE as GRIP_NAMESPACE, Offered,
    Receipt, Socket as GripSocket, grip_home_of,
};
pub use identity::Identity;
pub use session::Session;
pub use standing::{Admission, Farewell, Standing, Transport};
