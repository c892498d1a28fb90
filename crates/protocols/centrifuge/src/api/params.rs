//! What each method takes.
//!
//! Unknown fields are ignored, `null` means the default. Strings are as they came; an empty channel
//! or user is for the server to refuse with [`ApiError::BadRequest`].

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind};

use super::error::ApiError;
use crate::json::{or_default, payload_of, present, tags, text, texts};
use crate::request::Since;

/// One publication.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublishRequest<'a> {
    /// The channel.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// One JSON value; nothing if the field is missing.
    #[serde(borrow, deserialize_with = "present")]
    pub data: Option<&'a RawValue>,
    /// Any bytes in base64 (RFC 4648 section 4, padded); goes before `data` unless empty.
    #[serde(borrow, deserialize_with = "text")]
    pub b64data: Cow<'a, str>,
    /// Deliver, but do not keep.
    #[serde(deserialize_with = "or_default")]
    pub skip_history: bool,
    /// A JSON object of strings, as it was written; nothing if it is empty.
    #[serde(borrow, deserialize_with = "tags")]
    pub tags: Option<&'a str>,
    /// A second publication into the same channel with the same key is dropped; empty for none.
    #[serde(borrow, deserialize_with = "text")]
    pub idempotency_key: Cow<'a, str>,
    /// Deliver the difference to the previous publication where subscribers can read it.
    #[serde(deserialize_with = "or_default")]
    pub delta: bool,
    /// Ignore the publication unless this is greater than the channel's last version; 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub version: u64,
    /// Versions of different epochs are not compared.
    #[serde(borrow, deserialize_with = "text")]
    pub version_epoch: Cow<'a, str>,
}

impl PublishRequest<'_> {
    /// The data to publish.
    pub fn payload(&self) -> Result<Payload, ApiError> {
        payload(self.data, &self.b64data)
    }
}

/// One publication for many channels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BroadcastRequest<'a> {
    /// The channels; none at all is [`ApiError::BadRequest`], and so is an empty name, for itself
    /// alone.
    #[serde(borrow, deserialize_with = "texts")]
    pub channels: Vec<Cow<'a, str>>,
    /// One JSON value; nothing if the field is missing.
    #[serde(borrow, deserialize_with = "present")]
    pub data: Option<&'a RawValue>,
    /// Any bytes in base64 (RFC 4648 section 4, padded); goes before `data` unless empty.
    #[serde(borrow, deserialize_with = "text")]
    pub b64data: Cow<'a, str>,
    /// Deliver, but do not keep.
    #[serde(deserialize_with = "or_default")]
    pub skip_history: bool,
    /// A JSON object of strings, as it was written; nothing if it is empty.
    #[serde(borrow, deserialize_with = "tags")]
    pub tags: Option<&'a str>,
    /// A second publication into the same channel with the same key is dropped; empty for none.
    #[serde(borrow, deserialize_with = "text")]
    pub idempotency_key: Cow<'a, str>,
    /// Deliver the difference to the previous publication where subscribers can read it.
    #[serde(deserialize_with = "or_default")]
    pub delta: bool,
    /// Ignore the publication unless this is greater than the channel's last version; 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub version: u64,
    /// Versions of different epochs are not compared.
    #[serde(borrow, deserialize_with = "text")]
    pub version_epoch: Cow<'a, str>,
}

impl BroadcastRequest<'_> {
    /// The data to publish.
    pub fn payload(&self) -> Result<Payload, ApiError> {
        payload(self.data, &self.b64data)
    }
}

/// Ends a user's subscriptions to one channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UnsubscribeRequest<'a> {
    /// The channel; empty for all of the user's.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// The user.
    #[serde(borrow, deserialize_with = "text")]
    pub user: Cow<'a, str>,
    /// Only this connection of the user, by its public id; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub client: Cow<'a, str>,
    /// Only the connection with this session; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub session: Cow<'a, str>,
}

/// Ends a user's connections.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DisconnectRequest<'a> {
    /// The user.
    #[serde(borrow, deserialize_with = "text")]
    pub user: Cow<'a, str>,
    /// Only this connection of the user, by its public id; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub client: Cow<'a, str>,
    /// Only the connection with this session; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub session: Cow<'a, str>,
    /// Connections to spare, by their public ids.
    #[serde(borrow, deserialize_with = "texts")]
    pub whitelist: Vec<Cow<'a, str>>,
    /// Code and reason of the backend's own choice.
    #[serde(borrow)]
    pub disconnect: Option<CustomDisconnect<'a>>,
}

