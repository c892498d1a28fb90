//! Bodies, decoded as they come (RFC 9112 sections 6 and 7.1).
//!
//! Owns: where a body ends and which of its bytes are data. Never: keeps data.
//!
//! Invariants
//! - The state moves byte by byte except inside data, so faults and data do not
//!   depend on how the input was cut.
//! - The data handed out, and the size of the chunk that is open, never exceed the limit.

#[cfg(test)]
mod tests;

use throng_types::{Save, hex_value};

use crate::head::is_token;
use crate::{BadBody, Body, HttpLimits, ResponseBody};

/// Bytes of chunk extensions and trailers that a whole body may have. They are
/// read past and mean nothing, so a body that consists of them is an attack.
const FRAMING_BYTES_MAX: u16 = 16 * 1024;

/// Digits of a chunk's size, leading zeros included: enough for a `u64`.
const SIZE_DIGITS_MAX: u8 = 16;

/// Result of one call of [`BodyDecoder::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyStep<'i> {
    /// The next data of the body; may be empty.
    pub data: &'i [u8],
    /// Bytes of the input that are dealt with, the data included.
    pub consumed: usize,
    /// True if the body has ended: what follows `consumed` belongs to the next message.
    pub done: bool,
}

/// Finds the data of one body in the bytes that follow its head.
#[derive(Clone, Debug, Save)]
#[save(check = Self::is_sound)]
pub struct BodyDecoder {
    /// Data bytes outstanding: of the open chunk, or of the body if its length is known.
    /// While a size is read, what its digits amount to so far.
    open_bytes: u64,
    /// Data bytes that later chunks may still have.
    budget_bytes: u64,
    framing_bytes_left: u16,
    size_digits: u8,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
enum State {
    /// Data of a body with a length.
    Length,
    /// Data until the connection ends.
    UntilClose,
    /// Digits of a chunk's size.
    Size,
    /// White space between the size and an extension.
    SizeSpace,
    Extension,
    /// The line of the size has had its CR.
    SizeLf,
    Chunk,
    ChunkCr,
    ChunkLf,
    /// The first byte of a trailer, or of the empty line that ends the body.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
    /// Its connection is ended.
    #[save(skip)]
    Failed(BadBody),
}

impl BodyDecoder {
    #[must_use]
    pub fn new(body: Body, limits: &HttpLimits) -> Self {
        let (state, open_bytes) = match body {
            Body::None | Body::Length(0) => (State::Done, 0),
            Body::Length(length) => (State::Length, length),
            Body::Chunked => (State::Size, 0),
        };
        Self::in_state(state, open_bytes, limits)
    }

    #[must_use]
    pub fn for_response(body: ResponseBody, limits: &HttpLimits) -> Self {
        let body = match body {
            ResponseBody::UntilClose => return Self::in_state(State::UntilClose, 0, limits),
            ResponseBody::None => Body::None,
            ResponseBody::Length(length) => Body::Length(length),
            ResponseBody::Chunked => Body::Chunked,
        };
        Self::new(body, limits)
    }

    fn in_state(state: State, open_bytes: u64, limits: &HttpLimits) -> Self {
        let mut decoder = Self {
            open_bytes,
            budget_bytes: limits.body_bytes_max,
            framing_bytes_left: FRAMING_BYTES_MAX,
            size_digits: 0,
            state,
        };
        if limits.body_bytes_max < open_bytes {
            decoder.state = State::Failed(BadBody::TooLarge);
        }
        decoder
    }

    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Tells whether the last chunk was read, and what follows are trailer fields or the end.
    #[must_use]
    pub fn is_at_trailers(&self) -> bool {
        self.state == State::TrailerStart
    }

    /// Tells whether the body is whole if the connection ends now.
    #[must_use]
    pub fn may_end_here(&self) -> bool {
        matches!(self.state, State::Done | State::UntilClose)
    }

