//! Commands of a client, borrowed from the frame's bytes.
//!
//! Owns what a command means in either form. Several share a frame: in JSON one a line, in Protobuf
//! each behind its length.
//!
//! Never: judges whether a channel name is good or a token valid. An empty channel arrives as an
//! empty string, and the session refuses it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::ErrorCode;
use crate::code::{Malformed, not_a_command, utf8};
use crate::field::{IfThere, message};
use crate::json::ClientData;
use crate::protobuf::{self, FromProtobuf as _, Message, Value};
use crate::request::{Connect, History, Subscribe};
use crate::strict::{self, Nothing};

#[derive(Debug)]
pub struct ClientCommand<'a> {
    /// Matches the reply to the command; 0 in [`ClientRequest::Pong`] and, as a rule,
    /// [`ClientRequest::Send`]. A command without an id that expects a reply counts as a pong, as
    /// in the reference server.
    pub id: u32,
    pub request: ClientRequest<'a>,
}

/// Request of a command. Strings are as they came, unchecked; missing ones are empty.
#[derive(Debug)]
pub enum ClientRequest<'a> {
    /// The empty object: the answer to the server's ping.
    Pong,
    /// The first command of every connection.
    Connect(Connect<'a>),
    Subscribe(Subscribe<'a>),
    /// Ends a subscription to a channel.
    Unsubscribe {
        channel: Cow<'a, str>,
    },
    Publish {
        channel: Cow<'a, str>,
        /// Data to publish; never nothing.
        data: ClientData<'a>,
    },
    /// Asks who is in a channel.
    Presence {
        channel: Cow<'a, str>,
    },
    /// Asks how many are in a channel.
    PresenceStats {
        channel: Cow<'a, str>,
    },
    /// Asks for past publications.
    History(History<'a>),
    /// Asks for a reply and nothing else.
    Ping,
    /// A message to the application that expects no reply.
    Send {
        /// Data of the message; `null` or nothing when the field was missing.
        data: ClientData<'a>,
    },
    /// A call of the application's procedure.
    Rpc {
        /// The procedure's name, empty for the only one.
        method: Cow<'a, str>,
        /// Data of the call; `null` or nothing when the field was missing.
        data: ClientData<'a>,
    },
    /// Brings a new connection token.
    Refresh {
        /// New token, not empty unless it was missing.
        token: Cow<'a, str>,
    },
    /// Brings a new subscription token.
    SubRefresh {
        channel: Cow<'a, str>,
        /// New token, not empty unless it was missing.
        token: Cow<'a, str>,
    },
    /// A well-formed command that can only be answered with this error: it asks for a kind of
    /// subscription or publication that is not offered here, or publishes nothing.
    Refused(ErrorCode),
}

/// Reads one line of a frame in JSON; none if it is empty.
pub(crate) fn next<'a>(frame: &mut &'a [u8]) -> Option<Result<ClientCommand<'a>, Malformed>> {
    let end = memchr::memchr(b'\n', frame).unwrap_or(frame.len());
    let line = &frame[..end];
    *frame = frame.get(end + 1..).unwrap_or_default();
    (!line.trim_ascii().is_empty()).then(|| parse(line))
}

/// Reads one command of a frame in Protobuf, which stands behind its length.
pub(crate) fn next_message<'a>(frame: &mut &'a [u8]) -> Result<ClientCommand<'a>, Malformed> {
    protobuf::read::<Envelope<'_>>(protobuf::delimited(frame)?)?.into_command()
}

fn parse(line: &[u8]) -> Result<ClientCommand<'_>, Malformed> {
    let envelope: Envelope<'_> =
        strict::from_str(utf8(line)?).map_err(|error| not_a_command(&error))?;
    envelope.into_command()
}

/// A command before its parts were weighed against each other.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: u32,
    request: Option<(Field, ClientRequest<'a>)>,
}

impl<'a> Envelope<'a> {
    /// Takes a request. Of several the first by the order of [`Field`] is carried out, and of two
    /// of one kind the last (the reference server does the same).
    pub(crate) fn set(&mut self, field: Field, request: Option<ClientRequest<'a>>) {
        let first = self.request.as_ref().map(|(first, _)| *first);
        if let Some(request) = request
            && first.is_none_or(|first| field <= first)
        {
            self.request = Some((field, request));
        }
    }

    pub(crate) fn into_command(self) -> Result<ClientCommand<'a>, Malformed> {
        let id = self.id;
        let request = match self.request {
            Some((_, request @ ClientRequest::Send { .. })) => request,
            _ if id == 0 => ClientRequest::Pong,
            Some((_, request)) => request,
            None => return Err(Malformed::NoRequest),
        };
        Ok(ClientCommand { id, request })
    }
}

/// The fields of a command; the requests in the order in which the reference server looks for them.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(crate) enum Field {
    Id,
    Connect,
    Ping,
    Subscribe,
    Unsubscribe,
    Publish,
    Presence,
    PresenceStats,
    History,
    Rpc,
    Send,
    Refresh,
    SubRefresh,
    #[serde(other)]
    Unknown,
}

