//! ZMTP 3, the protocol under ZeroMQ sockets (RFC 23 and 37 of ZeroMQ), as far as publishers
//! of GRIP and collectors of statistics need it: the NULL mechanism and the socket types PULL, SUB,
//! REP and PUB.
//!
//! Owns: the bytes of a frame that is not whole yet, and the parts of an unfinished message. Never:
//! sockets, time, or knowing what a message says.
//!
//! Invariants
//! - Unread input that is kept is at most one frame of `message_bytes_max` and its head.
//! - The parts that are kept have at most `message_bytes_max` bytes and `parts_max` parts.
//! - After a fault nothing more is read or written.

#[cfg(test)]
mod tests;

use throng_types::coded_enum;

/// Appends a message as frames, all but the last with the flag MORE.
pub fn encode_message<P: AsRef<[u8]>>(parts: &[P], out: &mut Vec<u8>) {
    for (index, part) in parts.iter().enumerate() {
        let more = if index + 1 < parts.len() { MORE } else { 0 };
        encode_frame(more, &[part.as_ref()], out);
    }
}

coded_enum! {
    /// The socket on our side.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SocketRole {
        fn name;
        /// Takes messages of PUSH sockets.
        Pull = "PULL";
        /// Sends messages to PULL sockets: once ready, with [`encode_message`].
        Push = "PUSH";
        /// Sends messages to SUB and XSUB sockets: once ready, with [`encode_message`], those
        /// that begin with a topic that the peer has subscribed to.
        Pub = "PUB";
        /// Subscribes to channels of PUB and XPUB sockets and takes their messages.
        Sub = "SUB";
        /// Answers REQ and DEALER sockets.
        Rep = "REP";
    }
}

impl SocketRole {
    fn suits(self, peer: &[u8]) -> bool {
        match self {
            Self::Pull => peer == b"PUSH",
            Self::Push => peer == b"PULL",
            Self::Pub => peer == b"SUB" || peer == b"XSUB",
            Self::Sub => peer == b"PUB" || peer == b"XPUB",
            Self::Rep => peer == b"REQ" || peer == b"DEALER",
        }
    }
}

/// Bounds of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Bytes of a message over all its parts, and of a command.
    pub message_bytes_max: usize,
    pub parts_max: usize,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1_000_000,
            parts_max: 16,
        }
    }
}

pub type ZmtpMessage = Vec<Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Ready,
    Failed,
}

const GREETING_BYTES: usize = 64;
const NULL_MECHANISM: [u8; 20] = *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// One connection, from the first byte.
#[derive(Clone, Debug)]
pub struct ZmtpPeer {
    role: SocketRole,
    limits: PeerLimits,
    state: State,
    /// The peer's minor version under 3.
    minor: u8,
    unread: Vec<u8>,
    parts: ZmtpMessage,
    parts_bytes: usize,
}

