//! Event streams: `TYPE[ SP hexlength]CRLF[content CRLF]`, as often as there are events.

/// The media type of requests and responses that carry events.
pub const EVENTS_TYPE: &str = "application/websocket-events";

/// What happened to a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was opened.
    Open,
    /// A text message.
    Text,
    /// A binary message.
    Binary,
    /// A ping.
    Ping,
    /// A pong.
    Pong,
    /// It was closed in order: two bytes of code and a reason, or nothing.
    Close,
    /// It ended without a close.
    Disconnect,
}

impl EventKind {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Open, "OPEN"),
        (Self::Text, "TEXT"),
        (Self::Binary, "BINARY"),
        (Self::Ping, "PING"),
        (Self::Pong, "PONG"),
        (Self::Close, "CLOSE"),
        (Self::Disconnect, "DISCONNECT"),
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Text => "TEXT",
            Self::Binary => "BINARY",
            Self::Ping => "PING",
            Self::Pong => "PONG",
            Self::Close => "CLOSE",
            Self::Disconnect => "DISCONNECT",
        }
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, other)| other.as_bytes() == name)
            .map(|(kind, _)| kind)
    }
}

/// One event; the content borrows the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'b> {
    /// What happened.
    pub kind: EventKind,
    /// None if no length was written, which differs from an empty content only on the wire.
    pub content: Option<&'b [u8]>,
}

impl<'b> Event<'b> {
    /// The content, empty if there is none.
    #[must_use]
    pub fn bytes(&self) -> &'b [u8] {
        self.content.unwrap_or_default()
    }

    /// The code and reason of a close, if there is a code.
    #[must_use]
    pub fn close_code(&self) -> Option<(u16, &'b [u8])> {
        match self.bytes() {
            [high, low, reason @ ..] => Some((u16::from_be_bytes([*high, *low]), reason)),
            _ => None,
        }
    }
}

/// Why a body is not a row of events. The fault is the backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventFault {
    /// A line without an end.
    #[error("events: a line does not end")]
    NoLineEnd,
    /// A length that is not hexadecimal.
    #[error("events: a length is not hexadecimal")]
    BadLength,
    /// A content that is shorter than its length, or is not followed by a line end.
    #[error("events: a content does not have its length")]
    BadContent,
}

/// Reads a whole body. Events of unknown types are left out.
///
/// Stricter than Pushpin in one point: a content must have its length, and a line end if
/// anything follows.
pub fn decode_events(body: &[u8]) -> Result<Vec<Event<'_>>, EventFault> {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let end = memchr::memmem::find(rest, b"\r\n").ok_or(EventFault::NoLineEnd)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        let (name, content) = match memchr::memchr(b' ', line) {
            None => (line, None),
            Some(at) => {
                let length = length(&line[at + 1..])?;
                let content = rest.get(..length).ok_or(EventFault::BadContent)?;
                rest = match &rest[length..] {
                    // Backends that leave out the last line end work behind Pushpin.
                    [] => &[],
                    [b'\r', b'\n', rest @ ..] => rest,
                    _ => return Err(EventFault::BadContent),
                };
                (&line[..at], Some(content))
            }
        };
        if let Some(kind) = EventKind::from_name(name) {
            out.push(Event { kind, content });
        }
    }
    Ok(out)
}

fn length(digits: &[u8]) -> Result<usize, EventFault> {
    // Eight digits are more than any body; a sign would be taken by the number's own parser.
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(EventFault::BadLength);
    }
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .ok_or(EventFault::BadLength)
}

/// Appends one event.
pub fn encode_event(event: Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(event.kind.name().as_bytes());
    if let Some(content) = event.content {
        out.push(b' ');
        crate::hex(content.len(), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(content);
    }
    out.extend_from_slice(b"\r\n");
}
