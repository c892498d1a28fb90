//! A backend's response to a request with events.

use super::event::{EVENTS_TYPE, Event, EventFault, EventKind, decode_events};
use crate::headers::{self, Element, Header, HeaderRef, has_prefix, integer};
use crate::instruct::ResponseHead;

/// The shortest `Keep-Alive-Interval`, in seconds.
pub(super) const KEEP_ALIVE_INTERVAL_MIN_S: u32 = 20;

/// Why a response ends the conversation. The fault is the backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyFault {
    /// Not 200 with [`EVENTS_TYPE`].
    #[error("the backend answered with something else than events")]
    NotEvents,
    /// The body is no row of events.
    #[error("{0}")]
    Events(#[from] EventFault),
    /// Larger than the limit.
    #[error("the backend's answer is too large")]
    TooLarge,
    /// The first answer neither begins with OPEN nor asks for keep-alives.
    #[error("the backend's first answer does not begin with OPEN")]
    NotOpen,
    /// More bytes accepted than were offered, or none of a full buffer.
    #[error("the backend accepted an impossible number of bytes")]
    Accepted,
    /// A second OPEN.
    #[error("the backend sent OPEN twice")]
    OpenTwice,
}

/// What a response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsReply<'r> {
    /// In their order.
    pub events: Vec<Event<'r>>,
    /// `Keep-Alive-Interval`: None if absent, 0 if it switches keep-alives off, else at least 20 s.
    pub keep_alive_interval_s: Option<u32>,
    /// `Set-Meta-*`: names without the prefix; an empty value removes.
    pub set_meta: Vec<(&'r str, &'r [u8])>,
    /// `Content-Bytes-Accepted`.
    pub content_bytes_accepted: Option<usize>,
}

impl<'r> EventsReply<'r> {
    /// Reads a response.
    pub fn parse(head: ResponseHead<'r>, body: &'r [u8]) -> Result<Self, ReplyFault> {
        let is_events = Element::first(head.headers, "Content-Type")
            .is_some_and(|params| params.value() == EVENTS_TYPE.as_bytes());
        if head.code != 200 || !is_events {
            return Err(ReplyFault::NotEvents);
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

fn set_meta<'r>(fields: &[HeaderRef<'r>]) -> Vec<(&'r str, &'r [u8])> {
    fields
        .iter()
        .filter(|(name, _)| has_prefix(name, "Set-Meta-"))
        .filter_map(|&(name, value)| Some((name.get(9..).filter(|name| !name.is_empty())?, value)))
        .collect()
}

/// The first response, which decides whether the client's handshake succeeds.
#[derive(Clone, Copy, Debug)]
pub struct FirstReply<'r>(pub ResponseHead<'r>);

impl FirstReply<'_> {
    /// The fields for the client's 101: without those between backend and proxy. Hop-by-hop
    /// fields and those of the handshake itself are the caller's affair.
    #[must_use]
    pub fn accepted_headers(self) -> Vec<Header> {
        const PRIVATE: [&str; 4] = [
            "Content-Length",
            "Content-Type",
            "Keep-Alive-Interval",
            "Sec-WebSocket-Extensions",
        ];
        self.0
            .headers
            .iter()
            .filter(|(name, _)| !PRIVATE.iter().any(|other| other.eq_ignore_ascii_case(name)))
            .filter(|(name, _)| !has_prefix(name, "Set-Meta-"))
            .map(|&(name, value)| Header::new(name, value))
            .collect()
    }

    /// Checks that the conversation is opened; false if the backend only wants to be asked again.
    pub(super) fn opens(reply: &EventsReply<'_>) -> Result<bool, ReplyFault> {
        match (reply.events.first(), reply.keep_alive_interval_s) {
            (Some(event), _) if event.kind == EventKind::Open => Ok(true),
            (None, Some(1..)) => Ok(false),
            _ => Err(ReplyFault::NotOpen),
        }
    }
}
