//! Calls of the server API, borrowed from the request body, and their parameters.
//!
//! `null` means the default. Unknown fields are refused, as unknown options are: a misspelt name
//! would else have its default in silence. Fields that Centrifugo has and Throng has not are
//! ignored, as Centrifugo itself ignores those of its PRO version, so its clients keep working.
//! Strings are as they came; an empty channel or user is for the server to refuse. What is ours in
//! Protobuf is read by the same tables, and unknown numbers are passed over there.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::Payload;

use super::error::{CallError, MalformedBody, ServerApiError};
use super::fields::{Field, Fields, Kind, NoFields, misfit, parameters, unknown};
use super::parts::{HistoryRequest, Overrides, StatedPosition};
use crate::field::{IfThere, Tags, fields, or_default};
use crate::json::{ClientData, Text, each_entry, payload_of};
use crate::protobuf;
use crate::strict::{self, Checked};

/// Many calls in one request, answered in their order.
#[derive(Debug)]
pub struct BatchRequest<'a> {
    /// The calls; a command that is not one known call stands as the error for its place.
    pub commands: Vec<Result<ApiRequest<'a>, CallError>>,
    /// True if the backend does not care in which order the calls are made.
    pub parallel: bool,
}

/// A command of `POST /api`, the endpoint that existed before each method had its own.
#[derive(Debug)]
pub struct LegacyRequest<'a> {
    /// Comes back in the reply; 0 for none.
    pub id: u32,
    /// The call, or the error that is its answer.
    pub request: Result<ApiRequest<'a>, CallError>,
}

/// Reads the body of `POST /api/batch`.
pub fn parse_batch(body: &[u8]) -> Result<BatchRequest<'_>, MalformedBody> {
    let batch: Batch<'_> =
        strict::from_slice(body).map_err(|error| fault(body, misfit_in_batch, &error))?;
    let commands = batch.commands.into_iter();
    Ok(BatchRequest {
        commands: commands.map(|BatchCommand(call)| call).collect(),
        parallel: batch.parallel,
    })
}

/// The body's fault, by its field if one is at fault.
fn fault(
    body: &[u8],
    misfit: impl FnOnce(&str) -> Option<String>,
    error: &serde_json::Error,
) -> MalformedBody {
    let text = str::from_utf8(body).unwrap_or_default();
    MalformedBody::new(match misfit(text) {
        Some(misfit) => misfit,
        None if body.trim_ascii().is_empty() => EMPTY.to_owned(),
        None if error.is_eof() => "the JSON ends too early".to_owned(),
        None => error.to_string(),
    })
}

const EMPTY: &str = "the body is empty";

/// Finds the first field of a batch, or of its calls, that does not fit.
fn misfit_in_batch(body: &str) -> Option<String> {
    // Whether `commands` is a list is seen below.
    const FIELDS: [Field; 2] = [
        Field::new("commands", Kind::Json),
        Field::new("parallel", Kind::Flag),
    ];
    #[derive(Deserialize)]
    struct RawBatch<'a> {
        #[serde(borrow)]
        commands: Vec<&'a RawValue>,
    }
    if let Some(fault) = misfit(&FIELDS, body) {
        return Some(fault);
    }
    let batch: RawBatch<'_> = match serde_json::from_str(body) {
        Ok(batch) => batch,
        Err(error) if error.is_data() => {
            return Some("`commands` wants a list of objects".to_owned());
        }
        Err(_) => return None,
    };
    (0..)
        .zip(batch.commands)
        .find_map(|(at, command): (usize, _)| {
            let mut found = None;
            let each = |name: Cow<'_, str>, params: &RawValue| {
                let method = Method::from_name(&name);
                let fields = method.map(ApiRequest::fields);
                let fault = fields.and_then(|fields| misfit(fields, params.get()));
                let place = |fault| format!("in `commands[{at}].{name}`: {fault}");
                found = found.take().or_else(|| fault.map(place));
            };
            match each_entry(&mut serde_json::Deserializer::from_str(command.get()), each) {
                Ok(()) => found,
                Err(_) => Some(format!("in `commands[{at}]`: an object is wanted")),
            }
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
fn command_of(message: &[u8]) -> Result<Result<ApiRequest<'_>, CallError>, MalformedBody> {
    let mut fields = protobuf::Fields(message);
    while let Some((number, value)) = fields.next()? {
        let is_it = |method: &Method| u64::from(method.number()) == number;
        if let Some(method) = Method::ALL.into_iter().find(is_it) {
            return parse_message(method, value.bytes()?).map(Ok);
        }
    }
    Ok(Err(ServerApiError::NotFound.into()))
}

