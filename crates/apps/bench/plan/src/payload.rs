//! Measured message: its sender, its position in the channel, its due time.
//!
//! Owns: the layout of the message and finding it again. Never: reads a clock, keeps bytes of a
//! connection.
//!
//! The layout is ASCII that no text format escapes (letters, digits, `-`, `.`), so a message
//! survives being a JSON string, an SSE `data:` line, a URL or a bare frame, and is
//! found again in anything that a server wraps around it:
//!
//! ```text
//! TB1-pppppppp-cccccccc-ssssssssssss-ttttttttttttt-llllll-kkkk-...
//!     publisher channel  sequence     due in µs     length check padding
//! ```
//!
//! All fields are lower-case hexadecimal of fixed width. The check covers the fields before it, so
//! that a lookalike in somebody's text is not counted as a delivery. The marker of TCPKali
//! (`TCPKaliMsgTS-`, 16 hexadecimal digits of wall-clock µs, `.`) is found too, since any publisher
//! may emit it.
//!
//! Invariants
//! - A message is as long as was asked, and never shorter than [`MESSAGE_BYTES_MIN`].
//! - Scanning a stream cut anywhere finds the same messages as scanning it whole.

use memchr::memmem::Finder;

/// Length of the shortest message: all fields and no padding.
pub const MESSAGE_BYTES_MIN: usize = MAGIC.len() + FIELDS_BYTES;

/// Length of the longest message that the length field can name.
pub const MESSAGE_BYTES_MAX: usize = 0xff_ffff;

/// Most bytes that the scanner must be shown again: one less than the longest head it looks for.
pub const CARRY_BYTES_MAX: usize = MESSAGE_BYTES_MIN - 1;

const MAGIC: &[u8] = b"TB1-";
const PADDING: u8 = b'.';
/// Digits of each field, in order; each is followed by one `-`.
const WIDTHS: [usize; 6] = [8, 8, 12, 13, 6, 4];
const FIELDS_BYTES: usize = 8 + 8 + 12 + 13 + 6 + 4 + WIDTHS.len();
const TCPKALI_MAGIC: &[u8] = b"TCPKaliMsgTS-";
const TCPKALI_BYTES: usize = TCPKALI_MAGIC.len() + 16 + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Publisher that sent it; sequences are counted per channel and publisher.
    pub publisher: u32,
    pub channel: u32,
    /// Rises by one with each message of this publisher to this channel; the first is 1. 48 bits.
    pub sequence: u64,
    /// Due time in µs of the clock that the run shares. 52 bits.
    pub due_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error(
        "a measured message needs at least {MESSAGE_BYTES_MIN} bytes (sequence, stamp, check); \
         {0} were asked for"
    )]
    TooShort(usize),
    #[error("a measured message has at most {MESSAGE_BYTES_MAX} bytes; {0} were asked for")]
    TooLong(usize),
    #[error("the sequence number or the time stamp has outgrown the message's fields")]
    FieldOverflow,
}

pub const fn check_size(size_bytes: usize) -> Result<(), PayloadError> {
    if size_bytes < MESSAGE_BYTES_MIN {
        return Err(PayloadError::TooShort(size_bytes));
    }
    if size_bytes > MESSAGE_BYTES_MAX {
        return Err(PayloadError::TooLong(size_bytes));
    }
    Ok(())
}

impl Message {
    /// Appends the message, padded to exactly `size_bytes`.
    pub fn encode(&self, size_bytes: usize, out: &mut Vec<u8>) -> Result<(), PayloadError> {
        check_size(size_bytes)?;
        if self.sequence >> 48 != 0 || self.due_us >> 52 != 0 {
            return Err(PayloadError::FieldOverflow);
        }
        let start = out.len();
        out.extend_from_slice(MAGIC);
        let fields = [
            u64::from(self.publisher),
            u64::from(self.channel),
            self.sequence,
            self.due_us,
            size_bytes as u64,
        ];
        for (value, width) in fields.into_iter().zip(WIDTHS) {
            push_hex(out, value, width);
        }
        let check = check_of(&out[start..]);
        push_hex(out, check, WIDTHS[5]);
        out.resize(start + size_bytes, PADDING);
        Ok(())
    }

