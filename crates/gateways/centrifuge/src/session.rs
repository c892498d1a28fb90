//! Session of a Centrifugo client.

use throng_session::Answered;

use crate::call::Call;
use crate::context::Cx;
use crate::socket::Socket;
use crate::uni_stream::UniStream;
use crate::upstream::Upstream;

/// One of its connections.
pub enum Session {
    /// A client that may speak, or a unidirectional WebSocket.
    Socket(Socket),
    /// Client of a unidirectional stream.
    Stream(UniStream),
    /// A call of the server API, until it is answered.
    Call(Box<Call>),
    /// Commands of a client whose stream is on another connection.
    Upstream(Box<Upstream>),
}

impl Session {
    /// A backend has answered the question with this number, or failed to.
    pub fn answered(&mut self, number: u32, answer: Answered, cx: &mut Cx<'_>) {
        match self {
            Self::Socket(socket) => socket.answered(number, answer, cx),
            Self::Stream(stream) => stream.answered(number, answer, cx),
            Self::Call(_) | Self::Upstream(_) => {}
        }
    }
}
