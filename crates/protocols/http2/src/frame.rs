//! Frames (RFC 9113 sections 4 and 6): their heads, every rule that can be checked on a head alone,
//! and the faults for which a connection ends.

use throng_types::{Save, coded_enum, error_text};

/// Length of a frame's head.
pub(crate) const HEAD_BYTES: usize = 9;

/// The longest payload, both ways: the least that a peer must take, and all that we do (section
/// 4.2).
pub const FRAME_BYTES_MAX: usize = 16_384;

/// The largest flow-control window (section 6.9.1), and the largest number of a stream.
pub(crate) const NUMBER_MAX: u32 = 0x7fff_ffff;

/// DATA, HEADERS: the stream's last frame of this side.
pub(crate) const END_STREAM: u8 = 0x1;
/// SETTINGS, PING: an answer.
pub(crate) const ACK: u8 = 0x1;
/// HEADERS, CONTINUATION: the last of a block.
pub(crate) const END_HEADERS: u8 = 0x4;
/// DATA, HEADERS: a length of padding begins the payload.
pub(crate) const PADDED: u8 = 0x8;
/// HEADERS: five bytes of priority are in front of the block.
pub(crate) const PRIORITY: u8 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Kind {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// Extensions, which are skipped (section 5.5).
    Other,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Data,
        Self::Headers,
        Self::Priority,
        Self::RstStream,
        Self::Settings,
        Self::PushPromise,
        Self::Ping,
        Self::GoAway,
        Self::WindowUpdate,
        Self::Continuation,
    ];
}

/// Parameters that we send or look at (section 6.5.2, RFC 8441 section 3); others are skipped.
pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

/// Why a stream or a connection ends, on the wire (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const NO_ERROR: Self = Self(0);
    pub const PROTOCOL_ERROR: Self = Self(1);
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    pub const STREAM_CLOSED: Self = Self(5);
    pub const REFUSED_STREAM: Self = Self(7);
    pub const CANCEL: Self = Self(8);
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

coded_enum! {
    /// Reason for ending a connection. All are the peer's fault; [`H2Fault::Flood`] and the heads
    /// that are too large depend on our limits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
    pub enum H2Fault {
        fn code_number -> u32;
        /// Sentence for the debug data of GOAWAY and the log.
        fn reason;
        Preface = 1, "the connection does not begin with the preface of HTTP/2";
        FirstFrame = 1, "the first frame must be SETTINGS";
        FrameTooLong = 6, "a frame has more than 16384 bytes";
        FrameLength = 6, "a frame has a length that its kind cannot have";
        StreamNumber = 1, "a frame of this kind cannot have this stream";
        StreamIdle = 1, "a frame names a stream that was never opened";
        StreamEnded = 5, "fields came for a stream that has ended";
        Continuation = 1, "CONTINUATION is missing, or continues nothing";
        Padding = 1, "a frame has more padding than payload";
        Compression = 9, "a block of fields is not HPACK";
        Setting = 1, "a setting has a value that it cannot have";
        InitialWindow = 3, "the initial window is larger than 2147483647 bytes";
        WindowStep = 1, "a window grows by nothing";
        WindowTooLarge = 3, "a window is larger than 2147483647 bytes";
        WindowExceeded = 3, "more data came than the connection's window allows";
        Push = 1, "nothing may be pushed";
        /// A head may not have so many bytes on the wire.
        BlockTooLarge = 11, "a block of fields is too large";
        /// A head may not have so many CONTINUATION frames.
        TooManyContinuations = 11, "a block of fields is in too many frames";
        /// There was more than the budget for what costs us and serves nobody.
        Flood = 11, "too many resets, pings, settings, window updates or empty frames";
    }
}

error_text!(H2Fault.reason);

impl H2Fault {
    /// Code for our GOAWAY.
    #[must_use]
    pub const fn code(self) -> Code {
        Code(self.code_number())
    }
}

/// A frame's head that broke no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// Zero stands for the connection.
    pub(crate) stream: u32,
    /// Length of the payload; at most [`FRAME_BYTES_MAX`].
    pub(crate) length: u32,
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD_BYTES]) -> Result<Self, H2Fault> {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        let length = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes(stream) & NUMBER_MAX;
        let kind = { Kind::ALL.get(usize::from(kind)) }.map_or(Kind::Other, |kind| *kind);
        if length as usize > FRAME_BYTES_MAX {
            return Err(H2Fault::FrameTooLong);
        }
        let is_sound = match kind {
            Kind::Settings if flags & ACK != 0 => length == 0,
            Kind::Settings => length.is_multiple_of(6),
            Kind::Priority => length == 5,
            Kind::RstStream | Kind::WindowUpdate => length == 4,
            Kind::Ping => length == 8,
            Kind::GoAway => length >= 8,
            _ => true,
        };
        if !is_sound {
            return Err(H2Fault::FrameLength);
        }
        let is_placed = match kind {
            Kind::Settings | Kind::Ping | Kind::GoAway => stream == 0,
            Kind::WindowUpdate | Kind::Other => true,
            _ => stream != 0,
        };
        if !is_placed {
            return Err(H2Fault::StreamNumber);
        }
        Ok(Self {
            kind,
            flags,
            stream,
            length,
        })
    }

    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame; its payload is `length` bytes that the caller puts behind it.
pub(crate) fn write_head(kind: Kind, flags: u8, stream: u32, length: usize, out: &mut Vec<u8>) {
    debug_assert!(length <= FRAME_BYTES_MAX, "a peer takes no more");
    let [_, length @ ..] = (length as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends a whole frame.
pub(crate) fn write_frame(kind: Kind, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    write_head(kind, flags, stream, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends a frame of one number: RST_STREAM and WINDOW_UPDATE.
pub(crate) fn write_number(kind: Kind, stream: u32, number: u32, out: &mut Vec<u8>) {
    write_frame(kind, 0, stream, &number.to_be_bytes(), out);
}

pub(crate) fn write_goaway(last: u32, code: Code, reason: &str, out: &mut Vec<u8>) {
    write_head(Kind::GoAway, 0, 0, 8 + reason.len(), out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
}

/// Refuses a stream that depends on itself: priorities have no meaning any more, but RFC 7540 had
/// this rule, and its suites ask for it.
pub(crate) const fn check_dependency(id: u32, dependency: u32) -> Result<(), H2Fault> {
    if dependency & NUMBER_MAX == id {
        return Err(H2Fault::StreamNumber);
    }
    Ok(())
}

/// Finds the part of a block in HEADERS, without padding and priority (section 6.2).
pub(crate) fn block_in<'p>(head: &Head, payload: &'p [u8]) -> Result<&'p [u8], H2Fault> {
    let mut block = payload;
    if head.has(PADDED) {
        let (&padding, rest) = payload.split_first().ok_or(H2Fault::Padding)?;
        let end = { rest.len().checked_sub(padding.into()) }.ok_or(H2Fault::Padding)?;
        block = &rest[..end];
    }
    if head.has(PRIORITY) {
        let (priority, rest) = { block.split_first_chunk::<5>() }.ok_or(H2Fault::FrameLength)?;
        let [dependency @ .., _] = *priority;
        check_dependency(head.stream, u32::from_be_bytes(dependency))?;
        block = rest;
    }
    Ok(block)
}
