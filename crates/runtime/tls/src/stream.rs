//! TLS over anything that blocks: for commands and tests that have one connection and time to wait.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use throng_types::lock;

use crate::{ClientTls, ServerTls, TlsFault, TlsLink};

const READ_BYTES: usize = 16 << 10;

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

/// One end of TLS over a socket that blocks.
pub struct TlsStream<S> {
    socket: S,
    link: TlsLink,
    plain: Plain,
}

/// Plain bytes that were read and not taken.
#[derive(Default)]
struct Plain {
    bytes: Vec<u8>,
    taken: usize,
    /// The peer has said that nothing more comes.
    has_ended: bool,
}

impl Plain {
    /// Hands out bytes; where there are none, `fill` reads more, once.
    fn read(
        &mut self,
        into: &mut [u8],
        mut fill: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<usize> {
        while self.bytes.len() == self.taken {
            if self.has_ended {
                return Ok(0);
            }
            self.bytes.clear();
            self.taken = 0;
            fill(self)?;
        }
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

/// Reads once, and sends what the link says to it.
fn fill(socket: &mut (impl Read + Write), link: &mut TlsLink, plain: &mut Plain) -> io::Result<()> {
    let mut bytes = [0; READ_BYTES];
    let count = socket.read(&mut bytes)?;
    let mut wire = Vec::new();
    let result = link.receive(&mut bytes[..count], &mut plain.bytes, &mut wire);
    // An alert may be in it that tells the server why.
    if !wire.is_empty() {
        socket.write_all(&wire)?;
    }
    plain.has_ended = result? || count == 0;
    Ok(())
}

impl<S: Read + Write> TlsStream<S> {
    /// Performs the client's handshake. Errors: those of the socket; `InvalidData` with a
    /// [`TlsFault`] if the server is refused, or refuses us.
    pub fn connect(socket: S, tls: &ClientTls) -> io::Result<Self> {
        let mut link = TlsLink::client(tls)?;
        let mut wire = Vec::new();
        link.start(&mut wire)?;
        Self::shake(socket, link, &wire)
    }

    /// Performs the server's handshake. Errors: as [`TlsStream::connect`], for the client.
    pub fn accept(socket: S, tls: &ServerTls) -> io::Result<Self> {
        Self::shake(socket, TlsLink::server(tls)?, &[])
    }

    fn shake(mut socket: S, mut link: TlsLink, wire: &[u8]) -> io::Result<Self> {
        let mut plain = Plain::default();
        socket.write_all(wire)?;
        while link.shaken().is_none() {
            if plain.has_ended {
                return Err(TlsFault::Gone.into());
            }
            fill(&mut socket, &mut link, &mut plain)?;
        }
        Ok(Self {
            socket,
            link,
            plain,
        })
    }

    /// As two halves for two threads; `writes` is the same socket once more.
    pub fn split(self, writes: S) -> (ReadHalf<S>, WriteHalf<S>) {
        let (link, unsent) = (self.link, Vec::new());
        let shared = Arc::new(Mutex::new(Shared { link, unsent }));
        let read = ReadHalf {
            socket: self.socket,
            shared: shared.clone(),
            plain: self.plain,
        };
        let write = WriteHalf {
            socket: writes,
            shared,
        };
        (read, write)
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let fill = |plain: &mut Plain| fill(&mut self.socket, &mut self.link, plain);
        self.plain.read(into, fill)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = Vec::new();
        self.link.seal(bytes, &mut wire)?;
        self.socket.write_all(&wire)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

struct Shared {
    link: TlsLink,
    /// Sealed and not sent. Bound: an answer to what one read gave.
    unsent: Vec<u8>,
}

pub struct ReadHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
    plain: Plain,
}

pub struct WriteHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
}

impl<S: Read> Read for ReadHalf<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.plain.read(into, |plain| {
            let mut bytes = [0; READ_BYTES];
            let count = self.socket.read(&mut bytes)?;
            let mut shared = lock(&self.shared);
            let Shared { link, unsent } = &mut *shared;
            let is_over = link.receive(&mut bytes[..count], &mut plain.bytes, unsent)?;
            plain.has_ended = is_over || count == 0;
            Ok(())
        })
    }
}

impl<S: Write> Write for WriteHalf<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = lock(&self.shared);
        let mut wire = std::mem::take(&mut shared.unsent);
        shared.link.seal(bytes, &mut wire)?;
        drop(shared);
        self.socket.write_all(&wire)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
