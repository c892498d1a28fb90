//! What a connection of a Centrifugo client is.

use crate::call::Call;
use crate::socket::Socket;
use crate::uni_stream::UniStream;

/// One of its connections.
pub enum Session {
    /// A WebSocket, bidirectional or not.
    Socket(Socket),
    /// A unidirectional stream.
    Stream(UniStream),
    /// A call of the server API, until it is answered.
    Call(Box<Call>),
}
