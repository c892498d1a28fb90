//! Clients without a protocol of their own: `/ws`, `/sse` and `/stream` deliver a channel's data,
//! `/pub` publishes it, a request or a message of a WebSocket each; operators `/follow` a user or a
//! channel.
//!
//! Owns: these paths, the wire forms of their deliveries, the cursor that an `EventSource` brings
//! back. Never: other gateways, sockets, clocks.

mod asking;
mod cursor;
mod follow;
mod forms;
mod framing;
mod gateway;
mod gzip;
mod publish;
mod publisher;
mod socket;
mod stream;

pub use cursor::Cursor;
pub use gateway::{Plain, Session};
pub use publisher::{BadPublication, NewPublication};

/// Context of an event for a session of this gateway.
type Cx<'a> = throng_session::Context<'a, throng_session::ProxyOptions, throng_session::Ask>;