/// Why a backend ends a connection. 3000 to 3499 and 4000 to 4499 mean "come back", 3500 to 3999
/// and 4500 to 4999 "stay away".
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CustomDisconnect<'a> {
    /// The code; what is no WebSocket close code is for the server to refuse.
    #[serde(deserialize_with = "or_default")]
    pub code: u32,
    /// The text; a close frame has room for 123 bytes of it (RFC 6455 section 5.5).
    #[serde(borrow, deserialize_with = "text")]
    pub reason: Cow<'a, str>,
}

/// Asks for past publications.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryRequest<'a> {
    /// The channel.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// At most so many publications; 0 asks for the stream's position only, a negative one for all.
    #[serde(deserialize_with = "or_default")]
    pub limit: i32,
    /// Only what comes after (with `reverse`: before) this position.
    #[serde(borrow)]
    pub since: Option<Since<'a>>,
    /// The latest first.
    #[serde(deserialize_with = "or_default")]
    pub reverse: bool,
}

/// Asks which channels have subscribers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChannelsRequest<'a> {
    /// See [`super::ChannelPattern`]; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub pattern: Cow<'a, str>,
    /// Only so many, those with the most subscribers; 0 for all. Throng's own.
    #[serde(deserialize_with = "or_default")]
    pub limit: u32,
}

/// Which connections of clients are asked for. What is empty fits all.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConnectionsRequest<'a> {
    /// A part of the user's name.
    #[serde(borrow, deserialize_with = "text")]
    pub user: Cow<'a, str>,
    /// A part of the client's address.
    #[serde(borrow, deserialize_with = "text")]
    pub address: Cow<'a, str>,
    /// `websocket`, `sse` or `stream`.
    #[serde(borrow, deserialize_with = "text")]
    pub transport: Cow<'a, str>,
    /// A channel that they subscribe to.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// Only those for which bytes wait.
    #[serde(deserialize_with = "or_default")]
    pub slow: bool,
    /// How many at most; 0 for the usual number.
    #[serde(deserialize_with = "or_default")]
    pub limit: u32,
}

/// Subscribes a user's connections to a channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubscribeRequest<'a> {
    /// The channel.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// The user.
    #[serde(borrow, deserialize_with = "text")]
    pub user: Cow<'a, str>,
    /// Only this connection of the user, by its public id; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub client: Cow<'a, str>,
    /// Only the connection with this session; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub session: Cow<'a, str>,
    /// JSON that others in the channel may see.
    #[serde(borrow, deserialize_with = "present")]
    pub info: Option<&'a RawValue>,
    /// JSON for the subscriber, told with the subscription.
    #[serde(borrow, deserialize_with = "present")]
    pub data: Option<&'a RawValue>,
    /// When the subscription ends, in Unix seconds; 0 for never.
    #[serde(deserialize_with = "or_default")]
    pub expire_at: i64,
    /// What is published since then is delivered first.
    #[serde(borrow)]
    pub recover_since: Option<Since<'a>>,
    /// `info` in base64, which counts first.
    #[serde(borrow, deserialize_with = "text")]
    pub b64info: Cow<'a, str>,
    /// `data` in base64, which counts first.
    #[serde(borrow, deserialize_with = "text")]
    pub b64data: Cow<'a, str>,
    /// Options of the channel that are set aside for this subscription, as the claim `override`.
    #[serde(borrow, rename = "override")]
    pub overrides: Option<&'a RawValue>,
}

/// Sets when a user's connections expire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RefreshRequest<'a> {
    /// The user.
    #[serde(borrow, deserialize_with = "text")]
    pub user: Cow<'a, str>,
    /// Only this connection of the user, by its public id; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub client: Cow<'a, str>,
    /// Only the connection with this session; empty for all.
    #[serde(borrow, deserialize_with = "text")]
    pub session: Cow<'a, str>,
    /// The connections have expired: they end now.
    #[serde(deserialize_with = "or_default")]
    pub expired: bool,
    /// When they expire, in Unix seconds; 0 for never.
    #[serde(deserialize_with = "or_default")]
    pub expire_at: i64,
}

/// Names a channel and nothing else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChannelRequest<'a> {
    /// The channel.
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
}

/// Calls a procedure of the server's.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RpcRequest<'a> {
    /// Its name.
    #[serde(borrow, deserialize_with = "text")]
    pub method: Cow<'a, str>,
}

fn payload(data: Option<&RawValue>, b64data: &str) -> Result<Payload, ApiError> {
    if !b64data.is_empty() {
        let bytes = STANDARD.decode(b64data).map_err(|_| ApiError::BadRequest)?;
        return Ok(payload_of(&bytes));
    }
    let data = data.ok_or(ApiError::BadRequest)?;
    Ok(Payload {
        bytes: data.get().as_bytes().into(),
        kind: PayloadKind::Json,
    })
}
