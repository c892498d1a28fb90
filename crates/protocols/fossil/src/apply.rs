//! Makes a text of its base and a delta.

use throng_types::{coded_enum, error_text};

coded_enum! {
    /// Fault of a delta.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DeltaError {
        /// Sentence for the log.
        fn reason;
        /// The delta ends before its end is said.
        Short = "the delta ends too early";
        /// A number is missing, or larger than 32 bits.
        Number = "the delta lacks a number where one belongs";
        /// There is no such command.
        Command = "the delta has an unknown command";
        /// The delta copies bytes that the base does not have.
        Base = "the delta copies more than its base has";
        /// The delta makes more or less than it says, or more than the limit.
        Length = "the delta makes another length than it says";
        /// The result has another checksum: the base was another one.
        Checksum = "the delta's checksum does not match: its base was another one";
    }
}

error_text!(DeltaError.reason);

/// Reads a delta from its start to its end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, DeltaError> {
        let (first, rest) = self.0.split_first().ok_or(DeltaError::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number, and the byte behind it.
    fn number(&mut self) -> Result<(u32, u8), DeltaError> {
        let mut number: Option<u32> = None;
        loop {
            let byte = self.byte()?;
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'A'..=b'Z' => byte - b'A' + 10,
                b'_' => 36,
                b'a'..=b'z' => byte - b'a' + 37,
                b'~' => 63,
                _ => {
                    return number
                        .map(|number| (number, byte))
                        .ok_or(DeltaError::Number);
                }
            };
            let higher = number
                .unwrap_or(0)
                .checked_mul(64)
                .ok_or(DeltaError::Number)?;
            number = Some(higher | u32::from(digit));
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DeltaError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DeltaError::Short)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Applies a delta to its base; the result has at most `bytes_max` bytes.
///
/// # Errors
/// What is wrong with it.
pub fn apply(base: &[u8], delta: &[u8], bytes_max: usize) -> Result<Vec<u8>, DeltaError> {
    let mut delta = Reader(delta);
    let (length, end) = delta.number()?;
    let length = length as usize;
    if end != b'\n' || length > bytes_max {
        return Err(DeltaError::Length);
    }
    let mut made = Vec::new();
    loop {
        let (number, command) = delta.number()?;
        let count = number as usize;
        let piece = match command {
            b'@' => {
                let (place, end) = delta.number()?;
                if end != b',' {
                    return Err(DeltaError::Command);
                }
                let found = base
                    .get(place as usize..)
                    .and_then(|rest| rest.get(..count));
                found.ok_or(DeltaError::Base)?
            }
            b':' => delta.take(count)?,
            b';' if made.len() != length => return Err(DeltaError::Length),
            b';' if sum(&made) != number => return Err(DeltaError::Checksum),
            b';' => return Ok(made),
            _ => return Err(DeltaError::Command),
        };
        if made.len() + piece.len() > length {
            return Err(DeltaError::Length);
        }
        made.extend_from_slice(piece);
    }
}

/// Each byte counts by its place in its four.
fn sum(made: &[u8]) -> u32 {
    let mut sum = 0_u32;
    for (at, byte) in made.iter().enumerate() {
        sum = sum.wrapping_add(u32::from(*byte) << (24 - 8 * (at % 4)));
    }
    sum
}
