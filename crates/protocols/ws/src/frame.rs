//! Frame headers (RFC 6455 section 5.2): what they say, every rule that can be checked on them
//! alone, and the faults of a peer on an open connection.
//!
//! Invariant: the rules are checked in the order of the bytes that they speak about, and
//! as soon as those are there. So the verdict does not depend on how the bytes were cut.

use throng_types::{Save, coded_enum, error_text};

/// The longest header: two bytes, eight of length, four of mask.
pub const HEADER_BYTES_MAX: usize = 14;

/// The reserved bit that says that a message is compressed (RFC 7692 section 6).
pub(crate) const RSV1: u8 = 0x40;

/// The longest payload of a ping, pong or close frame (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// The longest reason in a close frame: what its code leaves of the payload.
pub const CLOSE_REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX - 2;

/// Side of the connection that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WsRole {
    /// We are the server: what comes in must be masked, what goes out must not.
    Server,
    /// We are the client: what comes in must not be masked, what goes out must.
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
pub enum Opcode {
    /// Text in UTF-8, checked.
    Text = 0x1,
    Binary = 0x2,
}

/// The frames that stand between messages and fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Control {
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xa,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Kind {
    Start(Opcode),
    Continuation,
    Control(Control),
}

coded_enum! {
    /// Reason for failing a connection (RFC 6455 section 7.1.7).
    ///
    /// Every fault is the peer's; [`WsError::MessageTooBig`] alone depends on our limits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum WsError {
        /// Code for our close frame (section 7.4.1): 1002, 1007 or 1009.
        fn close_code -> u16;
        /// Sentence for our close frame and the log; it fits a close frame.
        fn reason;
        /// RSV1, RSV2 or RSV3 is set although no extension was agreed on (section 5.2).
        ReservedBits = 1002, "a reserved bit is set without an extension";
        /// Opcodes 0x3 to 0x7 and 0xB to 0xF are reserved (section 5.2).
        UnknownOpcode = 1002, "the opcode is reserved";
        /// A client sent a frame without a mask (section 5.1).
        MaskMissing = 1002, "a client's frame must be masked";
        /// A server sent a frame with a mask (section 5.1).
        MaskForbidden = 1002, "a server's frame must not be masked";
        /// The length is written in more bytes than it needs (section 5.2).
        LengthNotMinimal = 1002, "the length takes more bytes than it needs";
        /// The top bit of a 64-bit length is set (section 5.2).
        LengthTopBit = 1002, "the top bit of the length is set";
        /// A control frame is not final (section 5.5).
        ControlFragmented = 1002, "a control frame must not be fragmented";
        /// A control frame declares more than 125 bytes (section 5.5).
        ControlTooLong = 1002, "a control frame holds at most 125 bytes";
        /// A continuation, and there is nothing to continue (section 5.4).
        ContinuationUnexpected = 1002, "there is no message to continue";
        /// A new message although the last one has not ended (section 5.4).
        ContinuationExpected = 1002, "the last message has not ended";
        /// A close frame with half a code: one byte of payload (section 5.5.1).
        CloseCodeTruncated = 1002, "a close code takes two bytes";
        /// A close code that must not be sent (section 7.4).
        CloseCodeInvalid = 1002, "this close code must not be sent";
        /// A close reason that is not UTF-8 (section 5.5.1).
        CloseReasonNotUtf8 = 1007, "the close reason is not UTF-8";
        /// A text message that is not UTF-8 (section 8.1).
        TextNotUtf8 = 1007, "the text is not UTF-8";
        /// A message that declares more bytes, over all its fragments, than the limit,
        /// or that is longer once it is inflated.
        MessageTooBig = 1009, "the message is too big";
        /// A compressed message whose bytes are not DEFLATE (RFC 7692 section 7.2.2).
        NotDeflate = 1007, "the compressed message cannot be inflated";
    }
}

error_text!(WsError.reason);

