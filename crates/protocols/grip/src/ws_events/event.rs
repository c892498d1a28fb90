//! Event streams (`TYPE[ SP hexlength]CRLF[content CRLF]`, as often as there are events), the
//! responses that carry them, and the orders that a conversation gives.

use std::io::Write as _;

use throng_types::{Save, coded_enum};

use crate::headers::{self, Element, Header, HeaderRef, begins_like, has_prefix, integer, is_like};
use crate::instruct::ResponseHead;
use crate::item::WsKind;
use crate::ws_events::control::{ControlError, ControlMessage};

/// The media type of requests and responses that carry events.
pub const EVENTS_TYPE: &str = "application/websocket-events";

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EventKind {
        fn name;
        /// The handshake was accepted, or is offered.
        Open = "OPEN";
        /// Text message, UTF-8 or not.
        Text = "TEXT";
        /// Binary message of any bytes.
        Binary = "BINARY";
        Ping = "PING";
        Pong = "PONG";
        /// Close in order: two bytes of code and a reason, or nothing.
        Close = "CLOSE";
        /// End without a close frame.
        Disconnect = "DISCONNECT";
    }
}

impl EventKind {
    fn from_name(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name().as_bytes() == name)
    }
}

/// One event; the content borrows the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WsHttpEvent<'b> {
    pub kind: EventKind,
    /// None if no length was written, which differs from an empty content only on the wire.
    pub content: Option<&'b [u8]>,
}

impl<'b> WsHttpEvent<'b> {
    /// The content, empty if there is none.
    #[must_use]
    pub fn bytes(&self) -> &'b [u8] {
        self.content.unwrap_or_default()
    }

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
pub enum EventError {
    #[error("events: a line does not end")]
    NoLineEnd,
    #[error("events: a length is not hexadecimal")]
    BadLength,
    #[error("events: a content does not have its length")]
    BadContent,
}

/// Reads a whole body. Events of unknown types are left out.
///
/// Stricter than Pushpin in one point: a content must have its length, and a line end if
/// anything follows.
pub fn decode_events(body: &[u8]) -> Result<Vec<WsHttpEvent<'_>>, EventError> {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let end = memchr::memmem::find(rest, b"\r\n").ok_or(EventError::NoLineEnd)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        let (name, content) = match memchr::memchr(b' ', line) {
            None => (line, None),
            Some(at) => {
                let length = length(&line[at + 1..])?;
                let content = rest.get(..length).ok_or(EventError::BadContent)?;
                rest = match &rest[length..] {
                    // Backends that leave out the last line end work behind Pushpin.
                    [] => &[],
                    [b'\r', b'\n', rest @ ..] => rest,
                    _ => return Err(EventError::BadContent),
                };
                (&line[..at], Some(content))
            }
        };
        if let Some(kind) = EventKind::from_name(name) {
            out.push(WsHttpEvent { kind, content });
        }
    }
    Ok(out)
}

fn length(digits: &[u8]) -> Result<usize, EventError> {
    // Eight digits are more than any body; a sign would be taken by the number's own parser.
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(EventError::BadLength);
    }
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .ok_or(EventError::BadLength)
}

pub fn encode_event(event: WsHttpEvent<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(event.kind.name().as_bytes());
    if let Some(content) = event.content {
        // Writing to a vector does not fail.
        let _ = write!(out, " {:x}\r\n", content.len());
        out.extend_from_slice(content);
    }
    out.extend_from_slice(b"\r\n");
}

/// The shortest `Keep-Alive-Interval`, in seconds.
pub(super) const KEEP_ALIVE_INTERVAL_MIN_S: u32 = 20;

/// Why a response ends the conversation. The fault is the backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventsReplyError {
    /// Not 200 with [`EVENTS_TYPE`].
    #[error("the backend answered with something else than events")]
    NotEvents,
    #[error("{0}")]
    Events(#[from] EventError),
    #[error("the backend's answer is too large")]
    TooLarge,
    #[error("the backend's first answer does not begin with OPEN")]
    NotOpen,
    #[error("the backend accepted an impossible number of bytes")]
    Accepted,
    #[error("the backend sent OPEN twice")]
    OpenTwice,
}

