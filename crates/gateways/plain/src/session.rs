//! Session of a plain client.

use crate::asking::Asking;
use crate::operate::Reloading;
use crate::publisher::Publisher;
use crate::socket::Socket;
use crate::stream::Lines;

/// One of its connections.
pub enum Session {
    /// WebSocket client of `/ws`.
    Socket(Socket),
    /// Stream client of `/sse` or `/stream`.
    Stream(Lines),
    /// One of these, while backends are asked about it. Boxed, because it is so for a moment.
    Asking(Box<Asking>),
    /// A publisher's WebSocket. Boxed, because there are few.
    Publisher(Box<Publisher>),
    /// `/api/reload`. Boxed, because there are few.
    Reloading(Box<Reloading>),
}
