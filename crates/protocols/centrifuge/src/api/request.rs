//! Calls of the server API, borrowed from the request body, their parameters, and the errors that
//! answer them.
//!
//! Unknown fields are ignored, `null` means the default. Strings are as they came; an empty channel
//! or user is for the server to refuse with [`ServerApiError::BadRequest`].

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use throng_types::{Payload, coded_enum};

use super::parts::{HistoryRequest, Overrides};
use crate::code::Malformed;
use crate::field::{IfThere, Tags, fields, message, or_default};
use crate::json::{ClientData, payload_of};
use crate::protobuf;
use crate::request::Since;
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

impl From<Malformed> for MalformedBody {
    fn from(error: Malformed) -> Self {
        Self(error.to_string().into())
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
    pub commands: Vec<Result<ApiRequest<'a>, ServerApiError>>,
    /// True if the backend does not care in which order the calls are made.
    pub parallel: bool,
}

/// A command of `POST /api`, the endpoint that existed before each method had its own.
#[derive(Debug)]
pub struct LegacyRequest<'a> {
    /// Comes back in the reply; 0 for none.
    pub id: u32,
    /// The call, or the error that is its answer.
    pub request: Result<ApiRequest<'a>, ServerApiError>,
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

/// Reads the message of a batch.
pub fn parse_batch_message(message: &[u8]) -> Result<BatchRequest<'_>, MalformedBody> {
    let mut batch = BatchRequest {
        commands: Vec::new(),
        parallel: false,
    };
    let mut fields = protobuf::Fields(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => batch.commands.push(command_of(value.bytes()?)?),
            2 => batch.parallel = value.number()? != 0,
            _ => {}
        }
    }
    Ok(batch)
}

/// Reads a command of a batch, of whose fields the first that is a method counts.
fn command_of(message: &[u8]) -> Result<Result<ApiRequest<'_>, ServerApiError>, MalformedBody> {
    let mut fields = protobuf::Fields(message);
    while let Some((number, value)) = fields.next()? {
        let is_it = |method: &Method| u64::from(method.number()) == number;
        if let Some(method) = Method::ALL.into_iter().find(is_it) {
            return parse_message(method, value.bytes()?).map(Ok);
        }
    }
    Ok(Err(ServerApiError::NotFound))
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
fn legacy_request<'a>(command: &LegacyCommand<'a>) -> Result<ApiRequest<'a>, ServerApiError> {
    let name = command.method.to_ascii_lowercase();
    let method = Method::from_name(&name).ok_or(ServerApiError::NotFound)?;
    let params = command.params.map_or("{}", RawValue::get);
    parse(method, params.as_bytes()).map_err(|_| ServerApiError::BadRequest)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Batch<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    commands: Vec<BatchCommand<'a>>,
    #[serde(deserialize_with = "or_default")]
    parallel: bool,
}

fields! {
    struct LegacyCommand<'a> {
        id: u32,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    }
}

