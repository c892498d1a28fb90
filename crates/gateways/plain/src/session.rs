//! What a connection of a plain client is.

use crate::operate::Reloading;
use crate::publisher::Publisher;
use crate::socket::Socket;
use crate::stream::Lines;

/// One of its connections.
pub enum Session {
    /// `/ws`.
    Socket(Socket),
    /// `/sse` and `/stream`.
    Stream(Lines),
    /// A publisher's WebSocket. Boxed, because there are few.
    Publisher(Box<Publisher>),
    /// `/api/reload`. Boxed, because there are few.
    Reloading(Box<Reloading>),
}
