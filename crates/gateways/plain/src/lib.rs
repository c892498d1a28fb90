//! Clients without a protocol of their own: `/ws`, `/sse` and `/stream` deliver a channel's data,
//! `/pub` publishes it, a request or a message of a WebSocket each.
//!
//! Owns: these paths, the wire forms of their deliveries, the cursor that an `EventSource` brings
//! back. Never: other gateways, sockets, clocks.

mod asking;
mod context;
mod cursor;
mod forms;
mod framing;
mod gateway;
mod gzip;
mod open;
mod operate;
mod publication;
mod publish;
mod publisher;
mod session;
mod socket;
mod stream;
mod way;

pub use cursor::{Cursor, CursorEntry};
pub use gateway::Plain;
pub use publication::{BadPublication, Wanted};
pub use session::Session;
