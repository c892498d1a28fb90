//! What a conversation is told and what it asks for.

use super::control::{ControlFault, ControlMessage};
use super::event::EVENTS_TYPE;
use super::reply::ReplyFault;
use crate::headers::{Header, HeaderRef, begins_like, is_like};
use crate::item::WsKind;

/// Bounds of a [`Conversation`](super::Conversation); the defaults are Pushpin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Bytes of the client's messages that wait for the backend; when full, stop reading.
    pub pending_bytes_max: usize,
    /// The largest answer of a backend, in bytes.
    pub reply_bytes_max: usize,
    /// What of the body of a refusal reaches the client, in bytes.
    pub reject_bytes_max: usize,
    /// Messages in one request; 1 for a target with `one_event`.
    pub events_max: usize,
    /// How often one request is tried again.
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

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The backend was not reached: connecting or TLS failed.
    Unreachable,
    /// It failed or took too long before the body was written whole.
    Unsent,
    /// It failed after that, so that trying again might say things twice.
    Sent,
}

/// What the caller has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// POST these fields and this body, with the fields of [`Handshake::headers`] and a fresh
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
        /// The status.
        code: u16,
        /// The fields.
        headers: Vec<Header>,
        /// The body.
        body: Vec<u8>,
    },
    /// Send the client a message.
    Send {
        /// Which opcode.
        kind: WsKind,
        /// The payload.
        content: Vec<u8>,
    },
    /// Do what the backend says about subscriptions, meta and keep-alives.
    Control(ControlMessage),
    /// A control message that means nothing: log it. Too many filters: close with 1011.
    ControlFault(ControlFault),
    /// Send the client a close frame.
    Close {
        /// The backend's code.
        code: Option<u16>,
        /// Its reason.
        reason: Vec<u8>,
    },
    /// End the client's connection without a close. The conversation is over.
    Abort(Option<ReplyFault>),
}

/// The client's handshake as it is repeated on each request.
#[derive(Clone, Copy, Debug)]
pub struct Handshake;

impl Handshake {
    /// The fields of the client's request that go with each request, without those that the
    /// conversation sets. Apply the proxy's own rules for requests before.
    #[must_use]
    pub fn headers(fields: &[HeaderRef<'_>]) -> Vec<Header> {
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
}

/// Whether a client's own request says that it is made of WebSocket events. Signed by us it would
/// speak to the backend for any connection, so nobody may send one but a proxy that is trusted.
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
