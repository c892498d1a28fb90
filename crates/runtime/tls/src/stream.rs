//! TLS over anything that blocks: for commands and tests that have one connection and time to wait.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Plain bytes that were read and not taken.
    plain: Vec<u8>,
    taken: usize,
    /// The peer has said that nothing more comes.
    has_ended: bool,
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

    fn shake(socket: S, link: TlsLink, wire: &[u8]) -> io::Result<Self> {
        let mut stream = Self {
            socket,
            link,
            plain: Vec::new(),
            taken: 0,
            has_ended: false,
        };
        stream.socket.write_all(wire)?;
        while stream.link.shaken().is_none() {
            if !stream.fill()? {
                return Err(TlsFault::Gone.into());
            }
        }
        Ok(stream)
    }

    /// The socket below, for its options.
    pub const fn socket(&self) -> &S {
        &self.socket
    }

    /// As two halves for two threads; `writes` is the same socket once more.
    pub fn split(self, writes: S) -> (ReadHalf<S>, WriteHalf<S>) {
        let read = (self.plain, self.taken, self.has_ended);
        halves((self.socket, writes), self.link, read)
    }

    /// Reads once; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        let mut bytes = [0; READ_BYTES];
        let count = self.socket.read(&mut bytes)?;
        let mut wire = Vec::new();
        let input = &mut bytes[..count];
        let result = self.link.receive(input, &mut self.plain, &mut wire);
        // An alert may be in it that tells the server why.
        if !wire.is_empty() {
            self.socket.write_all(&wire)?;
        }
        self.has_ended = result? || count == 0;
        Ok(count > 0)
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.len() == self.taken {
            self.plain.clear();
            self.taken = 0;
            if !self.fill()? {
                return Ok(0);
            }
        }
        let rest = &self.plain[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
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

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct ReadHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
    /// Plain bytes that were read and not taken.
    plain: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

pub struct WriteHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
}

/// Makes halves of a connection that has done its handshake.
pub(crate) fn halves<S>(
    (reads, writes): (S, S),
    link: TlsLink,
    (plain, taken, has_ended): (Vec<u8>, usize, bool),
) -> (ReadHalf<S>, WriteHalf<S>) {
    let unsent = Vec::new();
    let shared = Arc::new(Mutex::new(Shared { link, unsent }));
    let read = ReadHalf {
        socket: reads,
        shared: shared.clone(),
        plain,
        taken,
        has_ended,
    };
    let write = WriteHalf {
        socket: writes,
        shared,
    };
    (read, write)
}

impl<S> ReadHalf<S> {
    /// The socket below, for its options.
    pub const fn socket(&self) -> &S {
        &self.socket
    }
}

impl<S> WriteHalf<S> {
    /// The socket below, for its options.
    pub const fn socket(&self) -> &S {
        &self.socket
    }
}

impl<S: Read> Read for ReadHalf<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.len() == self.taken {
            if self.has_ended {
                return Ok(0);
            }
            self.plain.clear();
            self.taken = 0;
            let mut bytes = [0; READ_BYTES];
            let count = self.socket.read(&mut bytes)?;
            let mut shared = lock(&self.shared);
            let Shared { link, unsent } = &mut *shared;
            let is_over = link.receive(&mut bytes[..count], &mut self.plain, unsent)?;
            self.has_ended = is_over || count == 0;
        }
        let rest = &self.plain[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
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