/// Declares the methods of the server API, the call of each, and how both are read.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $Variant:ident $name:ident = $number:literal $(($Params:ty))? $([$Empty:ty])?;
    )+) => {
        /// Method that is known; some are only refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method { $($(#[$doc])* $Variant),+ }

        impl Method {
            /// Every method, in the order of the table.
            pub const ALL: [Self; [$(stringify!($Variant)),+].len()] = [$(Self::$Variant),+];

            /// Last part of the method's path, and its key in a batch.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => stringify!($name)),+ }
            }

            /// Name among the calls of gRPC, but for the case of its letters.
            const fn rpc_name(self) -> &'static str {
                match self { $(Self::$Variant => stringify!($Variant)),+ }
            }

            /// Number of its field in a batch in Protobuf, in both directions.
            pub(super) const fn number(self) -> u32 {
                match self { $(Self::$Variant => $number),+ }
            }
        }

        /// Call of a method with its parameters.
        #[derive(Debug)]
        pub enum ApiRequest<'a> { $($(#[$doc])* $Variant $(($Params))?),+ }

        impl ApiRequest<'_> {
            #[must_use]
            pub const fn method(&self) -> Method {
                match self { $(Self::$Variant { .. } => Method::$Variant),+ }
            }
        }

        /// Reads the body of `POST /api/METHOD`.
        pub fn parse<'a>(method: Method, body: &'a [u8]) -> Result<ApiRequest<'a>, MalformedBody> {
            Ok(match method {
                $(Method::$Variant => {
                    let params: $($Params)? $($Empty)? = strict::from_slice(body)?;
                    methods!(@make $Variant params $(($Params))?)
                })+
            })
        }

        /// Reads the message of a call.
        pub fn parse_message<'a>(
            method: Method,
            message: &'a [u8],
        ) -> Result<ApiRequest<'a>, MalformedBody> {
            Ok(match method {
                $(Method::$Variant => {
                    let params: $($Params)? $($Empty)? = protobuf::read(message)?;
                    methods!(@make $Variant params $(($Params))?)
                })+
            })
        }

        /// One command of a batch: a field for each method, of which the first that is set counts.
        #[derive(Default, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        struct BatchCommand<'a> { $($name: Option<$($Params)? $($Empty)?>),+ }

        impl<'a> BatchCommand<'a> {
            fn into_request(self) -> Result<ApiRequest<'a>, ServerApiError> {
                $(if let Some(params) = self.$name {
                    return Ok(methods!(@make $Variant params $(($Params))?));
                })+
                Err(ServerApiError::NotFound)
            }
        }
    };
    (@make $Variant:ident $params:ident ($Params:ty)) => { ApiRequest::$Variant($params) };
    (@make $Variant:ident $params:ident) => {{
        let Nothing {} = $params;
        ApiRequest::$Variant
    }};
}

