//! Items of publishers, over HTTP and over ZeroMQ, as one struct.
//!
//! Owns: reading items in every coding, with errors good enough for the publisher. Never: orders,
//! filters or delivers.

mod codec;
mod json_patch;
#[cfg(test)]
mod tests;

use throng_types::{ChannelName, Save, coded_enum};

use crate::headers::{Header, is_grip};
use crate::instruct::HeldReply;

pub use codec::{
    CHANNEL_BYTES_MAX, ItemError, PublishError, items_of_json, items_of_value, zmq_pull_item,
    zmq_sub_item,
};
pub use json_patch::patch_body;

/// One publication with a form for each transport that is to carry it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The whole name of the channel, with the prefix of a route if it has one.
    pub channel: ChannelName,
    /// Id for order, de-duplication and recovery.
    pub id: Option<String>,
    /// The id of the item before it in the channel.
    pub prev_id: Option<String>,
    /// True if it goes out at once, whatever its `prev_id`.
    pub no_seq: bool,
    /// For filters: `sender`, `skip_users`, `require_sub`. Keys are unique.
    pub meta: Vec<(String, String)>,
    /// Form for held responses, if any.
    pub http_response: Option<HttpResponseItem>,
    /// Form for streams, if any.
    pub http_stream: Option<HttpStreamItem>,
    /// Form for WebSockets, if any.
    pub ws_message: Option<WsMessageItem>,
}

/// Form of an item for held responses.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpResponseItem {
    Send(Box<ResponseItem>),
    /// Nothing, but the backend is asked again.
    Hint,
    /// An action without a meaning for held responses: nothing happens.
    Nothing,
}

/// An answer for held responses.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseItem {
    /// Status code, from 0 to 999.
    pub code: u16,
    /// None: the usual one for the code.
    pub reason: Option<String>,
    /// Laid over the headers of the held response.
    pub headers: Vec<Header>,
    /// The body, or how to make one from the held response's.
    pub body: ItemBody,
    /// The content filters that a subscription must have, if the item says.
    pub content_filters: Option<Vec<String>>,
}

/// The body of a [`ResponseItem`].
#[derive(Clone, Debug, PartialEq)]
pub enum ItemBody {
    /// These bytes replace the body.
    Whole(Vec<u8>),
    /// The held response's body, read as JSON, with these operations (see [`patch_body`]).
    Patch(Vec<serde_json::Value>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum HttpStreamItem {
    /// Appends bytes to the stream.
    Send {
        /// Bytes of one chunk.
        content: Vec<u8>,
        /// The content filters that a subscription must have, if the item says.
        content_filters: Option<Vec<String>>,
    },
    /// Nothing, but the next link is fetched.
    Hint,
    /// Ends the stream after what is queued.
    Close,
    /// An action without a meaning for streams: nothing happens.
    Nothing,
}

/// Form of an item for WebSockets.
#[derive(Clone, Debug, PartialEq)]
pub enum WsMessageItem {
    /// Sends a message or control frame.
    Send {
        kind: WsKind,
        /// The payload; UTF-8 if `kind` is text.
        content: Vec<u8>,
        /// The content filters that a subscription must have, if the item says.
        content_filters: Option<Vec<String>>,
    },
    /// Ends the connection with a close frame.
    Close {
        /// The close code; None sends a close without one.
        code: Option<u16>,
        /// The reason, not yet cut to what a close frame holds.
        reason: String,
    },
    /// WebSocket-over-HTTP: the backend is asked (an empty request).
    Refresh,
    /// An action without a meaning for WebSockets: nothing happens.
    Nothing,
}

coded_enum! {
    /// The kinds of frames that carry a payload of a publisher or a backend.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
    pub enum WsKind {
        /// Name in documents of publishers.
        fn name;
        /// Text in UTF-8, checked.
        Text = "text";
        /// Binary message of any bytes.
        Binary = "binary";
        /// At most 125 bytes.
        Ping = "ping";
        /// At most 125 bytes.
        Pong = "pong";
    }
}

impl WsKind {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Tells whether a frame may carry this: a text frame with anything but UTF-8 would break the
    /// client's connection (RFC 6455 section 8.1), and a longer control frame too (section 5.5).
    pub(crate) fn fits(self, content: &[u8]) -> bool {
        match self {
            Self::Text => str::from_utf8(content).is_ok(),
            Self::Ping | Self::Pong => content.len() <= 125,
            Self::Binary => true,
        }
    }
}

impl ResponseItem {
    /// Lays the item over the response that is held, whose body is `held_body`: the head, without
    /// `Grip-*` and `Content-Length`, and the body before content filters.
    ///
    /// Published headers replace held ones of the same name. Names in a published
    /// `Grip-Expose-Headers` are removed from the result: Pushpin does so, although the
    /// same header keeps names in a backend's response.
    #[must_use]
    pub fn compose(&self, held: &HeldReply, held_body: &[u8]) -> (HeldReply, Vec<u8>) {
        let expose: Vec<&[u8]> = self
            .headers
            .iter()
            .filter(|header| header.is("Grip-Expose-Headers"))
            .flat_map(|header| header.value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .collect();
        let keep = |header: &&Header| {
            !is_grip(&header.name)
                && !header.is("Content-Length")
                && !expose
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(header.name.as_bytes()))
        };
        let replaced = |header: &&Header| self.headers.iter().any(|other| other.is(&header.name));
        let headers = held
            .headers
            .iter()
            .filter(|header| !replaced(header))
            .chain(&self.headers)
            .filter(keep)
            .cloned()
            .collect();
        let reply = HeldReply {
            code: self.code,
            reason: self.reason.clone(),
            headers,
            body: None,
        };
        let body = match &self.body {
            ItemBody::Whole(body) => body.clone(),
            ItemBody::Patch(operations) => patch_body(held_body, operations),
        };
        (reply, body)
    }
}