    /// Takes the next bytes. Answers at most one run of data, and stops behind the last chunk, so
    /// call it again with what it did not consume until that is empty or the body is done. A call
    /// with input before the end consumes at least one byte.
    ///
    /// # Errors
    /// A [`BadBody`]; every later call answers the same.
    pub fn feed<'i>(&mut self, input: &'i [u8]) -> Result<BodyStep<'i>, BadBody> {
        let step = self.step(input);
        if let Err(fault) = step {
            self.state = State::Failed(fault);
        }
        step
    }

    fn step<'i>(&mut self, input: &'i [u8]) -> Result<BodyStep<'i>, BadBody> {
        let mut at = 0;
        while at < input.len() {
            match self.state {
                State::Length | State::Chunk | State::UntilClose => {
                    let data = self.take_data(&input[at..])?;
                    let consumed = at + data.len();
                    return Ok(self.answer(data, consumed));
                }
                State::Done => break,
                State::Failed(fault) => return Err(fault),
                was => {
                    self.state = self.framing_byte(input[at])?;
                    if was == State::SizeLf && self.is_at_trailers() {
                        return Ok(self.answer(&[], at + 1));
                    }
                }
            }
            at += 1;
        }
        if let State::Failed(fault) = self.state {
            return Err(fault);
        }
        Ok(self.answer(&[], at))
    }

    fn answer<'i>(&self, data: &'i [u8], consumed: usize) -> BodyStep<'i> {
        BodyStep {
            data,
            consumed,
            done: self.is_done(),
        }
    }

    fn take_data<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], BadBody> {
        let counter = match self.state {
            State::UntilClose => &mut self.budget_bytes,
            _ => &mut self.open_bytes,
        };
        let length = usize::try_from(*counter).map_or(input.len(), |open| open.min(input.len()));
        *counter -= length as u64;
        match self.state {
            // Nothing declared this length, so the byte past the limit is the first sign of it.
            State::UntilClose if length == 0 => return Err(BadBody::TooLarge),
            State::Length if self.open_bytes == 0 => self.state = State::Done,
            State::Chunk if self.open_bytes == 0 => self.state = State::ChunkCr,
            _ => {}
        }
        Ok(&input[..length])
    }

    /// The state after one byte that is not data.
    fn framing_byte(&mut self, byte: u8) -> Result<State, BadBody> {
        match (self.state, byte) {
            (State::Size, _) => self.size_byte(byte),
            (State::SizeSpace, b' ' | b'\t') => self.spend(State::SizeSpace),
            (State::SizeSpace, b';') => self.spend(State::Extension),
            (State::SizeSpace, _) => Err(BadBody::ChunkSize),
            (State::Extension, b'\r') => Ok(State::SizeLf),
            (State::Extension, _) if is_field_byte(byte) => self.spend(State::Extension),
            (State::SizeLf, b'\n') => Ok(self.size_end()),
            (State::ChunkCr, b'\r') => Ok(State::ChunkLf),
            (State::ChunkLf, b'\n') => Ok(State::Size),
            (State::ChunkCr | State::ChunkLf, _) => Err(BadBody::ChunkEnd),
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::TrailerStart | State::TrailerName, _) if is_token(byte) => {
                self.spend(State::TrailerName)
            }
            (State::TrailerName, b':') => self.spend(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) => Err(BadBody::Trailer),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, _) if is_field_byte(byte) => self.spend(State::TrailerValue),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::LastLf, b'\n') => Ok(State::Done),
            _ => Err(BadBody::LineEnd),
        }
    }

    fn size_byte(&mut self, byte: u8) -> Result<State, BadBody> {
        if let Some(digit) = hex_value(byte) {
            if self.size_digits == SIZE_DIGITS_MAX {
                return Err(BadBody::ChunkSize);
            }
            self.size_digits += 1;
            self.open_bytes = self.open_bytes << 4 | u64::from(digit);
            if self.budget_bytes < self.open_bytes {
                return Err(BadBody::TooLarge);
            }
            return Ok(State::Size);
        }
        match byte {
            _ if self.size_digits == 0 => Err(BadBody::ChunkSize),
            b'\r' => Ok(State::SizeLf),
            b';' => self.spend(State::Extension),
            b' ' | b'\t' => self.spend(State::SizeSpace),
            _ => Err(BadBody::ChunkSize),
        }
    }

    fn size_end(&mut self) -> State {
        self.size_digits = 0;
        self.budget_bytes -= self.open_bytes;
        if self.open_bytes == 0 {
            State::TrailerStart
        } else {
            State::Chunk
        }
    }

    /// Whether what was loaded can go on.
    fn is_sound(&self) -> bool {
        // A size has been checked against the budget as far as it was read.
        let is_size = matches!(
            self.state,
            State::Size | State::SizeSpace | State::Extension | State::SizeLf
        );
        // Data of which nothing is outstanding has ended.
        let is_data = matches!(self.state, State::Length | State::Chunk);
        self.size_digits <= SIZE_DIGITS_MAX
            && (!is_size || self.open_bytes <= self.budget_bytes)
            && (!is_data || self.open_bytes > 0)
    }

    fn spend(&mut self, next: State) -> Result<State, BadBody> {
        match self.framing_bytes_left.checked_sub(1) {
            None => Err(BadBody::FramingTooLarge),
            Some(left) => {
                self.framing_bytes_left = left;
                Ok(next)
            }
        }
    }
}

/// A byte of a field value (RFC 9110 section 5.5).
fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | 0x20..=0x7e | 0x80..)
}
