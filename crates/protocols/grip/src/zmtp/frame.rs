//! Frames: a byte of flags, a length of one or eight bytes, a body.

use super::fault::ZmtpFault;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What stands before a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// A command, not a part of a message.
    pub is_command: bool,
    /// Another part of the same message follows.
    pub has_more: bool,
    /// Bytes of the body, as declared.
    pub bytes: u64,
}

/// A whole frame; the body borrows the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'b> {
    /// A command, not a part of a message.
    pub is_command: bool,
    /// Another part of the same message follows.
    pub has_more: bool,
    /// The body.
    pub body: &'b [u8],
}

impl FrameHead {
    /// Reads a head; None if it is not whole yet. The second value is how many bytes it has.
    pub fn decode(input: &[u8]) -> Result<Option<(Self, usize)>, ZmtpFault> {
        let Some((&flags, rest)) = input.split_first() else {
            return Ok(None);
        };
        let is_command = flags & COMMAND != 0;
        let has_more = flags & MORE != 0;
        // A command is never followed by more (RFC 23, section "Framing").
        if flags & !(MORE | LONG | COMMAND) != 0 || is_command && has_more {
            return Err(ZmtpFault::BadFlags);
        }
        let (bytes, head_bytes) = if flags & LONG == 0 {
            match rest.first() {
                Some(&length) => (u64::from(length), 2),
                None => return Ok(None),
            }
        } else {
            match rest.first_chunk::<8>() {
                Some(length) => (u64::from_be_bytes(*length), 9),
                None => return Ok(None),
            }
        };
        Ok(Some((
            Self {
                is_command,
                has_more,
                bytes,
            },
            head_bytes,
        )))
    }
}

impl<'b> Frame<'b> {
    /// Reads a frame and says how many bytes it has; None if it is not whole yet. A body longer
    /// than `bytes_max` is refused as soon as its length is known.
    pub fn decode(input: &'b [u8], bytes_max: usize) -> Result<Option<(Self, usize)>, ZmtpFault> {
        let Some((head, head_bytes)) = FrameHead::decode(input)? else {
            return Ok(None);
        };
        let bytes = usize::try_from(head.bytes)
            .ok()
            .filter(|&bytes| bytes <= bytes_max)
            .ok_or(ZmtpFault::TooLarge)?;
        let end = head_bytes + bytes;
        Ok(input.get(head_bytes..end).map(|body| {
            let frame = Self {
                is_command: head.is_command,
                has_more: head.has_more,
                body,
            };
            (frame, end)
        }))
    }
}

/// Appends a frame's head, in the short form where it fits.
pub fn encode_frame_head(head: FrameHead, out: &mut Vec<u8>) {
    let flags = if head.is_command { COMMAND } else { 0 } | if head.has_more { MORE } else { 0 };
    match u8::try_from(head.bytes) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&head.bytes.to_be_bytes());
        }
    }
}
