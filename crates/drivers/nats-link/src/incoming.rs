//! What comes from NATS, one thing after another.

use std::io::{ErrorKind, Read};

use throng_nats_protocol::{Limits, Op, decode};

/// The most that NATS may say at once.
const LIMITS: Limits = Limits {
    line_bytes_max: 256 << 10,
    message_bytes_max: 64 << 20,
};
/// Bytes of one read.
const READ: usize = 64 << 10;

/// Why nothing was read.
#[derive(Debug)]
pub enum Unread {
    /// Nothing came in time; something may still come.
    Late,
    /// The connection cannot be used any more, in words.
    Over(String),
}

impl From<Unread> for String {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Late => "NATS does not answer".to_owned(),
            Unread::Over(why) => why,
        }
    }
}

/// What comes from NATS, on a connection or on its end that is read.
pub struct Incoming<S> {
    /// What it comes on. Nobody else may read it.
    pub stream: S,
    /// Bytes that were read, from `taken` on. Bound: one operation and one read.
    bytes: Vec<u8>,
    taken: usize,
}

impl<S> Incoming<S> {
    /// Nothing was read yet.
    pub const fn new(stream: S) -> Self {
        Self::behind(Vec::new(), stream)
    }

    /// Goes on behind bytes that were read before, on another end of the connection.
    pub const fn behind(bytes: Vec<u8>, stream: S) -> Self {
        Self {
            stream,
            bytes,
            taken: 0,
        }
    }

    /// The connection, and the bytes that were read of it and not taken.
    pub fn into_parts(mut self) -> (S, Vec<u8>) {
        self.bytes.drain(..self.taken);
        (self.stream, self.bytes)
    }

    /// Whether nothing was read that was not taken.
    pub const fn is_empty(&self) -> bool {
        self.taken >= self.bytes.len()
    }
}

impl<S: Read> Incoming<S> {
    /// Reads until `take` wants something that NATS says. What it does not want is forgotten.
    ///
    /// # Errors
    /// See [`Unread`].
    pub fn next<T>(&mut self, mut take: impl FnMut(&Op<'_>) -> Option<T>) -> Result<T, Unread> {
        loop {
            let rest = self.bytes.get(self.taken..).unwrap_or_default();
            match decode(rest, LIMITS).map_err(|error| Unread::Over(error.to_string()))? {
                Some((op, taken)) => {
                    self.taken += taken;
                    if let Some(it) = take(&op) {
                        return Ok(it);
                    }
                }
                None => {
                    self.bytes.drain(..self.taken);
                    self.taken = 0;
                    let had = self.bytes.len();
                    self.bytes.resize(had + READ, 0);
                    let room = self.bytes.get_mut(had..).unwrap_or_default();
                    let read = self.stream.read(room);
                    self.bytes.truncate(had + *read.as_ref().unwrap_or(&0));
                    match read {
                        Ok(0) => {
                            let why = "NATS has closed the connection";
                            return Err(Unread::Over(why.to_owned()));
                        }
                        Ok(_) => {}
                        Err(error) => match error.kind() {
                            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                                return Err(Unread::Late);
                            }
                            _ => return Err(Unread::Over(error.to_string())),
                        },
                    }
                }
            }
        }
    }
}
