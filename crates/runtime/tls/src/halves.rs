//! A connection in two halves, for a thread that reads and one that writes.
//!
//! Neither waits for the other: the lock is held for as long as bytes are opened or sealed, never
//! while a socket is waited for. Only the half that writes sends anything: what the other has to
//! say because of what it read leaves with the next write.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Link;

const READ_BYTES: usize = 16 << 10;

struct Shared {
    link: Link,
    /// Sealed and not sent. Bound: an answer to what one read gave.
    unsent: Vec<u8>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The half that reads.
pub struct ReadHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
    /// Plain bytes that were read and not taken.
    plain: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

/// The half that writes.
pub struct WriteHalf<S> {
    socket: S,
    shared: Arc<Mutex<Shared>>,
}

/// Makes halves of a connection that has done its handshake.
pub(crate) fn halves<S>(
    (reads, writes): (S, S),
    link: Link,
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