/// Response of a backend, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsReply<'r> {
    pub events: Vec<WsHttpEvent<'r>>,
    /// `Keep-Alive-Interval`: None if absent, 0 if it switches keep-alives off, else at least 20 s.
    pub keep_alive_interval_s: Option<u32>,
    /// `Set-Meta-*`: names without the prefix; an empty value removes.
    pub set_meta: Vec<(&'r str, &'r [u8])>,
    /// `Content-Bytes-Accepted`: bytes that the backend took.
    pub content_bytes_accepted: Option<usize>,
}

impl<'r> EventsReply<'r> {
    pub fn parse(head: ResponseHead<'r>, body: &'r [u8]) -> Result<Self, EventsReplyError> {
        let is_events = Element::first(head.headers, "Content-Type")
            .is_some_and(|params| params.value() == EVENTS_TYPE.as_bytes());
        if head.code != 200 || !is_events {
            return Err(EventsReplyError::NotEvents);
        }
        let number = |name| headers::first(head.headers, name).and_then(integer);
        Ok(Self {
            events: decode_events(body)?,
            keep_alive_interval_s: headers::first(head.headers, "Keep-Alive-Interval").map(
                |value| match integer(value).and_then(|seconds| u32::try_from(seconds).ok()) {
                    None | Some(0) => 0,
                    Some(seconds) => seconds.max(KEEP_ALIVE_INTERVAL_MIN_S),
                },
            ),
            set_meta: set_meta(head.headers),
            content_bytes_accepted: number("Content-Bytes-Accepted")
                .and_then(|bytes| usize::try_from(bytes).ok()),
        })
    }
}

impl EventsReply<'_> {
    /// Checks that a first response opens the conversation; false if the backend only wants to be
    /// asked again.
    pub(super) fn opens(&self) -> Result<bool, EventsReplyError> {
        match (self.events.first(), self.keep_alive_interval_s) {
            (Some(event), _) if event.kind == EventKind::Open => Ok(true),
            (None, Some(1..)) => Ok(false),
            _ => Err(EventsReplyError::NotOpen),
        }
    }
}

fn set_meta<'r>(fields: &[HeaderRef<'r>]) -> Vec<(&'r str, &'r [u8])> {
    fields
        .iter()
        .filter(|(name, _)| has_prefix(name, "Set-Meta-"))
        .filter_map(|&(name, value)| Some((name.get(9..).filter(|name| !name.is_empty())?, value)))
        .collect()
}

/// The fields for the client's 101 out of the backend's first response: without those between
/// backend and proxy. Hop-by-hop fields and those of the handshake itself are the caller's affair.
pub(super) fn accepted_headers(head: ResponseHead<'_>) -> Vec<Header> {
    const PRIVATE: [&str; 4] = [
        "Content-Length",
        "Content-Type",
        "Keep-Alive-Interval",
        "Sec-WebSocket-Extensions",
    ];
    let fields = head.headers.iter();
    fields
        .filter(|(name, _)| !PRIVATE.iter().any(|other| other.eq_ignore_ascii_case(name)))
        .filter(|(name, _)| !has_prefix(name, "Set-Meta-"))
        .map(|&(name, value)| Header::new(name, value))
        .collect()
}

/// Bounds of a [`Conversation`](super::Conversation); the defaults are Pushpin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub struct ConversationLimits {
    /// Bytes of the client's messages that wait for the backend; when full, stop reading.
    pub pending_bytes_max: usize,
    /// The largest answer of a backend, in bytes.
    pub reply_bytes_max: usize,
    /// Bytes of a refusal's body that reach the client.
    pub reject_bytes_max: usize,
    /// Messages in one request; 1 for a target with `one_event`.
    pub events_max: usize,
    /// Retries of one request before the connection ends.
    pub retries_max: u32,
    /// The pause before the first retry; it doubles each time.
    pub retry_ms: u64,
}

