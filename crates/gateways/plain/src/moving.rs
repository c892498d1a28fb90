//! Sessions as bytes, for a process that takes over.

use throng_types::{Save as _, Saved};

use crate::gateway::Session;
use crate::publisher::Publisher;
use crate::socket::Socket;
use crate::stream::Lines;

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
        Session::Publisher(publisher) => {
            out.push(2);
            publisher.save(out)
        }
        // The process that it asked answers it, and drains it; so does one that backends answer.
        Session::Reloading(_) | Session::Asking(_) => false,
    }
}

/// Restores a session from its saved bytes.
pub(crate) fn load(from: &mut Saved<'_>) -> Option<Session> {
    match u8::load(from)? {
        0 => Socket::load(from).map(Session::Socket),
        1 => Lines::load(from).map(Session::Stream),
        2 => Some(Session::Publisher(Box::new(Publisher::load(from)?))),
        _ => None,
    }
}
