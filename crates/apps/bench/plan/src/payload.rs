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
mod tests {
    use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    /// Appends TCPKali's marker for a wall-clock time in µs.
    fn encode_tcpkali(unix_us: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(TCPKALI_MAGIC);
        for shift in (0..16).rev() {
            out.push(HEX[(unix_us >> (shift * 4)) as usize & 15]);
        }
        out.push(b'.');
    }

    fn message(sequence: u64) -> Message {
        Message {
            publisher: 3,
            channel: 999,
            sequence,
            due_us: 1_234_567_890,
        }
    }

    fn encoded(message: Message, size_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(size_bytes, &mut out).unwrap();
        out
    }

    fn all_in(frame: &[u8]) -> Vec<ScanMatch> {
        let mut found = Vec::new();
        Scanner::new(true).scan_frame(frame, |one| found.push(one));
        found
    }

    /// Feeds `wire` in two parts cut at every place, as a connection would.
    #[track_caller]
    fn check_splits(wire: &[u8], expected: usize) {
        let scanner = Scanner::new(true);
        for cut in 0..=wire.len() {
            let mut count = 0;
            let (head, tail) = wire.split_at(cut);
            let keep = scanner.scan_stream(head, |_| count += 1);
            assert!(keep <= CARRY_BYTES_MAX);
            let mut next = head[head.len() - keep..].to_vec();
            next.extend_from_slice(tail);
            scanner.scan_stream(&next, |_| count += 1);
            assert_eq!(count, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_message_has_the_asked_size_and_only_plain_characters() {
        for size in [MESSAGE_BYTES_MIN, MESSAGE_BYTES_MIN + 1, 512, 70_000] {
            let bytes = encoded(message(1), size);
            assert_eq!(bytes.len(), size);
            assert!(
                bytes
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte))
            );
        }
    }

    #[test]
    fn sizes_and_fields_out_of_bounds_are_refused() {
        let mut out = Vec::new();
        for (size, error) in [
            (0, PayloadError::TooShort(0)),
            (
                MESSAGE_BYTES_MIN - 1,
                PayloadError::TooShort(MESSAGE_BYTES_MIN - 1),
            ),
            (
                MESSAGE_BYTES_MAX + 1,
                PayloadError::TooLong(MESSAGE_BYTES_MAX + 1),
            ),
        ] {
            assert_eq!(message(1).encode(size, &mut out), Err(error));
        }
        assert_eq!(
            message(1 << 48).encode(512, &mut out),
            Err(PayloadError::FieldOverflow)
        );
        assert!(out.is_empty());
    }

    #[test]
    fn it_is_found_in_every_wrapping() {
        let text = String::from_utf8(encoded(message(42), 128)).unwrap();
        for frame in [
            text.clone(),
            format!("data: {text}\n\n"),
            serde_json::json!({"push": {"channel": "a", "pub": {"data": text}}}).to_string(),
            serde_json::json!({"nested": serde_json::json!({"d": text}).to_string()}).to_string(),
            format!("TB1-TB1-{text}"),
            format!("TB1-{}{text}", "0".repeat(80)),
        ] {
            let found = all_in(frame.as_bytes());
            assert_eq!(found.len(), 1, "{frame}");
            assert!(matches!(
                found[0],
                ScanMatch::Message { message: m, length: 128, .. } if m == message(42)
            ));
            assert!(found[0].is_whole_in(frame.as_bytes()));
        }
    }

    #[test]
    fn a_truncated_or_altered_body_is_not_whole() {
        let mut bytes = encoded(message(1), 100);
        let found = all_in(&bytes)[0];
        assert!(found.is_whole_in(&bytes));
        assert!(!found.is_whole_in(&bytes[..99]));
        bytes[99] = b'x';
        assert!(!found.is_whole_in(&bytes));
    }

    #[test]
    fn an_altered_field_is_not_a_message() {
        let bytes = encoded(message(1), MESSAGE_BYTES_MIN);
        for at in 0..bytes.len() - 1 {
            let mut altered = bytes.clone();
            altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
            assert!(all_in(&altered).is_empty(), "altered at {at}");
        }
    }

    #[test]
    fn streams_may_be_cut_anywhere() {
        let mut wire = b"event: x\ndata: ".to_vec();
        wire.extend(encoded(message(1), 80));
        wire.extend_from_slice(b"\n\nT TB TB1 TB1-TCPKali");
        encode_tcpkali(1_600_000_000_000_000, &mut wire);
        wire.extend(encoded(message(2), MESSAGE_BYTES_MIN));
        check_splits(&wire, 3);
        check_splits(b"nothing to see TCPKaliMsgTS-00 TB1-00", 0);
    }

    #[test]
    fn tcpkali_markers_are_read_only_when_asked() {
        let mut wire = Vec::new();
        encode_tcpkali(0x0005_b2d0_1234_abcd, &mut wire);
        assert_eq!(wire, b"TCPKaliMsgTS-0005b2d01234abcd.");
        assert_eq!(
            all_in(&wire),
            [ScanMatch::Tcpkali {
                unix_us: 0x0005_b2d0_1234_abcd
            }]
        );
        let mut count = 0;
        Scanner::new(false).scan_frame(&wire, |_| count += 1);
        assert_eq!(count, 0);
    }

    proptest! {
        #[test]
        fn every_message_comes_back(
            publisher: u32,
            channel: u32,
            sequence in 0_u64..1 << 48, due_us in 0_u64..1 << 52, extra in 0_usize..2000,
        ) {
            let message = Message { publisher, channel, sequence, due_us };
            let bytes = encoded(message, MESSAGE_BYTES_MIN + extra);
            let found = all_in(&bytes);
            prop_assert_eq!(found.len(), 1);
            let length = bytes.len();
            prop_assert_eq!(found[0], ScanMatch::Message { message, start: 0, length });
        }

        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'T'), Just(b'B'), Just(b'1'), Just(b'-'), any::<u8>()], 0..300
            ),
        ) {
            let keep = Scanner::new(true).scan_stream(&bytes, |_| ());
            prop_assert!(keep <= CARRY_BYTES_MAX && keep <= bytes.len());
        }
    }
}