/// Reads the body of `POST /api`: one command or several, with or without white space between them.
pub fn parse_legacy(body: &[u8]) -> Result<Vec<LegacyRequest<'_>>, MalformedBody> {
    let mut requests = Vec::new();
    for command in
        serde_json::Deserializer::from_slice(body).into_iter::<Checked<LegacyCommand<'_>>>()
    {
        let Checked(command) = command.map_err(|error| fault(body, misfit_in_lines, &error))?;
        requests.push(LegacyRequest {
            id: command.id,
            request: legacy_request(&command),
        });
    }
    if requests.is_empty() {
        return Err(MalformedBody::new(EMPTY));
    }
    Ok(requests)
}

/// Finds the first field of the commands of `POST /api` that does not fit.
fn misfit_in_lines(body: &str) -> Option<String> {
    const FIELDS: [Field; 3] = [
        Field::new("id", Kind::Number(0, u32::MAX as u64)),
        Field::new("method", Kind::Text),
        Field::new("params", Kind::Json),
    ];
    let mut commands = serde_json::Deserializer::from_str(body).into_iter::<&RawValue>();
    commands.find_map(|command| misfit(&FIELDS, command.ok()?.get()))
}

/// Method names were once written in any case; wrong parameters are an error of their command
/// alone.
fn legacy_request<'a>(command: &LegacyCommand<'a>) -> Result<ApiRequest<'a>, CallError> {
    let name = command.method.to_ascii_lowercase();
    let method = match Method::from_name(&name) {
        Some(method) => method,
        None if name.is_empty() => return Err(ServerApiError::NoMethod.into()),
        None => return Err(ServerApiError::NotFound.into()),
    };
    let params = command.params.map_or("{}", RawValue::get);
    Ok(parse(method, params.as_bytes())?)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    commands: Vec<BatchCommand<'a>>,
    #[serde(deserialize_with = "or_default")]
    parallel: bool,
}

/// A command of a batch: one field, whose name is the method.
struct BatchCommand<'a>(Result<ApiRequest<'a>, CallError>);

impl<'de: 'a, 'a> Deserialize<'de> for BatchCommand<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommandVisitor<'a>(PhantomData<BatchCommand<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for CommandVisitor<'a> {
            type Value = BatchCommand<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut call, mut fault) = (None::<ApiRequest<'a>>, None);
                while let Some(Text(name)) = map.next_key()? {
                    let Some(method) = Method::from_name(&name) else {
                        map.next_value::<IgnoredAny>()?;
                        let known = || Method::ALL.map(Method::name).to_vec();
                        fault = fault.or_else(|| Some(unknown(&name, known())));
                        continue;
                    };
                    let next = ApiRequest::next_value(method, &mut map)?;
                    if let (Some(call), Some(next)) = (&call, &next) {
                        let [one, other] = [call, next].map(|call| call.method().name());
                        let text = format!("`{one}` and `{other}` are two commands");
                        fault = fault.or(Some(text));
                    }
                    call = call.or(next);
                }
                Ok(BatchCommand(match fault {
                    Some(fault) => Err(MalformedBody::new(fault).into()),
                    None => call.ok_or_else(|| ServerApiError::NotFound.into()),
                }))
            }
        }

        deserializer.deserialize_map(CommandVisitor(PhantomData))
    }
}