methods! {
    Publish publish = 4 (PublishRequest<'a>);
    /// Publishes the same data into many channels.
    Broadcast broadcast = 5 (BroadcastRequest<'a>);
    /// Subscribes a user's connections.
    Subscribe subscribe = 6 (SubscribeRequest<'a>);
    /// Ends subscriptions of a user.
    Unsubscribe unsubscribe = 7 (UnsubscribeRequest<'a>);
    /// Ends connections of a user.
    Disconnect disconnect = 8 (DisconnectRequest<'a>);
    /// Sets when a user's connections expire.
    Refresh refresh = 15 (RefreshRequest<'a>);
    /// Lists the clients in a channel.
    Presence presence = 9 (ChannelRequest<'a>);
    /// Counts the clients in a channel.
    PresenceStats presence_stats = 10 (ChannelRequest<'a>);
    /// Asks for past publications.
    History history = 11 (HistoryRequest<'a>);
    /// Forgets a channel's past publications.
    HistoryRemove history_remove = 12 (ChannelRequest<'a>);
    /// Lists channels with subscribers.
    Channels channels = 16 (ChannelsRequest<'a>);
    /// Lists connections of clients; not in Centrifugo.
    Connections connections = 17 (ConnectionsRequest<'a>);
    /// Asks about the nodes.
    Info info = 13 [Nothing];
    /// Calls a procedure of the server's.
    Rpc rpc = 14 (RpcRequest<'a>);
}

impl Method {
    /// The inverse of [`Method::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Finds the method of a call of gRPC.
    #[must_use]
    pub fn from_rpc_name(name: &str) -> Option<Self> {
        let name = if name == "RPC" { "Rpc" } else { name };
        let mut all = Self::ALL.into_iter();
        all.find(|method| method.rpc_name() == name)
    }
}

coded_enum! {
    /// Reason for which a call failed (Centrifugo, pages "Server API" and "Codes").
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ServerApiError {
        fn code -> u32;
        /// Text on the wire.
        fn message;
        /// A fault of ours.
        Internal = 100, "internal server error";
        /// The broker is away; nothing happened. The number is that of `Internal`,
        /// since Centrifugo has no other.
        Unavailable = 100, "broker unavailable: nothing was done, try again";
        /// The broker did not answer: it may have happened.
        Unknown = 100,
            "broker did not answer: it may have published, repeat with the same idempotency_key";
        /// Not every node has answered, so the call may have been carried out on some.
        Unanswered = 100,
            "not every node has answered: what was called for may have been done, try again";
        /// History cannot be written to disk; nothing happened.
        NotWritten = 100, "history cannot be written to disk: nothing was done, try again later";
        /// Published, but refused by the disk.
        NotOnDisk = 100, "published, but the disk refused it: repeat with the same idempotency_key";
        /// No such channel, or no such namespace.
        UnknownChannel = 102, "unknown channel";
        NotFound = 104, "not found";
        /// The call makes no sense.
        BadRequest = 107, "bad request";
        /// The server or the channel does not offer that.
        NotAvailable = 108, "not available";
        /// The stream no longer holds what was asked for, or has begun anew.
        UnrecoverablePosition = 112, "unrecoverable position";
        /// Something else happened in between.
        Conflict = 113, "conflict";
    }
}

impl ServerApiError {
    /// The HTTP status in transport error mode; in the ordinary mode it is always 200.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Internal => 500,
            Self::Unavailable
            | Self::Unknown
            | Self::Unanswered
            | Self::NotWritten
            | Self::NotOnDisk => 503,
            Self::UnknownChannel | Self::NotFound => 404,
            Self::BadRequest | Self::NotAvailable => 400,
            Self::UnrecoverablePosition => 416,
            Self::Conflict => 409,
        }
    }
}

impl fmt::Display for ServerApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl std::error::Error for ServerApiError {}

/// Declares the parameters of a method that publishes; the field of its channels comes first.
macro_rules! publishing {
    ($(#[$meta:meta])* $Name:ident { $($channels:tt)+ }) => {
        message! {
            $(#[$meta])*
            pub struct $Name<'a> {
                $($channels)+
                /// One JSON value, or bytes; nothing if the field is missing.
                pub data: IfThere<ClientData<'a>> = 2,
                /// Any bytes in base64 (RFC 4648 section 4, padded); goes before `data` unless
                /// empty.
                pub b64data: Cow<'a, str> = 3,
                /// Deliver, but do not keep.
                pub skip_history: bool = 4,
                pub tags: Tags<'a> = 5,
                /// A second publication into the same channel with the same key is dropped; empty
                /// for none.
                pub idempotency_key: Cow<'a, str> = 6,
                /// Deliver the difference to the previous publication where subscribers can read
                /// it.
                pub delta: bool = 7,
                /// Ignore the publication unless this is greater than the channel's last version;
                /// 0 for none.
                pub version: u64 = 8,
                /// Versions of different epochs are not compared.
                pub version_epoch: Cow<'a, str> = 9,
            }
        }

        impl $Name<'_> {
            /// The data to publish.
            pub fn payload(&self) -> Result<Payload, ServerApiError> {
                payload(self.data.0, &self.b64data)
            }
        }
    };
}

publishing! {
    /// Parameters of the method `publish`.
    PublishRequest {
        pub channel: Cow<'a, str> = 1,
    }
}

publishing! {
    /// Parameters of `broadcast`: one publication for many channels.
    BroadcastRequest {
        /// The channels; none at all is [`ServerApiError::BadRequest`], and so is an empty name,
        /// for itself alone.
        pub channels: Vec<Cow<'a, str>> = 1,
    }
}

message! {
    /// Ends a user's subscriptions to one channel.
    pub struct UnsubscribeRequest<'a> {
        /// The channel; empty for all of the user's.
        pub channel: Cow<'a, str> = 1,
        /// User whose subscriptions end.
        pub user: Cow<'a, str> = 2,
        /// Only this connection of the user, by its public id; empty for all.
        pub client: Cow<'a, str> = 3,
        /// Only the connection with this session; empty for all.
        pub session: Cow<'a, str> = 4,
    }
}

message! {
    /// Ends a user's connections.
    pub struct DisconnectRequest<'a> {
        /// User whose connections end.
        pub user: Cow<'a, str> = 1,
        /// Only this connection of the user, by its public id; empty for all.
        pub client: Cow<'a, str> = 3,
        /// Only the connection with this session; empty for all.
        pub session: Cow<'a, str> = 5,
        /// Connections to spare, by their public ids.
        pub whitelist: Vec<Cow<'a, str>> = 4,
        /// Code and reason of the backend's own choice.
        pub disconnect: Option<CustomDisconnect<'a>> = 2,
    }
}

message! {
    /// Why a backend ends a connection. 3000 to 3499 and 4000 to 4499 mean "come back", 3500 to
    /// 3999 and 4500 to 4999 "stay away".
    #[derive(Clone, PartialEq, Eq)]
    pub struct CustomDisconnect<'a> {
        /// The code; what is no WebSocket close code is for the server to refuse.
        pub code: u32 = 1,
        /// The text; a close frame has room for 123 bytes of it (RFC 6455 section 5.5).
        pub reason: Cow<'a, str> = 2,
    }
}

message! {
    /// Asks which channels have subscribers.
    pub struct ChannelsRequest<'a> {
        /// See [`super::NamePattern`]; empty for all.
        pub pattern: Cow<'a, str> = 1,
        /// Only so many, those with the most subscribers; 0 for all. Throng's own.
        pub limit: u32 = 1000,
    }
}

message! {
    /// Conditions on connections of clients. Empty ones fit all.
    pub struct ConnectionsRequest<'a> {
        /// A part of the user's name.
        pub user: Cow<'a, str> = 1,
        /// A part of the client's address.
        pub address: Cow<'a, str> = 1001,
        /// `websocket`, `sse` or `stream`.
        pub transport: Cow<'a, str> = 1002,
        /// A channel that they subscribe to.
        pub channel: Cow<'a, str> = 1003,
        /// Only those for which bytes wait.
        pub slow: bool = 1004,
        /// Bound on the rows; 0 for the usual number.
        pub limit: u32 = 1000,
    }
}

message! {
    /// Subscribes a user's connections to a channel.
    pub struct SubscribeRequest<'a> {
        pub channel: Cow<'a, str> = 1,
        pub user: Cow<'a, str> = 2,
        /// Only this connection of the user, by its public id; empty for all.
        pub client: Cow<'a, str> = 6,
        /// Only the connection with this session; empty for all.
        pub session: Cow<'a, str> = 11,
        /// JSON that others in the channel may see.
        pub info: IfThere<ClientData<'a>> = 4,
        /// JSON for the subscriber, told with the subscription.
        pub data: IfThere<ClientData<'a>> = 7,
        /// When the subscription ends, in Unix seconds; 0 for never.
        pub expire_at: i64 = 3,
        /// Position from which on publications are delivered first.
        pub recover_since: Option<Since<'a>> = 9,
        /// `info` in base64, which counts first.
        pub b64info: Cow<'a, str> = 5,
        /// `data` in base64, which counts first.
        pub b64data: Cow<'a, str> = 8,
        /// Options of the channel that are set aside for this subscription, as the claim
        /// `override`.
        #[serde(rename = "override")]
        pub overrides: Overrides<'a> = 10,
    }
}

message! {
    /// Sets when a user's connections expire.
    pub struct RefreshRequest<'a> {
        /// User whose connections expire.
        pub user: Cow<'a, str> = 1,
        /// Only this connection of the user, by its public id; empty for all.
        pub client: Cow<'a, str> = 2,
        /// Only the connection with this session; empty for all.
        pub session: Cow<'a, str> = 6,
        /// The connections have expired: they end now.
        pub expired: bool = 3,
        /// When they expire, in Unix seconds; 0 for never.
        pub expire_at: i64 = 4,
    }
}

message! {
    /// Names a channel and nothing else.
    pub struct ChannelRequest<'a> {
        pub channel: Cow<'a, str> = 1,
    }
}

message! {
    /// Calls a procedure of the server's.
    pub struct RpcRequest<'a> {
        /// Name of the procedure.
        pub method: Cow<'a, str> = 1,
    }
}

fn payload(data: Option<ClientData<'_>>, b64data: &str) -> Result<Payload, ServerApiError> {
    if !b64data.is_empty() {
        let bytes = STANDARD
            .decode(b64data)
            .map_err(|_| ServerApiError::BadRequest)?;
        return Ok(payload_of(&bytes));
    }
    data.map(ClientData::payload)
        .ok_or(ServerApiError::BadRequest)
}
