//! One TCP connection between a controller and an agent: frames in by a thread, frames out at once.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

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
pub(super) struct Outgoing(TcpStream);

impl Outgoing {
    /// Sends a message whole.
    pub(super) fn send<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        let mut frame = Vec::new();
        agents::encode(message, &mut frame).map_err(io::Error::other)?;
        self.0.write_all(&frame)
    }

    /// Ends the connection in both directions, so that the thread that reads it ends too.
    pub(super) fn close(&self) {
        // It may have ended by itself.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Splits a connection: messages go to `on` from a thread of their own.
pub(super) fn split<M: DeserializeOwned + Send + 'static>(
    stream: TcpStream,
    mut on: impl FnMut(Arrived<M>) + Send + 'static,
) -> io::Result<Outgoing> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_WITHIN))?;
    let reading = stream.try_clone()?;
    std::thread::Builder::new()
        .name("peer".into())
        .spawn(move || {
            let why = read_all(reading, &mut on);
            on(Arrived::End(why));
        })?;
    Ok(Outgoing(stream))
}

fn read_all<M: DeserializeOwned>(mut stream: TcpStream, on: &mut impl FnMut(Arrived<M>)) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = match stream.read(&mut buffer) {
            Ok(0) => return "the connection ended".to_owned(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return error.to_string(),
        };
        kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
        loop {
            match agents::decode::<M>(&kept) {
                Ok(Some((message, used))) => {
                    kept.drain(..used);
                    on(Arrived::Message(message));
                }
                Ok(None) => break,
                Err(error) => return ProtocolError::to_string(&error),
            }
        }
    }
}

/// 128 bits that nobody can guess.
pub(super) fn nonce() -> Nonce {
    let half = || u128::from(throng_sys::random::seed());
    half() << 64 | half()
}