    /// Reads the fields at the start of `bytes`; the padding may not have arrived yet.
    fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut fields = [0_u64; WIDTHS.len()];
        for (field, width) in fields.iter_mut().zip(WIDTHS) {
            *field = parse_hex(rest.get(..width)?)?;
            rest = rest.get(width..)?.strip_prefix(b"-")?;
        }
        let [publisher, channel, sequence, due_us, length, check] = fields;
        let covered = MESSAGE_BYTES_MIN - WIDTHS[5] - 1;
        if check_of(bytes.get(..covered)?) != check || (length as usize) < MESSAGE_BYTES_MIN {
            return None;
        }
        let message = Self {
            publisher: u32::try_from(publisher).ok()?,
            channel: u32::try_from(channel).ok()?,
            sequence,
            due_us,
        };
        Some((message, length as usize))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMatch {
    Message {
        message: Message,
        /// Offset of its first byte in the scanned bytes.
        start: usize,
        length: usize,
    },
    Tcpkali {
        /// Stamp in µs of the sender's wall clock.
        unix_us: u64,
    },
}

impl ScanMatch {
    /// Returns true if the message lies entirely in the scanned `bytes`, with its padding
    /// untouched. Only for whole frames: a stream may not have brought the padding yet.
    pub fn is_whole_in(&self, bytes: &[u8]) -> bool {
        match *self {
            Self::Tcpkali { .. } => true,
            Self::Message { start, length, .. } => bytes
                .get(start + MESSAGE_BYTES_MIN..start + length)
                .is_some_and(|padding| padding.iter().all(|&byte| byte == PADDING)),
        }
    }
}

/// Finder of messages in the bytes of a server. Built once and shared by every connection.
#[derive(Debug)]
pub struct Scanner {
    ours: Finder<'static>,
    tcpkali: Option<Finder<'static>>,
}

impl Scanner {
    /// Makes a scanner for measured messages, and for TCPKali's markers if they are wanted.
    pub fn new(tcpkali: bool) -> Self {
        Self {
            ours: Finder::new(MAGIC),
            tcpkali: tcpkali.then(|| Finder::new(TCPKALI_MAGIC)),
        }
    }

    /// Reports every message in a whole frame.
    pub fn scan_frame(&self, frame: &[u8], mut on: impl FnMut(ScanMatch)) {
        self.scan(frame, &mut on);
    }

    /// Reports every message whose fields lie in `bytes`, and returns how many of the last bytes
    /// may be the start of another.
    ///
    /// The caller keeps these (at most [`CARRY_BYTES_MAX`], mostly none) and puts them before
    /// the bytes that come next.
    pub fn scan_stream(&self, bytes: &[u8], mut on: impl FnMut(ScanMatch)) -> usize {
        let done = self.scan(bytes, &mut on);
        let tail_from = done.max(bytes.len().saturating_sub(CARRY_BYTES_MAX));
        let tail = bytes.get(tail_from..).unwrap_or_default();
        (0..tail.len())
            .find(|&at| self.may_begin(&tail[at..]))
            .map_or(0, |at| tail.len() - at)
    }

    /// Reports in order of place, and returns the end of the last head found.
    fn scan(&self, bytes: &[u8], on: &mut impl FnMut(ScanMatch)) -> usize {
        let mut at = 0;
        while let Some((start, is_ours)) = self.next_candidate(bytes, at) {
            let head = bytes.get(start..).unwrap_or_default();
            let (found, head_bytes) = if is_ours {
                (found_message(head, start), MESSAGE_BYTES_MIN)
            } else {
                (found_tcpkali(head), TCPKALI_BYTES)
            };
            match found {
                Some(found) => {
                    on(found);
                    at = start + head_bytes;
                }
                // A lookalike or a head that is cut: the next candidate may begin one byte later.
                None => {
                    if head.len() < head_bytes {
                        return start;
                    }
                    at = start + 1;
                }
            }
        }
        at.min(bytes.len())
    }

    fn next_candidate(&self, bytes: &[u8], from: usize) -> Option<(usize, bool)> {
        let rest = bytes.get(from..)?;
        let ours = self.ours.find(rest).map(|at| (from + at, true));
        let theirs = self.tcpkali.as_ref().and_then(|finder| finder.find(rest));
        let theirs = theirs.map(|at| (from + at, false));
        match (ours, theirs) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns true if a message could begin with these bytes, which end where the input ends.
    fn may_begin(&self, tail: &[u8]) -> bool {
        let cut = |magic: &[u8], head_bytes: usize| {
            tail.len() < head_bytes && tail.iter().zip(magic).all(|(a, b)| a == b)
        };
        cut(MAGIC, MESSAGE_BYTES_MIN) || self.tcpkali.is_some() && cut(TCPKALI_MAGIC, TCPKALI_BYTES)
    }
}

fn found_message(head: &[u8], start: usize) -> Option<ScanMatch> {
    let (message, length) = Message::decode(head)?;
    Some(ScanMatch::Message {
        message,
        start,
        length,
    })
}

fn found_tcpkali(head: &[u8]) -> Option<ScanMatch> {
    let rest = head.strip_prefix(TCPKALI_MAGIC)?;
    let unix_us = parse_hex(rest.get(..16)?)?;
    (rest.get(16) == Some(&b'.')).then_some(ScanMatch::Tcpkali { unix_us })
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn push_hex(out: &mut Vec<u8>, value: u64, width: usize) {
    for digit in (0..width).rev() {
        out.push(HEX[(value >> (digit * 4)) as usize & 15]);
    }
    out.push(b'-');
}

/// Reads lower and upper case, since TCPKali's publishers may write either.
fn parse_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// Folds FNV-1a to 16 bits: one lookalike in 65,536 would pass, and lookalikes are rare already.
fn check_of(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    u64::from((hash >> 16) ^ (hash & 0xffff))
}

#[cfg(test)]
mod tests;
