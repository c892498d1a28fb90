//! What a connection of a plain client is.

use crate::socket::Socket;
use crate::stream::Lines;

/// One of its connections.
pub enum Session {
    /// `/ws`.
    Socket(Socket),
    /// `/sse` and `/stream`.
    Stream(Lines),
}