fields! {
    #[serde(deny_unknown_fields)]
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

        impl<'a> ApiRequest<'a> {
            /// Fields that the parameters of a method have.
            #[must_use]
            pub const fn fields(of: Method) -> &'static [Field] {
                match of {
                    $(Method::$Variant => <$($Params)? $($Empty)? as Fields>::FIELDS),+
                }
            }

            #[must_use]
            pub const fn method(&self) -> Method {
                match self { $(Self::$Variant { .. } => Method::$Variant),+ }
            }
        }

        /// Reads the body of `POST /api/METHOD`.
        pub fn parse<'a>(method: Method, body: &'a [u8]) -> Result<ApiRequest<'a>, MalformedBody> {
            let misfit = |body: &str| misfit(ApiRequest::fields(method), body);
            let fault = |error| fault(body, misfit, &error);
            Ok(match method {
                $(Method::$Variant => {
                    let params: $($Params)? $($Empty)? =
                        strict::from_slice(body).map_err(fault)?;
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

        impl<'a> ApiRequest<'a> {
            /// Reads the call behind a method's name; `null` is none.
            fn next_value<'de: 'a, A: MapAccess<'de>>(
                method: Method,
                map: &mut A,
            ) -> Result<Option<Self>, A::Error> {
                Ok(match method {
                    $(Method::$Variant => {
                        let params: Option<$($Params)? $($Empty)?> = map.next_value()?;
                        params.map(|params| methods!(@make $Variant params $(($Params))?))
                    })+
                })
            }
        }
    };
    (@make $Variant:ident $params:ident ($Params:ty)) => { ApiRequest::$Variant($params) };
    (@make $Variant:ident $params:ident) => {{
        let NoFields {} = $params;
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
    Info info = 13 [NoFields];
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

/// Declares the parameters of a method that publishes; the field of its channels comes first.
macro_rules! publishing {
    ($(#[$meta:meta])* $Name:ident { $($channels:tt)+ }) => {
        parameters! {
            $(#[$meta])*
            pub struct $Name<'a> {
                $($channels)+
                /// The publication: any JSON value. It or `b64data` is needed.
                pub data: IfThere<ClientData<'a>> = 2,
                /// Bytes in base64 (RFC 4648 section 4, padded), in place of `data`.
                pub b64data: Cow<'a, str> = 3,
                /// Deliver, and do not keep in the history.
                pub skip_history: bool = 4,
                /// Delivered with the publication; filters of subscribers look at them.
                pub tags: Tags<'a> = 5,
                /// A second publication into a channel with the same key within five minutes is
                /// answered like the first, and not published. With the broker in memory a shard
                /// remembers its newest 65,536 keys at most.
                pub idempotency_key: Cow<'a, str> = 6,
                /// No effect: the channel's `allowed_delta_types` decides.
                pub delta: bool = 7,
                /// Publish only if this is greater than the channel's newest version; if not, the
                /// answer is the position of the stream. 0 publishes always. No effect in a channel
                /// without history.
                pub version: u64 = 8,
                /// If the newest version has another epoch, `version` is not compared, and the
                /// publication goes out. An empty epoch is compared with any.
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
        /// The channel to publish to.
        pub channel: Cow<'a, str> = 1,
    }
}

publishing! {
    /// Parameters of `broadcast`: one publication for many channels.
    BroadcastRequest {
        /// The channels, 1 to 10,000. If one name is invalid, nothing is published (107).
        pub channels: Vec<Cow<'a, str>> = 1,
    }
}

parameters! {
    /// Ends a user's subscriptions to one channel.
    pub struct UnsubscribeRequest<'a> {
        /// The channel; all of theirs if it is empty.
        pub channel: Cow<'a, str> = 1,
        /// The user whose subscriptions end. One of `user`, `client` and `session` is needed.
        pub user: Cow<'a, str> = 2,
        /// Only this connection, by its public id.
        pub client: Cow<'a, str> = 3,
        /// Only the connection with this session id, on the node that gets the call.
        pub session: Cow<'a, str> = 4,
        ignored label_filter all_users
    }
}

parameters! {
    /// Ends a user's connections.
    pub struct DisconnectRequest<'a> {
        /// The user whose connections end. One of `user`, `client` and `session` is needed.
        pub user: Cow<'a, str> = 1,
        /// Only this connection, by its public id.
        pub client: Cow<'a, str> = 3,
        /// Only the connection with this session id, on the node that gets the call.
        pub session: Cow<'a, str> = 5,
        /// Connections to spare, by their public ids.
        pub whitelist: Vec<Cow<'a, str>> = 4,
        /// Code and reason, in place of 3503 "force disconnect".
        pub disconnect: Option<CustomDisconnect<'a>> = 2,
        ignored label_filter all_users
    }
}

parameters! {
    /// Why a backend ends a connection.
    #[derive(Clone, PartialEq, Eq)]
    pub struct CustomDisconnect<'a> {
        /// Needed in `disconnect`: 3000 to 4999. SDKs reconnect after 3000 to 3499 and 4000 to
        /// 4499, and not after others.
        pub code: u32 = 1,
        /// A text of up to 123 bytes (RFC 6455 section 5.5).
        pub reason: Cow<'a, str> = 2,
        ignored reconnect
    }
}

parameters! {
    /// Asks which channels have subscribers.
    pub struct ChannelsRequest<'a> {
        /// Channels whose whole name fits: `*` is any text, `?` any character, `{a,b}` one of
        /// these; all if it is empty.
        pub pattern: Cow<'a, str> = 1,
        /// At most so many, those with the most subscribers; 0 for all. Centrifugo has no such
        /// field.
        pub limit: u32 = 1000,
    }
}

parameters! {
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
        /// Only connections with bytes that wait to be sent, the most first.
        pub slow: bool = 1004,
        /// The most rows of the answer; 0 means 100, and more than 1,000 means 1,000.
        pub limit: u32 = 1000,
        ignored expression label_filter
    }
}

parameters! {
    /// Subscribes a user's connections to a channel.
    pub struct SubscribeRequest<'a> {
        /// The channel to subscribe them to.
        pub channel: Cow<'a, str> = 1,
        /// The user whose connections are subscribed. One of `user`, `client` and `session` is
        /// needed.
        pub user: Cow<'a, str> = 2,
        /// Only this connection, by its public id.
        pub client: Cow<'a, str> = 6,
        /// Only the connection with this session id, on the node that gets the call.
        pub session: Cow<'a, str> = 11,
        /// JSON that others in the channel may see.
        pub info: IfThere<ClientData<'a>> = 4,
        /// JSON that the client gets with the subscription.
        pub data: IfThere<ClientData<'a>> = 7,
        /// When the subscription ends, in Unix seconds; 0 or less for never.
        pub expire_at: i64 = 3,
        /// Deliver first what was published after this position, if the channel has `recovery`
        /// and its history has all of it.
        pub recover_since: Option<StatedPosition<'a>> = 9,
        /// Bytes in base64, in place of `info`.
        pub b64info: Cow<'a, str> = 5,
        /// Bytes in base64, in place of `data`.
        pub b64data: Cow<'a, str> = 8,
        /// Options in which this subscription differs from its channel.
        #[serde(rename = "override")]
        pub overrides: Overrides<'a> = 10,
        ignored presence join_leave position recover label_filter all_users
    }
}

parameters! {
    /// Sets when a user's connections expire.
    pub struct RefreshRequest<'a> {
        /// The user whose connections expire. One of `user`, `client` and `session` is needed.
        pub user: Cow<'a, str> = 1,
        /// Only this connection, by its public id.
        pub client: Cow<'a, str> = 2,
        /// Only the connection with this session id, on the node that gets the call.
        pub session: Cow<'a, str> = 6,
        /// End them at once, as expired (3005).
        pub expired: bool = 3,
        /// When they expire, in Unix seconds; 0 or less for never.
        pub expire_at: i64 = 4,
        ignored info label_filter all_users
    }
}

parameters! {
    /// Names a channel and nothing else.
    pub struct ChannelRequest<'a> {
        /// The channel, by its whole name.
        pub channel: Cow<'a, str> = 1,
    }
}

parameters! {
    /// Calls a procedure of the server's.
    pub struct RpcRequest<'a> {
        /// The procedure to call; there are none.
        pub method: Cow<'a, str> = 1,
        ignored params
    }
}

fn payload(data: Option<ClientData<'_>>, b64data: &str) -> Result<Payload, ServerApiError> {
    if !b64data.is_empty() {
        let bytes = STANDARD.decode(b64data);
        return Ok(payload_of(&bytes.map_err(|_| ServerApiError::BadBase64)?));
    }
    data.map(ClientData::payload).ok_or(ServerApiError::NoData)
}
