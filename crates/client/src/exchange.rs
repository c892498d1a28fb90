//! One HTTP request and its answer over a connection that blocks; the answer's body may never end.
//!
//! Owns: the connection, and the part of the body that came with the head. Never: opens a socket,
//! sets its timeouts, retries, follows redirects, or judges a status.

use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;

use throng_http1::HttpLimits;

use crate::response::{ResponseEvent, ResponseReadError, ResponseReader};

const READ_BYTES: usize = 16 * 1024;

/// Streams have no end, and no limit of ours.
const LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 64 * 1024,
    headers_max: 128,
    body_bytes_max: u64::MAX,
};

/// Reason why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The connection broke or timed out.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The answer is not HTTP as we know it, or ended in the middle.
    #[error(transparent)]
    Answer(#[from] ResponseReadError),
}

/// Answer whose head has arrived, and the connection that brings its body.
pub struct IncomingResponse<S> {
    pub status: u16,
    /// Names and values; a value that is not UTF-8 is empty.
    headers: Vec<(String, String)>,
    stream: S,
    reader: ResponseReader,
    /// Part of the body that came with the head.
    early: Vec<u8>,
    done: bool,
}

impl<S: Read + Write> IncomingResponse<S> {
    /// Sends an encoded request (`throng_http1::encode_request`), and waits for the answer's head.
    pub fn send(stream: S, request: &[u8]) -> Result<Self, ExchangeError> {
        let mut exchange = Self {
            status: 0,
            headers: Vec::new(),
            stream,
            reader: ResponseReader::new(LIMITS),
            early: Vec::new(),
            done: false,
        };
        // A server that refuses a large body may answer and close before it has read all of it,
        // so the answer counts for more than the error.
        let sent = exchange.stream.write_all(request);
        match (exchange.read_head(), sent) {
            (
                Err(ExchangeError::Io(_) | ExchangeError::Answer(ResponseReadError::Ended)),
                Err(error),
            ) => Err(error.into()),
            (read, _) => read.map(|()| exchange),
        }
    }

    fn read_head(&mut self) -> Result<(), ExchangeError> {
        let mut early = Vec::new();
        while self.status == 0 {
            self.fill(|data| early.extend_from_slice(data))?;
        }
        self.early = early;
        Ok(())
    }

    /// Reads once, and hands over the bytes of the body that came.
    fn fill(&mut self, mut on_data: impl FnMut(&[u8])) -> Result<(), ExchangeError> {
        let mut bytes = [0; READ_BYTES];
        let count = loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if count == 0 {
            self.done = true;
            self.reader.end()?;
            return match self.status {
                0 => Err(ResponseReadError::Ended.into()),
                _ => Ok(()),
            };
        }
        let (status, headers, done) = (&mut self.status, &mut self.headers, &mut self.done);
        self.reader.feed(&bytes[..count], |event| {
            match event {
                ResponseEvent::Head(response) => {
                    let text = |value| str::from_utf8(value).unwrap_or_default().to_owned();
                    let fields = response.headers();
                    *headers = fields
                        .map(|(name, value)| (name.to_owned(), text(value)))
                        .collect();
                    *status = response.status;
                }
                ResponseEvent::Data(data) => on_data(data),
                ResponseEvent::End => {
                    *done = true;
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Finds the first value of a field, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let (_, value) = fields.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// Returns the media type without parameters, in lower case; empty if there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().to_ascii_lowercase()
    }

    /// Returns the connection, for its options, and to write behind an upgrade.
    pub const fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Reads once and hands over the bytes of the body that came; false at its end.
    pub fn read_some(&mut self, mut on_data: impl FnMut(&[u8])) -> Result<bool, ExchangeError> {
        if !self.early.is_empty() {
            on_data(&std::mem::take(&mut self.early));
        } else if !self.done {
            self.fill(on_data)?;
        }
        Ok(!self.done)
    }

    /// Reads the body, or its first `bytes_max` bytes.
    pub fn read_all(&mut self, bytes_max: usize) -> Result<Vec<u8>, ExchangeError> {
        let mut all = Vec::new();
        while all.len() < bytes_max && self.read_some(|data| all.extend_from_slice(data))? {}
        all.truncate(bytes_max);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that takes everything and gives one piece after the other.
    struct Peer(Vec<&'static [u8]>);

    impl Read for Peer {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.pop().unwrap_or_default();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_is_read_in_pieces_and_to_its_bound() {
        let pieces: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Type: Text/Plain; x=y\r\nContent-Length: 7\r\n",
            b"\r\nabc",
            b"defg",
        ];
        let open =
            || IncomingResponse::send(Peer(pieces.into_iter().rev().collect()), b"GET").unwrap();
        let mut whole = open();
        assert_eq!(
            (whole.status, whole.media_type()),
            (200, "text/plain".into())
        );
        assert_eq!(whole.header("CONTENT-LENGTH"), Some("7"));
        assert_eq!(whole.read_all(100).unwrap(), b"abcdefg");
        assert!(!whole.read_some(|_| ()).unwrap());
        assert_eq!(open().read_all(5).unwrap(), b"abcde");
    }

    #[test]
    fn an_end_in_the_middle_is_an_error() {
        let ended = |error| matches!(error, ExchangeError::Answer(ResponseReadError::Ended));
        assert!(ended(
            IncomingResponse::send(Peer(vec![]), b"GET").err().unwrap()
        ));
        let cut = Peer(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]);
        let mut cut = IncomingResponse::send(cut, b"GET").unwrap();
        assert!(ended(cut.read_all(100).unwrap_err()));
    }
}
