//! Connection between a controller and an agent: frames in by a thread, frames out at once.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::tls::Secured;
use crate::agents::{self, Nonce, ProtocolError};

/// Time after which a peer that takes nothing is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// Event of a connection.
pub(super) enum PeerEvent<M> {
    Message(M),
    /// End of the connection, with its reason.
    End(String),
}

/// Sending half of the connection.
pub(super) struct PeerSender {
    socket: TcpStream,
    secured: Option<Secured>,
}

impl PeerSender {
    /// Sends a message whole.
    pub(super) fn send<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        let mut frame = Vec::new();
        agents::encode(message, &mut frame).map_err(io::Error::other)?;
        if let Some(secured) = &self.secured {
            let mut sealed = Vec::with_capacity(frame.len() + 64);
            secured.send(&frame, &mut sealed)?;
            frame = sealed;
        }
        self.socket.write_all(&frame)
    }

    /// Ends the connection in both directions, so that the thread that reads it ends too.
    pub(super) fn close(&self) {
        // The connection may have ended already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Splits a connection: messages go to `on` from a thread of their own.
pub(super) fn split<M: DeserializeOwned + Send + 'static>(
    stream: TcpStream,
    secured: Option<Secured>,
    mut on: impl FnMut(PeerEvent<M>) + Send + 'static,
) -> io::Result<PeerSender> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_WITHIN))?;
    let reading = stream.try_clone()?;
    let unsealing = secured.clone();
    std::thread::Builder::new()
        .name("peer".into())
        .spawn(move || {
            let why = read_all(reading, unsealing.as_ref(), &mut on);
            on(PeerEvent::End(why));
        })?;
    Ok(PeerSender {
        socket: stream,
        secured,
    })
}

fn read_all<M: DeserializeOwned>(
    mut stream: TcpStream,
    secured: Option<&Secured>,
    on: &mut impl FnMut(PeerEvent<M>),
) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut arrived = 0;
    loop {
        // The first time nothing is read: messages may have come with the handshake.
        let bytes = buffer.get(..arrived).unwrap_or_default();
        let taken = match secured {
            Some(secured) => secured.receive(bytes, &mut kept),
            None => {
                kept.extend_from_slice(bytes);
                Ok(())
            }
        };
        let taken = taken.and_then(|()| hand_out(&mut kept, on).map_err(io::Error::other));
        if let Err(error) = taken {
            return error.to_string();
        }
        arrived = match stream.read(&mut buffer) {
            Ok(0) => return "the connection ended".to_owned(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return error.to_string(),
        };
    }
}

/// Hands out the messages that are whole, and keeps the rest.
fn hand_out<M: DeserializeOwned>(
    kept: &mut Vec<u8>,
    on: &mut impl FnMut(PeerEvent<M>),
) -> Result<(), ProtocolError> {
    while let Some((message, used)) = agents::decode::<M>(kept)? {
        kept.drain(..used);
        on(PeerEvent::Message(message));
    }
    Ok(())
}

/// Draws 128 bits that nobody can guess.
pub(super) fn nonce() -> Nonce {
    let half = || u128::from(throng_sys::random::seed());
    half() << 64 | half()
}
