//! Frame headers (RFC 6455 section 5.2): what they say, and every rule that can be
//! checked on them alone.
//!
//! Invariant: the rules are checked in the order of the bytes that they speak about, and
//! as soon as those are there. So the verdict does not depend on how the bytes were cut.

use crate::Fault;
use crate::mask::Mask;

/// The longest header: two bytes, eight of length, four of mask.
pub const HEADER_BYTES_MAX: usize = 14;

/// The reserved bit that says that a message is compressed (RFC 7692 section 6).
pub(crate) const RSV1: u8 = 0x40;

/// The longest payload of a ping, pong or close frame (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// The longest reason in a close frame: what its code leaves of the payload.
pub const CLOSE_REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX - 2;

/// Whose side we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// We are the server: what comes in must be masked, what goes out must not.
    Server,
    /// We are the client: what comes in must not be masked, what goes out must.
    Client,
}

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

impl Opcode {
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::Text => 0x1,
            Self::Binary => 0x2,
        }
    }
}

/// The frames that stand between messages and fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Close,
    Ping,
    Pong,
}

impl Control {
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }
}

/// What kind of frame a header opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first frame of a message.
    Start(Opcode),
    /// A further frame of the message that is open.
    Continuation,
    /// A control frame.
    Control(Control),
}

/// What a header's rules depend on besides its bytes.
pub(crate) struct Context {
    /// Whose side we are.
    pub(crate) role: Role,
    /// Whether a message has begun and not ended.
    pub(crate) message_open: bool,
    /// How many bytes a further data frame may declare.
    pub(crate) message_bytes_left: usize,
    /// Whether messages may be compressed.
    pub(crate) deflates: bool,
}

/// A header that broke no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) fin: bool,
    /// Whether the message that it opens is compressed.
    pub(crate) deflated: bool,
    pub(crate) mask: Mask,
    /// Length of the header itself.
    pub(crate) header_bytes: usize,
    /// Length of what follows it.
    pub(crate) payload_bytes: usize,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` if it is not whole yet.
    pub(crate) fn parse(bytes: &[u8], context: &Context) -> Result<Option<Self>, Fault> {
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
            _ => return Err(Fault::MessageTooBig),
        };
        let (mask, header_bytes) = match context.role {
            Role::Client => (Mask::NONE, length_end),
            Role::Server => match bytes.get(length_end..).and_then(<[u8]>::first_chunk) {
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

/// FIN, the reserved bits and the opcode.
fn first_byte(byte: u8, context: &Context) -> Result<(bool, bool, Kind), Fault> {
    let fin = byte & 0x80 != 0;
    let deflated = context.deflates && byte & RSV1 != 0;
    if byte & 0x70 != 0 && !(deflated && byte & 0x30 == 0) {
        return Err(Fault::ReservedBits);
    }
    let kind = match byte & 0x0f {
        0x0 => Kind::Continuation,
        0x1 => Kind::Start(Opcode::Text),
        0x2 => Kind::Start(Opcode::Binary),
        0x8 => Kind::Control(Control::Close),
        0x9 => Kind::Control(Control::Ping),
        0xa => Kind::Control(Control::Pong),
        _ => return Err(Fault::UnknownOpcode),
    };
    match kind {
        // The bit belongs to the first frame of a message (RFC 7692 section 6.1).
        Kind::Control(_) | Kind::Continuation if deflated => Err(Fault::ReservedBits),
        Kind::Control(_) if !fin => Err(Fault::ControlFragmented),
        Kind::Continuation if !context.message_open => Err(Fault::ContinuationUnexpected),
        Kind::Start(_) if context.message_open => Err(Fault::ContinuationExpected),
        _ => Ok((fin, deflated, kind)),
    }
}

/// The mask bit and the seven bits of length, which are returned.
fn second_byte(byte: u8, kind: Kind, role: Role) -> Result<u8, Fault> {
    match (role, byte & 0x80 != 0) {
        (Role::Server, false) => return Err(Fault::MaskMissing),
        (Role::Client, true) => return Err(Fault::MaskForbidden),
        _ => {}
    }
    let short_length = byte & 0x7f;
    if matches!(kind, Kind::Control(_)) && usize::from(short_length) > CONTROL_BYTES_MAX {
        return Err(Fault::ControlTooLong);
    }
    Ok(short_length)
}

/// The payload's length, and where in the header its encoding ends.
fn length(bytes: &[u8], short_length: u8) -> Result<Option<(u64, usize)>, Fault> {
    let extension = bytes.get(2..).unwrap_or_default();
    match short_length {
        126 => {
            let Some(raw) = extension.first_chunk() else {
                return Ok(None);
            };
            match u16::from_be_bytes(*raw) {
                0..=125 => Err(Fault::LengthNotMinimal),
                length => Ok(Some((length.into(), 4))),
            }
        }
        127 => {
            let Some(raw) = extension.first_chunk() else {
                return Ok(None);
            };
            match u64::from_be_bytes(*raw) {
                0..=0xffff => Err(Fault::LengthNotMinimal),
                length if length >> 63 == 1 => Err(Fault::LengthTopBit),
                length => Ok(Some((length, 10))),
            }
        }
        length => Ok(Some((length.into(), 2))),
    }
}
