//! One connection between a controller and an agent: frames in by a thread, frames out at once.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::tls::Secured;
use crate::agents::{self, Nonce, ProtocolError};

/// A peer that takes nothing for so long is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// What a connection brings.
pub(super) enum Arrived<M> {
    /// A message.
    Message(M),
    /// Its end, and why.
    End(String),
}

/// The sending half.
pub(super) struct Outgoing {
    socket: TcpStream,
    secured: Option<Secured>,
}

impl Outgoing {
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
        // It may have ended by itself.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Splits a connection: messages go to `on` from a thread of their own.
pub(super) fn split<M: DeserializeOwned + Send + 'static>(
    stream: TcpStream,
    secured: Option<Secured>,
    mut on: impl FnMut(Arrived<M>) + Send + 'static,
) -> io::Result<Outgoing> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_WITHIN))?;
    let reading = stream.try_clone()?;
    let unsealing = secured.clone();
    std::thread::Builder::new()
        .name("peer".into())
        .spawn(move || {
            let why = read_all(reading, unsealing.as_ref(), &mut on);
            on(Arrived::End(why));
        })?;
    Ok(Outgoing {
        socket: stream,
        secured,
    })
}

fn read_all<M: DeserializeOwned>(
    mut stream: TcpStream,
    secured: Option<&Secured>,
    on: &mut impl FnMut(Arrived<M>),
) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut arrived = 0;
    loop {
        // The first time nothing is read: words may have come with the handshake.
        let bytes = buffer.get(..arrived).unwrap_or_default();
        let taken = match secured {
            Some(secured) => secured.receive(bytes, &mut kept),
            None => {
                kept.extend_from_slice(bytes);
                Ok(())
            }
        };
        if let Err(error) = taken.map_err(|error| error.to_string()).and_then(|()| {
            tell_whole(&mut kept, on).map_err(|error| ProtocolError::to_string(&error))
        }) {
            return error;
        }
        arrived = match stream.read(&mut buffer) {
            Ok(0) => return "the connection ended".to_owned(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return error.to_string(),
        };
    }
}

/// Tells the messages that are whole, and keeps the rest.
fn tell_whole<M: DeserializeOwned>(
    kept: &mut Vec<u8>,
    on: &mut impl FnMut(Arrived<M>),
) -> Result<(), ProtocolError> {
    while let Some((message, used)) = agents::decode::<M>(kept)? {
        kept.drain(..used);
        on(Arrived::Message(message));
    }
    Ok(())
}

/// 128 bits that nobody can guess.
pub(super) fn nonce() -> Nonce {
    let half = || u128::from(throng_sys::random::seed());
    half() << 64 | half()
}
