//! Sessions as bytes, for a process that takes over. Calls of the server API and requests with
//! commands are answered before, or stay until they are.

use throng_types::{Save as _, Saved};

use crate::session::Session;
use crate::socket::Socket;
use crate::uni_stream::UniStream;

/// Appends a session; false if it cannot move now.
pub(crate) fn save(session: &Session, out: &mut Vec<u8>) -> bool {
    match session {
        Session::Socket(socket) => {
            out.push(0);
            socket.save(out)
        }
        Session::Stream(stream) => {
            out.push(1);
            stream.save(out)
        }
        Session::Call(_) | Session::Upstream(_) => false,
    }
}

/// Reads one back.
pub(crate) fn load(from: &mut Saved<'_>) -> Option<Session> {
    match u8::load(from)? {
        0 => Socket::load(from).map(Session::Socket),
        1 => UniStream::load(from).map(Session::Stream),
        _ => None,
    }
}
