//! A blocking connection, plain or by TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use throng_tls::{Authorities, ClientTls, Stream, Trust};

use crate::source::{ANSWER, Fault};

/// One connection.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<Stream<TcpStream>>),
}

impl Socket {
    /// Connects to the first address that answers.
    pub(crate) fn connect(host: &str, port: u16) -> Result<Self, Fault> {
        let unknown = |error| Fault(format!("{host}: {error}"));
        let mut last = Fault(format!("{host}: no such host"));
        for address in (host, port).to_socket_addrs().map_err(unknown)? {
            match TcpStream::connect_timeout(&address, ANSWER) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    socket.set_read_timeout(Some(ANSWER))?;
                    socket.set_write_timeout(Some(ANSWER))?;
                    return Ok(Self::Plain(socket));
                }
                Err(error) => last = Fault(format!("{address}: {error}")),
            }
        }
        Err(last)
    }

    /// Goes on by TLS.
    pub(crate) fn secure(self, host: &str, checks: bool) -> Result<Self, Fault> {
        let Self::Plain(socket) = self else {
            return Ok(self);
        };
        let trust = match checks {
            true => Trust::Of(Authorities::of_this_machine()),
            false => Trust::Anybody,
        };
        let tls = ClientTls::new(host, &trust, false);
        let tls = tls.map_err(|error| Fault(format!("{host}: {error}")))?;
        Ok(Self::Tls(Box::new(Stream::connect(socket, &tls)?)))
    }

    /// How long a read may take from now on.
    pub(crate) fn read_timeout(&self, timeout: Duration) -> Result<(), Fault> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.socket(),
        };
        // Nothing at all would mean for ever.
        Ok(socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?)
    }

    /// Reads once. Nothing is the timeout.
    pub(crate) fn read_some(&mut self, into: &mut [u8]) -> Result<Option<usize>, Fault> {
        let read = match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        };
        match read {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => Ok(Some(count)),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted) => Ok(Some(0)),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let written = match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes),
        };
        Ok(written?)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
