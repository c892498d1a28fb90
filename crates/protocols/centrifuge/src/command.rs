//! Commands of a client, borrowed from the frame's bytes.
//!
//! Owns what a command means in either form, and its JSON form: several to a frame, one a line.
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

use crate::code::{Malformed, not_a_command, utf8};
use crate::json::{ClientData, or_default, present, text};
use crate::request::{Connect, History, Subscribe};
use crate::{ErrorCode, strict};

#[derive(Debug)]
pub struct Command<'a> {
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
pub(crate) fn next<'a>(frame: &mut &'a [u8]) -> Option<Result<Command<'a>, Malformed>> {
    let end = memchr::memchr(b'\n', frame).unwrap_or(frame.len());
    let line = &frame[..end];
    *frame = frame.get(end + 1..).unwrap_or_default();
    (!line.trim_ascii().is_empty()).then(|| parse(line))
}

fn parse(line: &[u8]) -> Result<Command<'_>, Malformed> {
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
    pub(crate) fn take(&mut self, field: Field, request: ClientRequest<'a>) {
        if self
            .request
            .as_ref()
            .is_none_or(|(first, _)| field <= *first)
        {
            self.request = Some((field, request));
        }
    }

    pub(crate) fn into_command(self) -> Result<Command<'a>, Malformed> {
        let id = self.id;
        let request = match self.request {
            Some((_, request @ ClientRequest::Send { .. })) => request,
            _ if id == 0 => ClientRequest::Pong,
            Some((_, request)) => request,
            None => return Err(Malformed::NoRequest),
        };
        Ok(Command { id, request })
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
                    read_field(&mut envelope, field, &mut map)?;
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

fn read_field<'de, A: MapAccess<'de>>(
    envelope: &mut Envelope<'de>,
    field: Field,
    map: &mut A,
) -> Result<(), A::Error> {
    let request = match field {
        Field::Id => {
            envelope.id = map.next_value::<Option<u32>>()?.unwrap_or_default();
            None
        }
        Field::Connect => map.next_value::<Option<_>>()?.map(ClientRequest::Connect),
        Field::Subscribe => map.next_value::<Option<_>>()?.map(subscribe),
        Field::Unsubscribe => of_channel(map, |channel| ClientRequest::Unsubscribe { channel })?,
        Field::Publish => map.next_value::<Option<_>>()?.map(publish),
        Field::Presence => of_channel(map, |channel| ClientRequest::Presence { channel })?,
        Field::PresenceStats => {
            of_channel(map, |channel| ClientRequest::PresenceStats { channel })?
        }
        Field::History => map.next_value::<Option<_>>()?.map(ClientRequest::History),
        Field::Ping => map
            .next_value::<Option<strict::Nothing>>()?
            .map(|_| ClientRequest::Ping),
        Field::Send => map
            .next_value::<Option<Call<'_>>>()?
            .map(|call| ClientRequest::Send { data: call.data() }),
        Field::Rpc => map
            .next_value::<Option<Call<'_>>>()?
            .map(|call| ClientRequest::Rpc {
                data: call.data(),
                method: call.method,
            }),
        Field::Refresh => map
            .next_value::<Option<Fresh<'_>>>()?
            .map(|fresh| ClientRequest::Refresh { token: fresh.token }),
        Field::SubRefresh => map.next_value::<Option<_>>()?.map(sub_refresh),
        Field::Unknown => {
            map.next_value::<IgnoredAny>()?;
            None
        }
    };
    if let Some(request) = request {
        envelope.take(field, request);
    }
    Ok(())
}

fn of_channel<'de, A: MapAccess<'de>>(
    map: &mut A,
    request: impl FnOnce(Cow<'de, str>) -> ClientRequest<'de>,
) -> Result<Option<ClientRequest<'de>>, A::Error> {
    let body = map.next_value::<Option<OfChannel<'de>>>()?;
    Ok(body.map(|body| request(body.channel)))
}

pub(crate) fn subscribe(subscribe: Subscribe<'_>) -> ClientRequest<'_> {
    if subscribe.kind == 0 {
        ClientRequest::Subscribe(subscribe)
    } else {
        ClientRequest::Refused(ErrorCode::NotAvailable)
    }
}

pub(crate) fn publish(publish: Publish<'_>) -> ClientRequest<'_> {
    if publish.kind != 0 {
        return ClientRequest::Refused(ErrorCode::NotAvailable);
    }
    match publish.data {
        Some(data) => ClientRequest::Publish {
            channel: publish.channel,
            data,
        },
        None => ClientRequest::Refused(ErrorCode::BadRequest),
    }
}

pub(crate) fn sub_refresh(fresh: Fresh<'_>) -> ClientRequest<'_> {
    if fresh.kind == 0 {
        ClientRequest::SubRefresh {
            channel: fresh.channel,
            token: fresh.token,
        }
    } else {
        ClientRequest::Refused(ErrorCode::NotAvailable)
    }
}

/// The body of the commands that name a channel and nothing else.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct OfChannel<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) channel: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Publish<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) channel: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "present")]
    pub(crate) data: Option<ClientData<'a>>,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: i32,
}

/// The body of `rpc` and `send`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Call<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) method: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "present")]
    pub(crate) data: Option<ClientData<'a>>,
}

impl<'a> Call<'a> {
    fn data(&self) -> ClientData<'a> {
        self.data.unwrap_or(ClientData::Json(RawValue::NULL))
    }
}

/// The body of `refresh` and `sub_refresh`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Fresh<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) channel: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "text")]
    pub(crate) token: Cow<'a, str>,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: i32,
}