impl ZmtpPeer {
    /// Begins a connection, either side: appends the greeting and READY's turn comes later.
    #[must_use]
    pub fn new(role: SocketRole, limits: PeerLimits, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]);
        out.extend_from_slice(&NULL_MECHANISM);
        // Not a server, which NULL does not have, and filler.
        out.resize(out.len() + 32, 0);
        Self {
            role,
            limits,
            state: State::Greeting,
            minor: 0,
            unread: Vec::new(),
            parts: Vec::new(),
            parts_bytes: 0,
        }
    }

    /// Tells whether the handshake is over: a SUB subscribes from now on.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Takes bytes as they came. Whole messages are appended to `messages`, what the peer must
    /// be told to `out`. On a fault, write `out` and close.
    pub fn feed(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<ZmtpMessage>,
    ) -> Result<(), ZmtpError> {
        if self.state == State::Failed {
            return Ok(());
        }
        let mut unread = std::mem::take(&mut self.unread);
        // Without a rest from before, frames are read where they are.
        let result = if unread.is_empty() {
            self.read(input, out, messages)
                .map(|used| unread.extend_from_slice(&input[used..]))
        } else {
            unread.extend_from_slice(input);
            self.read(&unread, out, messages)
                .map(|used| drop(unread.drain(..used)))
        };
        if result.is_err() {
            self.state = State::Failed;
            self.parts = Vec::new();
        } else if !unread.is_empty() {
            // An idle connection keeps no buffer.
            self.unread = unread;
        }
        result
    }

    /// SUB: asks for the messages that begin with a topic. Call it once ready.
    pub fn subscribe(&self, topic: &[u8], out: &mut Vec<u8>) {
        self.subscription(1, b"SUBSCRIBE", topic, out);
    }

    /// SUB: takes a subscription back.
    pub fn unsubscribe(&self, topic: &[u8], out: &mut Vec<u8>) {
        self.subscription(0, b"CANCEL", topic, out);
    }

    /// A message with a first byte in ZMTP 3.0, a command since 3.1 (RFC 37, section "PUB").
    fn subscription(&self, byte: u8, command: &[u8], topic: &[u8], out: &mut Vec<u8>) {
        if self.role != SocketRole::Sub || self.state != State::Ready {
            return;
        }
        if self.minor == 0 {
            encode_frame(0, &[&[byte], topic], out);
        } else {
            encode_command(command, topic, out);
        }
    }

    /// PUB: reads what a peer says; the topic, and whether it wants the messages that begin with it
    /// or takes that back. None if it is neither.
    #[must_use]
    pub fn subscription_of(message: &ZmtpMessage) -> Option<(bool, &[u8])> {
        let [part] = message.as_slice() else {
            return None;
        };
        match part.split_first()? {
            (1, topic) => Some((true, topic)),
            (0, topic) => Some((false, topic)),
            _ => None,
        }
    }

    /// REP: splits a request into its envelope, which goes in front of the reply as it is, and
    /// its body. None if there is no empty part between them.
    #[must_use]
    pub fn split_request(mut request: ZmtpMessage) -> Option<(ZmtpMessage, ZmtpMessage)> {
        let empty = request.iter().position(Vec::is_empty)?;
        let body = request.split_off(empty + 1);
        Some((request, body))
    }

    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<ZmtpMessage>,
    ) -> Result<usize, ZmtpError> {
        let mut used = 0;
        if self.state == State::Greeting {
            if !self.greeting(input)? {
                return Ok(0);
            }
            used = GREETING_BYTES;
            self.state = State::Handshake;
            let mut properties = Vec::new();
            encode_property("Socket-Type", self.role.name(), &mut properties);
            encode_command(b"READY", &properties, out);
        }
        while let Some((frame, bytes)) = Frame::decode(&input[used..], self.frame_bytes_max())? {
            used += bytes;
            if frame.is_command {
                self.command(frame.body, out, messages)?;
            } else {
                self.part(frame, messages)?;
            }
        }
        Ok(used)
    }

    fn frame_bytes_max(&self) -> usize {
        self.limits.message_bytes_max - self.parts_bytes
    }

    /// Checks as much of a greeting as is there; true if it is whole.
    fn greeting(&mut self, input: &[u8]) -> Result<bool, ZmtpError> {
        if input.first().is_some_and(|&byte| byte != 0xff)
            || input.get(9).is_some_and(|&byte| byte & 1 == 0)
        {
            return Err(ZmtpError::NotZmtp);
        }
        if let Some(&major) = input.get(10)
            && major < 3
        {
            // On the wire 0 is version 1.0 and 1 is 2.0.
            return Err(ZmtpError::OldVersion(major + 1));
        }
        let Some(greeting) = input.first_chunk::<GREETING_BYTES>() else {
            return Ok(false);
        };
        self.minor = if greeting[10] > 3 { 1 } else { greeting[11] };
        let mechanism = &greeting[12..32];
        if mechanism != NULL_MECHANISM {
            let name = mechanism
                .split(|&byte| byte == 0)
                .next()
                .unwrap_or_default();
            return Err(ZmtpError::Mechanism(crate::headers::text(name)));
        }
        Ok(true)
    }

    fn command(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<ZmtpMessage>,
    ) -> Result<(), ZmtpError> {
        let (name, data) = short(body).ok_or(ZmtpError::Command)?;
        match (self.state, name) {
            (State::Handshake, b"READY") => {
                let peer = socket_type(data).ok_or(ZmtpError::Handshake)?;
                if !self.role.suits(peer) {
                    let mut reason = Vec::new();
                    push_short(b"Invalid socket type", &mut reason);
                    encode_command(b"ERROR", &reason, out);
                    return Err(ZmtpError::SocketType(crate::headers::text(peer)));
                }
                self.state = State::Ready;
            }
            (_, b"ERROR") => {
                let reason = short(data).map_or(&b""[..], |(reason, _)| reason);
                return Err(ZmtpError::Refused(crate::headers::text(reason)));
            }
            // PING has a time to live of two bytes and a context that PONG repeats
            // (RFC 37, section "Connection heartbeating").
            (State::Ready, b"PING") => {
                let context = data.get(2..).ok_or(ZmtpError::Command)?;
                encode_command(b"PONG", context.get(..16).unwrap_or(context), out);
            }
            // As a peer of ZMTP 3.0 says it (RFC 37, section "PUB").
            (State::Ready, b"SUBSCRIBE") if self.role == SocketRole::Pub => {
                messages.push(vec![[&[1], data].concat()]);
            }
            (State::Ready, b"CANCEL") if self.role == SocketRole::Pub => {
                messages.push(vec![[&[0], data].concat()]);
            }
            // Other commands are of later versions, and to be ignored.
            (State::Ready, _) => {}
            _ => return Err(ZmtpError::Handshake),
        }
        Ok(())
    }

    fn part(&mut self, frame: Frame<'_>, messages: &mut Vec<ZmtpMessage>) -> Result<(), ZmtpError> {
        if self.state != State::Ready {
            return Err(ZmtpError::Handshake);
        }
        if self.parts.len() >= self.limits.parts_max {
            return Err(ZmtpError::TooManyParts);
        }
        self.parts_bytes += frame.body.len();
        self.parts.push(frame.body.to_vec());
        if !frame.has_more {
            self.parts_bytes = 0;
            messages.push(std::mem::take(&mut self.parts));
        }
        Ok(())
    }
}

