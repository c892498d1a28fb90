//! Events, decoded as the stream comes, in the client's role.
//!
//! Owns: the stream's line, the event being built, the last event id. Never: hands out an
//! event before the empty line that dispatches it; an unfinished event at the end of
//! a stream is lost, as the standard wants.
//!
//! Invariants
//! - The unfinished line and the unfinished event stay within their limits.
//! - Events and faults do not depend on how the stream was cut.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Buffers that grew past this many bytes are given back after the event that needed them,
/// so that many idle decoders stay small.
const KEEP_BYTES_MAX: usize = 4 * 1024;

/// Bounds of what a decoder keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLimits {
    /// Bytes of one line without its end.
    pub line_bytes_max: usize,
    /// Bytes of one event's data, each line counted with its end.
    pub event_bytes_max: usize,
}

impl Default for DecoderLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 1024 * 1024,
            event_bytes_max: 4 * 1024 * 1024,
        }
    }
}

/// Why a stream was given up. The server is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStream {
    /// A line is longer than it may be.
    LineTooLong,
    /// The data of an event are longer than they may be.
    EventTooLarge,
}

impl fmt::Display for BadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "a line of the event stream is too long",
            Self::EventTooLarge => "the data of an event are too large",
        })
    }
}

impl std::error::Error for BadStream {}

/// One event, borrowed from the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedEvent<'a> {
    /// The last event id of the stream when this event came; it may be from an earlier event.
    pub id: &'a str,
    /// The event's name; `message` if it had none.
    pub event: &'a str,
    /// The data as they came, their lines joined with LF.
    pub data: &'a [u8],
    /// The wait before reconnecting that the stream has asked for last, in milliseconds.
    pub retry_ms: Option<u64>,
}

impl DecodedEvent<'_> {
    /// The data as text; what is not UTF-8 becomes U+FFFD, as in browsers.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.data)
    }
}

/// Finds the events in a stream.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    limits: DecoderLimits,
    /// The line that has not ended yet; empty while lines come whole.
    line: Vec<u8>,
    /// The data so far, each line with an LF.
    data: Vec<u8>,
    event: String,
    /// The id that the next dispatch makes the last one.
    next_id: String,
    last_id: String,
    retry_ms: Option<u64>,
    after_cr: bool,
    past_first_line: bool,
    fault: Option<BadStream>,
}

impl Decoder {
    /// A decoder for a stream from its beginning.
    #[must_use]
    pub fn new(limits: DecoderLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A decoder for the stream that follows a reconnect, which goes on with the id of the one
    /// before (see [`Decoder::last_event_id`]).
    #[must_use]
    pub fn resumed(limits: DecoderLimits, last_event_id: &str) -> Self {
        Self {
            next_id: last_event_id.to_owned(),
            last_id: last_event_id.to_owned(),
            ..Self::new(limits)
        }
    }

    /// What `Last-Event-ID` has to say after a reconnect; empty if there is nothing to say.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// How long the stream has asked to wait before a reconnect, in milliseconds.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next bytes of the stream and reports each event that they complete.
    ///
    /// # Errors
    /// A [`BadStream`]; every later call answers the same. Events before the fault
    /// have been reported.
    pub fn feed(
        &mut self,
        input: &[u8],
        mut on_event: impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), BadStream> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let result = self.take(input, &mut on_event);
        self.fault = result.err();
        result
    }

    fn take(
        &mut self,
        mut input: &[u8],
        on_event: &mut impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), BadStream> {
        loop {
            if self.after_cr && !input.is_empty() {
                self.after_cr = false;
                input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let end = memchr2(b'\r', b'\n', input);
            let part = &input[..end.unwrap_or(input.len())];
            if self.limits.line_bytes_max - self.line.len() < part.len() {
                return Err(BadStream::LineTooLong);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_cr = input[end] == b'\r';
            input = &input[end + 1..];
            if self.line.is_empty() {
                self.line(part, on_event)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.line(&line, on_event)?;
                line.clear();
                line.shrink_to(KEEP_BYTES_MAX);
                self.line = line;
            }
        }
    }

    /// One line without its end.
    fn line(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(DecodedEvent<'_>),
    ) -> Result<(), BadStream> {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(on_event);
            return Ok(());
        }
        let (name, value) = line.split_at(memchr(b':', line).unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        self.field(name, value.strip_prefix(b" ").unwrap_or(value))
    }

    /// A comment has an empty name, and is ignored like every other unknown field.
    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadStream> {
        match name {
            b"data" => {
                if self.limits.event_bytes_max - self.data.len() <= value.len() {
                    return Err(BadStream::EventTooLarge);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => replace(&mut self.event, value),
            b"id" if !value.contains(&0) => replace(&mut self.next_id, value),
            b"retry" => self.retry_ms = milliseconds(value).or(self.retry_ms),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(DecodedEvent<'_>)) {
        // The id counts even if no event comes of it.
        if self.last_id != self.next_id {
            self.last_id.clone_from(&self.next_id);
        }
        if let Some((_, data)) = self.data.split_last() {
            on_event(DecodedEvent {
                id: &self.last_id,
                event: match self.event.as_str() {
                    "" => "message",
                    name => name,
                },
                data,
                retry_ms: self.retry_ms,
            });
        }
        self.data.clear();
        self.data.shrink_to(KEEP_BYTES_MAX);
        self.event.clear();
        self.event.shrink_to(KEEP_BYTES_MAX);
    }
}

fn replace(text: &mut String, value: &[u8]) {
    text.clear();
    text.push_str(&String::from_utf8_lossy(value));
}

/// Decimal digits alone, at least one; a number too large for any clock is ignored like other
/// nonsense.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