/// Facts beside its bytes that a header's rules depend on.
pub(crate) struct Context {
    pub(crate) role: WsRole,
    /// True if a message has begun and not ended.
    pub(crate) message_open: bool,
    /// Bytes that a further data frame may declare.
    pub(crate) message_bytes_left: usize,
    pub(crate) deflates: bool,
}

/// A header that broke no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) fin: bool,
    /// True if the message that it opens is compressed.
    pub(crate) deflated: bool,
    pub(crate) mask: Mask,
    pub(crate) header_bytes: usize,
    pub(crate) payload_bytes: usize,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` if it is not whole yet.
    pub(crate) fn parse(bytes: &[u8], context: &Context) -> Result<Option<Self>, WsError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        let (fin, deflated, kind) = first_byte(first, context)?;
        let Some(&second) = bytes.get(1) else {
            return Ok(None);
        };
        let short_length = second_byte(second, kind, context.role)?;
        let Some((length, length_end)) = length(bytes, short_length)? else {
            return Ok(None);
        };
        let payload_bytes = match (kind, usize::try_from(length)) {
            (Kind::Control(_), Ok(payload_bytes)) => payload_bytes,
            (_, Ok(payload_bytes)) if payload_bytes <= context.message_bytes_left => payload_bytes,
            _ => return Err(WsError::MessageTooBig),
        };
        let (mask, header_bytes) = match context.role {
            WsRole::Client => (Mask::NONE, length_end),
            WsRole::Server => match bytes.get(length_end..).and_then(<[u8]>::first_chunk) {
                Some(key) => (Mask(*key), length_end + key.len()),
                None => return Ok(None),
            },
        };
        Ok(Some(Self {
            kind,
            fin,
            deflated,
            mask,
            header_bytes,
            payload_bytes,
        }))
    }
}

fn first_byte(byte: u8, context: &Context) -> Result<(bool, bool, Kind), WsError> {
    let fin = byte & 0x80 != 0;
    let deflated = context.deflates && byte & RSV1 != 0;
    if byte & 0x70 != 0 && !(deflated && byte & 0x30 == 0) {
        return Err(WsError::ReservedBits);
    }
    let kind = match byte & 0x0f {
        0x0 => Kind::Continuation,
        0x1 => Kind::Start(Opcode::Text),
        0x2 => Kind::Start(Opcode::Binary),
        0x8 => Kind::Control(Control::Close),
        0x9 => Kind::Control(Control::Ping),
        0xa => Kind::Control(Control::Pong),
        _ => return Err(WsError::UnknownOpcode),
    };
    match kind {
        // The bit belongs to the first frame of a message (RFC 7692 section 6.1).
        Kind::Control(_) | Kind::Continuation if deflated => Err(WsError::ReservedBits),
        Kind::Control(_) if !fin => Err(WsError::ControlFragmented),
        Kind::Continuation if !context.message_open => Err(WsError::ContinuationUnexpected),
        Kind::Start(_) if context.message_open => Err(WsError::ContinuationExpected),
        _ => Ok((fin, deflated, kind)),
    }
}

/// The mask bit and the seven bits of length, which are returned.
fn second_byte(byte: u8, kind: Kind, role: WsRole) -> Result<u8, WsError> {
    match (role, byte & 0x80 != 0) {
        (WsRole::Server, false) => return Err(WsError::MaskMissing),
        (WsRole::Client, true) => return Err(WsError::MaskForbidden),
        _ => {}
    }
    let short_length = byte & 0x7f;
    if matches!(kind, Kind::Control(_)) && usize::from(short_length) > CONTROL_BYTES_MAX {
        return Err(WsError::ControlTooLong);
    }
    Ok(short_length)
}

/// The payload's length, and where in the header its encoding ends.
fn length(bytes: &[u8], short_length: u8) -> Result<Option<(u64, usize)>, WsError> {
    let extension = bytes.get(2..).unwrap_or_default();
    match short_length {
        126 => {
            let Some(raw) = extension.first_chunk() else {
                return Ok(None);
            };
            match u16::from_be_bytes(*raw) {
                0..=125 => Err(WsError::LengthNotMinimal),
                length => Ok(Some((length.into(), 4))),
            }
        }
        127 => {
            let Some(raw) = extension.first_chunk() else {
                return Ok(None);
            };
            match u64::from_be_bytes(*raw) {
                0..=0xffff => Err(WsError::LengthNotMinimal),
                length if length >> 63 == 1 => Err(WsError::LengthTopBit),
                length => Ok(Some((length, 10))),
            }
        }
        length => Ok(Some((length.into(), 2))),
    }
}

/// Four bytes that a client's payload is XORed with, the next byte's first.
///
/// All zeros mask nothing, so a frame without a mask needs no second path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) struct Mask(pub(crate) [u8; 4]);

impl Mask {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// Masks or unmasks `data`, and steps on so that the next call continues after it.
    pub(crate) fn apply(&mut self, data: &mut [u8]) {
        if *self == Self::NONE {
            return;
        }
        let [a, b, c, d] = self.0;
        let word_mask = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        // Eight bytes at a time, in a shape that the compiler turns into vectors.
        let (words, tail) = data.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ word_mask).to_ne_bytes();
        }
        for (byte, mask) in tail.iter_mut().zip([a, b, c, d, a, b, c]) {
            *byte ^= mask;
        }
        // Whole words leave the phase where it was.
        self.0.rotate_left(tail.len() % 4);
    }
}

/// Content of a close frame that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// Why, as a number for which [`close_code_valid`] holds.
    pub code: u16,
    /// Why, in words for people; at most 123 bytes on the wire.
    pub reason: &'a str,
}

impl<'a> CloseFrame<'a> {
    /// Reads the payload of a close frame, which may be empty.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, WsError> {
        let Some((code, reason)) = payload.split_first_chunk() else {
            return match payload {
                [] => Ok(None),
                _ => Err(WsError::CloseCodeTruncated),
            };
        };
        let code = u16::from_be_bytes(*code);
        if !close_code_valid(code) {
            return Err(WsError::CloseCodeInvalid);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| WsError::CloseReasonNotUtf8)?;
        Ok(Some(Self { code, reason }))
    }
}

/// Tells whether a close frame may carry `code`.
///
/// RFC 6455 section 7.4 and the registry that it opened: 1000 to 1014 without 1004 to
/// 1006 (which never travel), 3000 to 3999 for libraries, 4000 to 4999 for applications.
#[must_use]
pub const fn close_code_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_masks_like_the_definition() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let plain: Vec<u8> = (0..61).map(|i: u8| i.wrapping_mul(37)).collect();
        let expected: Vec<u8> = plain
            .iter()
            .zip(key.iter().cycle())
            .map(|(p, k)| p ^ k)
            .collect();
        for cut in 0..=plain.len() {
            let mut data = plain.clone();
            let mut mask = Mask(key);
            let (head, tail) = data.split_at_mut(cut);
            mask.apply(head);
            mask.apply(tail);
            assert_eq!(data, expected, "cut at {cut}");
        }
    }

    #[test]
    fn no_mask_changes_nothing() {
        let mut data = *b"untouched";
        let mut mask = Mask::NONE;
        mask.apply(&mut data);
        assert_eq!(&data, b"untouched");
    }

    #[test]
    fn codes_follow_the_registry() {
        for valid in [
            1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999,
            4000, 4999,
        ] {
            assert!(close_code_valid(valid), "{valid}");
        }
        for invalid in [
            0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535,
        ] {
            assert!(!close_code_valid(invalid), "{invalid}");
        }
    }

    #[test]
    fn every_fault_can_be_sent() {
        for fault in WsError::ALL {
            assert!(close_code_valid(fault.close_code()), "{fault:?}");
            assert!(fault.reason().len() <= CLOSE_REASON_BYTES_MAX, "{fault:?}");
        }
    }
}