/// Body of a request, in either form.
pub(crate) trait Body<'a> {
    type Error;
    /// Data of a message that came without.
    const NO_DATA: ClientData<'static>;

    /// Reads the body; `None` if it is `null`.
    fn read<T: Deserialize<'a> + Message<'a>>(self) -> Result<Option<T>, Self::Error>;
}

impl<'de, A: MapAccess<'de>> Body<'de> for &mut A {
    type Error = A::Error;
    const NO_DATA: ClientData<'static> = ClientData::Json(RawValue::NULL);

    fn read<T: Deserialize<'de> + Message<'de>>(self) -> Result<Option<T>, A::Error> {
        self.next_value()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;

        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Id => {
                            envelope.id = map.next_value::<Option<u32>>()?.unwrap_or_default();
                        }
                        Field::Unknown => drop(map.next_value::<IgnoredAny>()?),
                        field => envelope.set(field, request(field, &mut map)?),
                    }
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

impl<'a> Message<'a> for Envelope<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        let field = match number {
            1 => return self.id.merge(value),
            4 => Field::Connect,
            5 => Field::Subscribe,
            6 => Field::Unsubscribe,
            7 => Field::Publish,
            8 => Field::Presence,
            9 => Field::PresenceStats,
            10 => Field::History,
            11 => Field::Ping,
            12 => Field::Send,
            13 => Field::Rpc,
            14 => Field::Refresh,
            15 => Field::SubRefresh,
            _ => return Ok(()),
        };
        let request = request(field, value)?;
        self.set(field, request);
        Ok(())
    }
}

impl<'a> Body<'a> for Value<'a> {
    type Error = Malformed;
    const NO_DATA: ClientData<'static> = ClientData::Bytes(b"");

    fn read<T: Message<'a>>(self) -> Result<Option<T>, Malformed> {
        protobuf::read(self.bytes()?).map(Some)
    }
}

/// Reads the request in a field; `None` if there is none.
pub(crate) fn request<'a, B: Body<'a>>(
    field: Field,
    body: B,
) -> Result<Option<ClientRequest<'a>>, B::Error> {
    Ok(match field {
        Field::Connect => body.read()?.map(ClientRequest::Connect),
        Field::Subscribe => body.read()?.map(subscribe),
        Field::Unsubscribe => {
            { body.read()? }.map(|OfChannel { channel }| ClientRequest::Unsubscribe { channel })
        }
        Field::Publish => body.read()?.map(publish),
        Field::Presence => {
            { body.read()? }.map(|OfChannel { channel }| ClientRequest::Presence { channel })
        }
        Field::PresenceStats => {
            { body.read()? }.map(|OfChannel { channel }| ClientRequest::PresenceStats { channel })
        }
        Field::History => body.read()?.map(ClientRequest::History),
        Field::Ping => body.read()?.map(|Nothing {}| ClientRequest::Ping),
        Field::Send => body.read()?.map(|Call { data, .. }| ClientRequest::Send {
            data: data.0.unwrap_or(B::NO_DATA),
        }),
        Field::Rpc => body
            .read()?
            .map(|Call { data, method }| ClientRequest::Rpc {
                method,
                data: data.0.unwrap_or(B::NO_DATA),
            }),
        Field::Refresh => { body.read()? }.map(|Token { token }| ClientRequest::Refresh { token }),
        Field::SubRefresh => body.read()?.map(sub_refresh),
        Field::Id | Field::Unknown => None,
    })
}

fn subscribe(subscribe: Subscribe<'_>) -> ClientRequest<'_> {
    if subscribe.kind == 0 {
        ClientRequest::Subscribe(subscribe)
    } else {
        ClientRequest::Refused(ErrorCode::NotAvailable)
    }
}

fn publish(publish: Publish<'_>) -> ClientRequest<'_> {
    if publish.kind != 0 {
        return ClientRequest::Refused(ErrorCode::NotAvailable);
    }
    match publish.data.0 {
        Some(data) => ClientRequest::Publish {
            channel: publish.channel,
            data,
        },
        None => ClientRequest::Refused(ErrorCode::BadRequest),
    }
}

fn sub_refresh(fresh: Fresh<'_>) -> ClientRequest<'_> {
    if fresh.kind == 0 {
        ClientRequest::SubRefresh {
            channel: fresh.channel,
            token: fresh.token,
        }
    } else {
        ClientRequest::Refused(ErrorCode::NotAvailable)
    }
}

message! {
    /// Body of the commands that name a channel and nothing else.
    struct OfChannel<'a> {
        channel: Cow<'a, str> = 1,
    }
}

message! {
    struct Publish<'a> {
        channel: Cow<'a, str> = 1,
        data: IfThere<ClientData<'a>> = 2,
        #[serde(rename = "type")]
        kind: i32 = 3,
    }
}

message! {
    /// Body of `rpc` and `send`.
    struct Call<'a> {
        data: IfThere<ClientData<'a>> = 1,
        method: Cow<'a, str> = 2,
    }
}

message! {
    struct Token<'a> {
        token: Cow<'a, str> = 1,
    }
}

message! {
    struct Fresh<'a> {
        channel: Cow<'a, str> = 1,
        token: Cow<'a, str> = 2,
        #[serde(rename = "type")]
        kind: i32 = 3,
    }
}
