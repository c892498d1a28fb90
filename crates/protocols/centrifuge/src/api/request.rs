//! Calls of the server API, borrowed from the request body, and how several share one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::method::{ApiRequest, Method};
use super::params::{
    BroadcastRequest, ChannelRequest, ChannelsRequest, ConnectionsRequest, DisconnectRequest,
    HistoryRequest, PublishRequest, RefreshRequest, RpcRequest, SubscribeRequest,
    UnsubscribeRequest,
};
use crate::json::{or_default, text};
use crate::strict::{self, Checked, Nothing};

/// A body that is not the JSON that its method asks for: HTTP status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedBody(Box<str>);

impl MalformedBody {
    /// Refuses a body with more calls than one request may carry.
    ///
    /// # Errors
    /// It has more than `max`.
    pub fn check_count(count: usize, max: usize) -> Result<(), Self> {
        match count <= max {
            true => Ok(()),
            false => Err(Self(format!("more than {max} calls").into())),
        }
    }
}

impl From<serde_json::Error> for MalformedBody {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string().into())
    }
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
        Method::Subscribe => ApiRequest::Subscribe(strict::from_slice(body)?),
        Method::Unsubscribe => ApiRequest::Unsubscribe(strict::from_slice(body)?),
        Method::Disconnect => ApiRequest::Disconnect(strict::from_slice(body)?),
        Method::Refresh => ApiRequest::Refresh(strict::from_slice(body)?),
        Method::Presence => ApiRequest::Presence(strict::from_slice(body)?),
        Method::PresenceStats => ApiRequest::PresenceStats(strict::from_slice(body)?),
        Method::History => ApiRequest::History(strict::from_slice(body)?),
        Method::HistoryRemove => ApiRequest::HistoryRemove(strict::from_slice(body)?),
        Method::Channels => ApiRequest::Channels(strict::from_slice(body)?),
        Method::Connections => ApiRequest::Connections(strict::from_slice(body)?),
        Method::Info => {
            strict::from_slice::<Nothing>(body)?;
            ApiRequest::Info
        }
        Method::Rpc => ApiRequest::Rpc(strict::from_slice(body)?),
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
    subscribe: Option<SubscribeRequest<'a>>,
    #[serde(borrow)]
    unsubscribe: Option<UnsubscribeRequest<'a>>,
    #[serde(borrow)]
    disconnect: Option<DisconnectRequest<'a>>,
    #[serde(borrow)]
    refresh: Option<RefreshRequest<'a>>,
    #[serde(borrow)]
    presence: Option<ChannelRequest<'a>>,
    #[serde(borrow)]
    presence_stats: Option<ChannelRequest<'a>>,
    #[serde(borrow)]
    history: Option<HistoryRequest<'a>>,
    #[serde(borrow)]
    history_remove: Option<ChannelRequest<'a>>,
    #[serde(borrow)]
    channels: Option<ChannelsRequest<'a>>,
    #[serde(borrow)]
    connections: Option<ConnectionsRequest<'a>>,
    info: Option<Nothing>,
    #[serde(borrow)]
    rpc: Option<RpcRequest<'a>>,
}

impl<'a> BatchCommand<'a> {
    fn into_request(self) -> Result<ApiRequest<'a>, ApiError> {
        let request = self.publish.map(ApiRequest::Publish);
        request
            .or_else(|| self.broadcast.map(ApiRequest::Broadcast))
            .or_else(|| self.subscribe.map(ApiRequest::Subscribe))
            .or_else(|| self.unsubscribe.map(ApiRequest::Unsubscribe))
            .or_else(|| self.disconnect.map(ApiRequest::Disconnect))
            .or_else(|| self.refresh.map(ApiRequest::Refresh))
            .or_else(|| self.presence.map(ApiRequest::Presence))
            .or_else(|| self.presence_stats.map(ApiRequest::PresenceStats))
            .or_else(|| self.history.map(ApiRequest::History))
            .or_else(|| self.history_remove.map(ApiRequest::HistoryRemove))
            .or_else(|| self.channels.map(ApiRequest::Channels))
            .or_else(|| self.connections.map(ApiRequest::Connections))
            .or_else(|| self.info.map(|_| ApiRequest::Info))
            .or_else(|| self.rpc.map(ApiRequest::Rpc))
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
