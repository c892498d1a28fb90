//! One connection: commands that leave on it, and operations that come.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use throng_nats_protocol::{Decoder, Limits, Message, Op, write};
use throng_remote::{Reader, Stream, Wire};

/// Bytes of one read.
const READ: usize = 64 << 10;
/// Tries of a request that JetStream does not answer: while a leader is chosen, or the
/// same stream is made for somebody else, nobody hears it. Each time has its part of the timeout.
pub const ASKED_MAX: u32 = 4;
pub(crate) const LATE: &str = "NATS does not answer";

fn fault(error: io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "NATS has closed the connection".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LATE.to_owned(),
        _ => error.to_string(),
    }
}

/// Bytes as they are read.
struct Bytes {
    decoder: Decoder,
    /// Room of one read.
    room: Box<[u8]>,
}

impl Bytes {
    fn new() -> Self {
        Self {
            decoder: Decoder::new(Limits::SERVER),
            room: vec![0; READ].into(),
        }
    }

    /// Reads until `take` wants something that NATS says; nothing once `read` has nothing. What
    /// `take` does not want is forgotten.
    fn next<T>(
        &mut self,
        mut take: impl FnMut(&Op<'_>) -> Option<T>,
        mut read: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> Result<Option<T>, String> {
        loop {
            while let Some(op) = self.decoder.next_op().map_err(|error| error.to_string())? {
                if let Some(it) = take(&op) {
                    return Ok(Some(it));
                }
            }
            let Some(count) = read(&mut self.room).map_err(fault)? else {
                return Ok(None);
            };
            self.decoder
                .feed(self.room.get(..count).unwrap_or_default());
        }
    }
}

/// A connection that one thread has. It answers the server's pings while it waits.
pub struct Link {
    stream: Stream,
    bytes: Bytes,
    /// Commands that are not written yet; see [`Self::flush`].
    pub out: Vec<u8>,
    timeout: Duration,
    replies: Box<str>,
    /// Questions so far: each has an answer of its own.
    asked: u64,
}

impl Link {
    pub(crate) fn new(stream: Stream, timeout: Duration, replies: &str) -> Self {
        Self {
            stream,
            bytes: Bytes::new(),
            out: Vec::new(),
            timeout,
            replies: replies.into(),
            asked: 0,
        }
    }

    /// The connection, if nothing was read of it that was not taken.
    pub(crate) fn into_stream(self) -> Option<Stream> {
        self.bytes.decoder.is_empty().then_some(self.stream)
    }

    /// Waits until then for something that `take` wants; nothing if it does not come. What `take`
    /// does not want is forgotten.
    ///
    /// # Errors
    /// The connection cannot be used any more, or NATS refuses something; in words.
    pub fn next<T>(
        &mut self,
        until: Instant,
        mut take: impl FnMut(&Op<'_>) -> Option<T>,
    ) -> Result<Option<T>, String> {
        loop {
            let stream = &mut self.stream;
            let heard = self.bytes.next(
                |op| match op {
                    Op::Ping => Some(Ok(None)),
                    Op::Error(why) => {
                        let why = String::from_utf8_lossy(why);
                        Some(Err(format!("NATS refuses: {why}")))
                    }
                    op => take(op).map(|it| Ok(Some(it))),
                },
                |room| {
                    let left = until.saturating_duration_since(Instant::now());
                    match left.is_zero() {
                        true => Ok(None),
                        false => stream.read_within(left, room),
                    }
                },
            )?;
            match heard.transpose()? {
                None => return Ok(None),
                Some(Some(it)) => return Ok(Some(it)),
                Some(None) => {
                    write::pong(&mut self.out);
                    self.flush()?;
                }
            }
        }
    }

    /// Pings, and gives away messages until the pong; false if that does not come in time.
    ///
    /// # Errors
    /// As of [`Self::next`].
    pub fn ping(
        &mut self,
        wait: Duration,
        mut message: impl FnMut(&Message<'_>),
    ) -> Result<bool, String> {
        write::ping(&mut self.out);
        self.flush()?;
        let pong = self.next(Instant::now() + wait, |op| match op {
            Op::Pong => Some(()),
            Op::Message(it) => {
                message(it);
                None
            }
            _ => None,
        })?;
        Ok(pong.is_some())
    }

    /// Asks JetStream, and waits for the answer's payload. Messages that come meanwhile are given
    /// away.
    ///
    /// # Errors
    /// As of [`Self::next`], or if nobody answers.
    pub fn ask(
        &mut self,
        subject: &str,
        body: &str,
        mut other: impl FnMut(&Message<'_>),
    ) -> Result<Box<[u8]>, String> {
        let replies = self.replies.clone();
        let first = self.asked + 1;
        for _ in 0..ASKED_MAX {
            self.request(&replies, subject, body)?;
            let answer = self.next(Instant::now() + self.timeout / ASKED_MAX, |op| {
                let Op::Message(message) = op else {
                    return None;
                };
                let number = message.subject.strip_prefix(&*replies);
                let number = number.and_then(|number| number.parse::<u64>().ok());
                if number.is_some_and(|number| number >= first) {
                    return Some((message.headers.status(), message.payload.into()));
                }
                other(message);
                None
            });
            match answer? {
                Some((None, payload)) => return Ok(payload),
                Some(_) => return Err("JetStream does not answer; is it enabled?".to_owned()),
                None => {}
            }
        }
        Err(format!("JetStream does not answer {subject}"))
    }

    /// Publishes a request; its answer comes on the subject of `replies` and the number.
    ///
    /// # Errors
    /// As of [`Self::flush`].
    pub fn request(&mut self, replies: &str, subject: &str, body: &str) -> Result<u64, String> {
        let number = self.next_number();
        let reply = format!("{replies}{number}");
        write::publish(&mut self.out, subject, Some(&reply), &[], body.as_bytes());
        self.flush()?;
        Ok(number)
    }

    /// A number for a question.
    pub const fn next_number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// In words.
    pub fn flush(&mut self) -> Result<(), String> {
        let written = self.stream.write_all(&self.out);
        self.out.clear();
        written.map_err(fault)
    }

    /// Splits it into two ends for two threads. From now on a read has no deadline.
    ///
    /// # Errors
    /// In words.
    pub fn split(self) -> Result<(Incoming, Box<dyn Wire>), String> {
        let (reader, writer) = self.stream.split().map_err(fault)?;
        let bytes = self.bytes;
        Ok((Incoming { reader, bytes }, writer))
    }
}

/// The end of a connection that is read.
pub struct Incoming {
    reader: Reader,
    bytes: Bytes,
}

impl Incoming {
    /// Waits until `take` wants something that NATS says. What it does not want is forgotten.
    ///
    /// # Errors
    /// The connection cannot be used any more, in words.
    pub fn next<T>(&mut self, take: impl FnMut(&Op<'_>) -> Option<T>) -> Result<T, String> {
        let reader = &mut self.reader;
        let next = self.bytes.next(take, |room| match reader.read(room)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(Some(count)),
        })?;
        next.ok_or_else(|| LATE.to_owned())
    }

    /// Ends the connection.
    pub fn shut_down(&self) {
        self.reader.shut_down();
    }
}

#[cfg(test)]
mod tests;
