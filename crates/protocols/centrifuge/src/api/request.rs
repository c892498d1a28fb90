//! Calls of the server API, borrowed from the request body.
//!
//! Unknown fields are ignored, `null` means the default. Strings are as they came; an empty channel
//! or user is for the server to refuse with [`ApiError::BadRequest`].

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind};

use super::ApiError;
use crate::Since;
use crate::json::{or_default, payload_of, present, tags, text, texts};
use crate::strict::{self, Checked, Nothing};

/// A body that is not the JSON that its method asks for: HTTP status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedBody(Box<str>);

impl From<serde_json::Error> for MalformedBody {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string().into())
    }
}

/// The methods that are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Publishes into a channel.
    Publish,
    /// Publishes the same into many channels.
    Broadcast,
    /// Ends subscriptions of a user.
    Unsubscribe,
    /// Ends connections of a user.
    Disconnect,
    /// Asks for past publications.
    History,
    /// Asks which channels have subscribers.
    Channels,
    /// Asks about the nodes.
    Info,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 7] = [
        Self::Publish,
        Self::Broadcast,
        Self::Unsubscribe,
        Self::Disconnect,
        Self::History,
        Self::Channels,
        Self::Info,
    ];

    /// The method's name: the last part of its path, and its key in a batch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Broadcast => "broadcast",
            Self::Unsubscribe => "unsubscribe",
            Self::Disconnect => "disconnect",
            Self::History => "history",
            Self::Channels => "channels",
            Self::Info => "info",
        }
    }

    /// The inverse of [`Method::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// One call.
#[derive(Debug)]
pub enum ApiRequest<'a> {
    /// See [`Method::Publish`].
    Publish(PublishRequest<'a>),
    /// See [`Method::Broadcast`].
    Broadcast(BroadcastRequest<'a>),
    /// See [`Method::Unsubscribe`].
    Unsubscribe(UnsubscribeRequest<'a>),
    /// See [`Method::Disconnect`].
    Disconnect(DisconnectRequest<'a>),
    /// See [`Method::History`].
    History(HistoryRequest<'a>),
    /// See [`Method::Channels`].
    Channels(ChannelsRequest<'a>),
    /// See [`Method::Info`].
    Info,
}

impl ApiRequest<'_> {
    /// The method that was called.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Publish(_) => Method::Publish,
            Self::Broadcast(_) => Method::Broadcast,
            Self::Unsubscribe(_) => Method::Unsubscribe,
            Self::Disconnect(_) => Method::Disconnect,
            Self::History(_) => Method::History,
            Self::Channels(_) => Method::Channels,
            Self::Info => Method::Info,
        }
    }
}

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
}

/// Many calls in one request, answered in their order.
#[derive(Debug)]
pub struct BatchRequest<'a> {
    /// The calls; a command without a known call stands as the error for its place.
    pub commands: Vec<Result<ApiRequest<'a>, ApiError>>,
    /// Whether the backend does not care in which order the calls are made.
    pub parallel: bool,
}

/// A command of `POST /api`, the endpoint that existed before each method had its own.
#[derive(Debug)]
pub struct LegacyRequest<'a> {
    /// Comes back in the reply; 0 for none.
    pub id: u32,
    /// The call, or the error that is its answer.
    pub request: Result<ApiRequest<'a>, ApiError>,
}

/// Reads the body of `POST /api/METHOD`.
pub fn parse(method: Method, body: &[u8]) -> Result<ApiRequest<'_>, MalformedBody> {
    Ok(match method {
        Method::Publish => ApiRequest::Publish(strict::from_slice(body)?),
        Method::Broadcast => ApiRequest::Broadcast(strict::from_slice(body)?),
        Method::Unsubscribe => ApiRequest::Unsubscribe(strict::from_slice(body)?),
        Method::Disconnect => ApiRequest::Disconnect(strict::from_slice(body)?),
        Method::History => ApiRequest::History(strict::from_slice(body)?),
        Method::Channels => ApiRequest::Channels(strict::from_slice(body)?),
        Method::Info => strict::from_slice::<Nothing>(body).map(|_| ApiRequest::Info)?,
    })
}