impl Default for ConversationLimits {
    fn default() -> Self {
        Self {
            pending_bytes_max: 200_000,
            reply_bytes_max: 1_000_000,
            reject_bytes_max: 100_000,
            events_max: usize::MAX,
            retries_max: 5,
            retry_ms: 1000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationPhase {
    /// OPEN has not been answered.
    Connecting,
    /// Messages go both ways.
    Open,
    /// The client has closed; the backend may still answer.
    Closing,
    /// The backend has let go; the client stays, and what it sends is discarded.
    Detached,
    /// Nothing more is said to either side.
    Done,
}

/// Order to the caller, in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationCommand {
    /// POST these fields and this body, with the fields of [`handshake_headers`] and a fresh
    /// `Grip-Sig`, and report by [`Conversation::on_response`](super::Conversation::on_response) or
    /// [`Conversation::on_failure`](super::Conversation::on_failure).
    Request {
        /// Beside those of the handshake.
        headers: Vec<Header>,
        /// Events in the coding of WebSocket over HTTP.
        body: Vec<u8>,
    },
    /// Answer the client's handshake with 101 and these fields.
    Accept {
        /// Without those between backend and proxy.
        headers: Vec<Header>,
    },
    /// Answer the client's handshake with a refusal. The conversation is over.
    Reject {
        /// Status code of the refusal.
        code: u16,
        /// Fields without `Content-Length`, in order.
        headers: Vec<Header>,
        /// Body, cut at the limit.
        body: Vec<u8>,
    },
    /// Send the client a message.
    Send {
        kind: WsKind,
        /// Payload of the frame.
        content: Vec<u8>,
    },
    /// Do what the backend says about subscriptions, meta and keep-alives.
    Control(ControlMessage),
    /// A control message that means nothing: log it. Too many filters: close with 1011.
    ControlError(ControlError),
    /// Send the client a close frame.
    Close {
        /// Close code of the backend.
        code: Option<u16>,
        /// Close reason of the backend.
        reason: Vec<u8>,
    },
    /// End the client's connection without a close. The conversation is over.
    Abort(Option<EventsReplyError>),
}

/// The fields of the client's request that go with each request, without those that the
/// conversation sets. Apply the proxy's own rules for requests before.
#[must_use]
pub fn handshake_headers(fields: &[HeaderRef<'_>]) -> Vec<Header> {
    const OWN: [&str; 7] = [
        "Upgrade",
        "Connection",
        "Accept",
        "Connection-Id",
        "Content-Type",
        "Content-Length",
        "Sec-WebSocket-Extensions",
    ];
    let mut out: Vec<Header> = fields
        .iter()
        .filter(|(name, _)| !OWN.iter().any(|other| is_like(name, other)))
        .filter(|(name, _)| !begins_like(name, "Meta-"))
        .map(|&(name, value)| Header::new(name, value))
        .collect();
    out.push(Header::new("Sec-WebSocket-Extensions", "grip"));
    out
}

/// Tells whether a client's own request says that it is made of WebSocket events. Signed by us it
/// would speak to the backend for any connection, so nobody may send one but a proxy that is
/// trusted.
#[must_use]
pub fn claims_events(client: &[HeaderRef<'_>]) -> bool {
    let is_events = |value: &[u8]| {
        let value = value.split(|byte| matches!(byte, b';' | b',')).next();
        let value = value.unwrap_or_default().trim_ascii();
        value.eq_ignore_ascii_case(EVENTS_TYPE.as_bytes())
    };
    client
        .iter()
        .any(|(name, value)| is_like(name, "Content-Type") && is_events(value))
}

/// The client's messages are full: it must not be read until
/// [`Conversation::has_room`](super::Conversation::has_room) says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backend is behind: the client's messages are full")]
pub struct Full;
