//! Session of a Centrifugo client.

use throng_session::Answered;
use throng_types::Save;

use crate::call::Call;
use crate::context::Cx;
use crate::socket::Socket;
use crate::uni_stream::UniStream;
use crate::upstream::Upstream;

/// One of its connections.
#[derive(Save)]
pub enum Session {
    /// A client that may speak, or a unidirectional WebSocket.
    Socket(Socket),
    /// Client of a unidirectional stream.
    Stream(UniStream),
    /// A call of the server API, until it is answered.
    #[save(skip)]
    Call(Box<Call>),
    /// Commands of a client whose stream is on another connection.
    #[save(skip)]
    Upstream(Box<Upstream>),
}

impl Session {
    /// Whether another process can go on with it now. Calls and commands stay until they are
    /// answered; so does a client about which a backend is being asked.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.moves(),
            Self::Stream(stream) => stream.moves(),
            Self::Call(_) | Self::Upstream(_) => false,
        }
    }

    /// A backend has answered the question with this number, or failed to.
    pub fn answered(&mut self, number: u32, answer: Answered, cx: &mut Cx<'_>) {
        match self {
            Self::Socket(socket) => socket.answered(number, answer, cx),
            Self::Stream(stream) => stream.answered(number, answer, cx),
            Self::Call(_) | Self::Upstream(_) => {}
        }
    }
}