/// A text with a length of one byte, and what follows it.
fn short(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = data.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// The peer's socket type among the properties of READY. None if they cannot be read.
fn socket_type(mut data: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    while !data.is_empty() {
        let (name, rest) = short(data)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            found = Some(value);
        }
        data = rest;
    }
    found
}

fn push_short(text: &[u8], out: &mut Vec<u8>) {
    // Only our own short names and texts come here.
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(&text[..text.len().min(usize::from(u8::MAX))]);
}

fn encode_property(name: &str, value: &str, out: &mut Vec<u8>) {
    push_short(name.as_bytes(), out);
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value.as_bytes());
}

fn encode_command(name: &[u8], data: &[u8], out: &mut Vec<u8>) {
    // Only our own short names come here.
    encode_frame(COMMAND, &[&[name.len() as u8], name, data], out);
}

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A whole frame; the body borrows the input.
struct Frame<'b> {
    /// A command, not a part of a message.
    is_command: bool,
    /// Another part of the same message follows.
    has_more: bool,
    body: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Reads a frame and its length in bytes; None if it is not whole yet. A body longer than
    /// `bytes_max` is refused as soon as its length is known.
    fn decode(input: &'b [u8], bytes_max: usize) -> Result<Option<(Self, usize)>, ZmtpError> {
        let Some((&flags, rest)) = input.split_first() else {
            return Ok(None);
        };
        let is_command = flags & COMMAND != 0;
        let has_more = flags & MORE != 0;
        // A command is never followed by more (RFC 23, section "Framing").
        if flags & !(MORE | LONG | COMMAND) != 0 || is_command && has_more {
            return Err(ZmtpError::BadFlags);
        }
        let head = match flags & LONG {
            0 => rest.first().map(|&length| (u64::from(length), 2)),
            _ => { rest.first_chunk() }.map(|length| (u64::from_be_bytes(*length), 9)),
        };
        let Some((bytes, head_bytes)) = head else {
            return Ok(None);
        };
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|&bytes| bytes <= bytes_max)
            .ok_or(ZmtpError::TooLarge)?;
        let end = head_bytes + bytes;
        Ok(input.get(head_bytes..end).map(|body| {
            let frame = Self {
                is_command,
                has_more,
                body,
            };
            (frame, end)
        }))
    }
}

/// Appends a frame of these pieces, with its length in the short form where it fits.
fn encode_frame(flags: u8, pieces: &[&[u8]], out: &mut Vec<u8>) {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    match u8::try_from(bytes) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(bytes as u64).to_be_bytes());
        }
    }
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// Why a connection ends. All of them are the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    #[error("the peer does not speak ZMTP")]
    NotZmtp,
    #[error("the peer speaks ZMTP {0}, and 3.0 is the least")]
    OldVersion(u8),
    #[error("the peer wants the mechanism '{0}' instead of NULL")]
    Mechanism(String),
    #[error("a frame has impossible flags")]
    BadFlags,
    #[error("a message is larger than the limit")]
    TooLarge,
    #[error("a message has too many parts")]
    TooManyParts,
    #[error("the handshake is broken")]
    Handshake,
    #[error("a {0} socket does not go with ours")]
    SocketType(String),
    #[error("the peer refused: {0}")]
    Refused(String),
    #[error("a command is broken")]
    Command,
}