/// Reads the body of `POST /api/batch`.
pub fn parse_batch(body: &[u8]) -> Result<BatchRequest<'_>, MalformedBody> {
    let batch: Batch<'_> = strict::from_slice(body)?;
    let commands = batch
        .commands
        .into_iter()
        .map(BatchCommand::into_request)
        .collect();
    Ok(BatchRequest {
        commands,
        parallel: batch.parallel,
    })
}

/// Reads the body of `POST /api`: one command or several, with or without white space between them.
pub fn parse_legacy(body: &[u8]) -> Result<Vec<LegacyRequest<'_>>, MalformedBody> {
    let mut requests = Vec::new();
    for command in
        serde_json::Deserializer::from_slice(body).into_iter::<Checked<LegacyCommand<'_>>>()
    {
        let Checked(command) = command?;
        requests.push(LegacyRequest {
            id: command.id,
            request: legacy_request(&command),
        });
    }
    if requests.is_empty() {
        return Err(MalformedBody("no command in the body".into()));
    }
    Ok(requests)
}

/// Method names were once written in any case; wrong parameters are an error of their command
/// alone.
fn legacy_request<'a>(command: &LegacyCommand<'a>) -> Result<ApiRequest<'a>, ApiError> {
    let name = command.method.to_ascii_lowercase();
    let method = Method::from_name(&name).ok_or(ApiError::NotFound)?;
    let params = command.params.map_or("{}", RawValue::get);
    parse(method, params.as_bytes()).map_err(|_| ApiError::BadRequest)
}

fn payload(data: Option<&RawValue>, b64data: &str) -> Result<Payload, ApiError> {
    if !b64data.is_empty() {
        let bytes = STANDARD.decode(b64data).map_err(|_| ApiError::BadRequest)?;
        return Ok(payload_of(bytes));
    }
    let data = data.ok_or(ApiError::BadRequest)?;
    Ok(Payload {
        bytes: data.get().as_bytes().into(),
        kind: PayloadKind::Json,
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Batch<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    commands: Vec<BatchCommand<'a>>,
    #[serde(deserialize_with = "or_default")]
    parallel: bool,
}

/// One command of a batch: a field for each method, of which the first that is set counts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchCommand<'a> {
    #[serde(borrow)]
    publish: Option<PublishRequest<'a>>,
    #[serde(borrow)]
    broadcast: Option<BroadcastRequest<'a>>,
    #[serde(borrow)]
    unsubscribe: Option<UnsubscribeRequest<'a>>,
    #[serde(borrow)]
    disconnect: Option<DisconnectRequest<'a>>,
    #[serde(borrow)]
    history: Option<HistoryRequest<'a>>,
    #[serde(borrow)]
    channels: Option<ChannelsRequest<'a>>,
    info: Option<Nothing>,
}

impl<'a> BatchCommand<'a> {
    fn into_request(self) -> Result<ApiRequest<'a>, ApiError> {
        let request = self.publish.map(ApiRequest::Publish);
        request
            .or_else(|| self.broadcast.map(ApiRequest::Broadcast))
            .or_else(|| self.unsubscribe.map(ApiRequest::Unsubscribe))
            .or_else(|| self.disconnect.map(ApiRequest::Disconnect))
            .or_else(|| self.history.map(ApiRequest::History))
            .or_else(|| self.channels.map(ApiRequest::Channels))
            .or_else(|| self.info.map(|_| ApiRequest::Info))
            .ok_or(ApiError::NotFound)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LegacyCommand<'a> {
    #[serde(deserialize_with = "or_default")]
    id: u32,
    #[serde(borrow, deserialize_with = "text")]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
