//! Session of a plain client.

use throng_types::Save;

use crate::asking::Asking;
use crate::operate::Reloading;
use crate::publisher::Publisher;
use crate::socket::Socket;
use crate::stream::Lines;

/// One of its connections.
#[derive(Save)]
pub enum Session {
    /// WebSocket client of `/ws`.
    Socket(Socket),
    /// Stream client of `/sse` or `/stream`.
    Stream(Lines),
    /// One of these, while backends are asked about it. Boxed, because it is so for a moment.
    #[save(skip)]
    Asking(Box<Asking>),
    /// A publisher's WebSocket. Boxed, because there are few.
    Publisher(Box<Publisher>),
    /// `/api/reload`. Boxed, because there are few.
    #[save(skip)]
    Reloading(Box<Reloading>),
}

impl Session {
    /// Whether another process can go on with it now. One that waits for a backend or a reload
    /// stays: the process that asked has the answer.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.moves(),
            Self::Stream(stream) => stream.moves(),
            Self::Publisher(publisher) => publisher.moves(),
            Self::Reloading(_) | Self::Asking(_) => false,
        }
    }
}
