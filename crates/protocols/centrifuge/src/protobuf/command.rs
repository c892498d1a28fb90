//! Commands out of a frame's Protobuf messages.

use std::borrow::Cow;

use crate::code::Malformed;
use crate::command::{
    ClientRequest, Command, Envelope, Field, Fresh, OfChannel, Publish, publish, sub_refresh,
    subscribe,
};
use crate::filter::{DEPTH_MAX, FilterNode};
use crate::json::ClientData;
use crate::protobuf::wire::{Fields, Value, delimited};
use crate::request::HEADERS_MAX;
use crate::{Connect, Emulation, History, Since, Subscribe};

/// Reads one command of a frame in Protobuf, each behind its length.
pub(crate) fn next<'a>(frame: &mut &'a [u8]) -> Result<Command<'a>, Malformed> {
    read::<Envelope<'_>>(delimited(frame)?)?.into_command()
}

/// A message that is read field by field; what it does not know it passes over.
trait Message<'a>: Default {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed>;
}

fn read<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        message.field(number, value)?;
    }
    Ok(message)
}

/// Declares the fields of a message: the number, the field, and the method of [`Value`] that reads.
macro_rules! message {
    ($Type:ident $(<$a:lifetime>)? { $($number:literal: $field:ident = $read:ident),* $(,)? }) => {
        impl<'a> Message<'a> for $Type $(<$a>)? {
            fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
                match number {
                    $($number => self.$field = value.$read()?,)*
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

impl<'a> Message<'a> for Envelope<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        let channel = || read::<OfChannel<'a>>(value.bytes()?).map(|body| body.channel);
        let (field, request) = match number {
            1 => {
                // As with other numbers of 32 bits, what is above them is cut off.
                self.id = value.number()? as u32;
                return Ok(());
            }
            4 => (
                Field::Connect,
                ClientRequest::Connect(read(value.bytes()?)?),
            ),
            5 => (Field::Subscribe, subscribe(read(value.bytes()?)?)),
            6 => {
                let channel = channel()?;
                (Field::Unsubscribe, ClientRequest::Unsubscribe { channel })
            }
            7 => (Field::Publish, publish(read(value.bytes()?)?)),
            8 => {
                let channel = channel()?;
                (Field::Presence, ClientRequest::Presence { channel })
            }
            9 => {
                let channel = channel()?;
                (
                    Field::PresenceStats,
                    ClientRequest::PresenceStats { channel },
                )
            }
            10 => (
                Field::History,
                ClientRequest::History(read(value.bytes()?)?),
            ),
            11 => {
                read::<Nothing>(value.bytes()?)?;
                (Field::Ping, ClientRequest::Ping)
            }
            12 => {
                let Sent { data } = read(value.bytes()?)?;
                (Field::Send, ClientRequest::Send { data })
            }
            13 => {
                let Call { method, data } = read(value.bytes()?)?;
                (Field::Rpc, ClientRequest::Rpc { method, data })
            }
            14 => {
                let Token { token } = read(value.bytes()?)?;
                (Field::Refresh, ClientRequest::Refresh { token })
            }
            15 => (Field::SubRefresh, sub_refresh(read(value.bytes()?)?)),
            _ => return Ok(()),
        };
        self.take(field, request);
        Ok(())
    }
}

impl<'a> Value<'a> {
    /// Data, unless it is empty: in this form the two are alike.
    fn data_if_any(self) -> Result<Option<ClientData<'a>>, Malformed> {
        let bytes = self.bytes()?;
        Ok((!bytes.is_empty()).then_some(ClientData::Bytes(bytes)))
    }

    fn data(self) -> Result<ClientData<'a>, Malformed> {
        self.bytes().map(ClientData::Bytes)
    }

    fn borrowed(self) -> Result<Cow<'a, [u8]>, Malformed> {
        self.bytes().map(Cow::Borrowed)
    }

    fn since(self) -> Result<Option<Since<'a>>, Malformed> {
        read(self.bytes()?).map(Some)
    }

    fn subscribe(self) -> Result<Subscribe<'a>, Malformed> {
        read(self.bytes()?)
    }

    fn filter(self) -> Result<Option<FilterNode<'a>>, Malformed> {
        filter_node(self.bytes()?, DEPTH_MAX).map(Some)
    }
}

impl<'a> Message<'a> for Connect<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.token = value.text()?,
            2 => self.data = value.data_if_any()?,
            3 => {
                let Entry { channel, subscribe } = read(value.bytes()?)?;
                self.subs.push(Subscribe {
                    channel,
                    ..subscribe
                });
            }
            4 => self.name = value.text()?,
            5 => self.version = value.text()?,
            6 if self.headers.len() < HEADERS_MAX => {
                let Header { name, value } = read(value.bytes()?)?;
                self.headers.push((name, value));
            }
            7 => self.flag = value.int64()?,
            _ => {}
        }
        Ok(())
    }
}

/// An entry of the map from a header's name to its value.
#[derive(Default)]
struct Header<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
}

message!(Header<'a> { 1: name = text, 2: value = text });

/// An entry of the map from channel to request.
#[derive(Default)]
struct Entry<'a> {
    channel: Cow<'a, str>,
    subscribe: Subscribe<'a>,
}

message!(Entry<'a> { 1: channel = text, 2: subscribe = subscribe });

message!(Subscribe<'a> {
    1: channel = text,
    2: token = text,
    3: recover = flag,
    6: epoch = text,
    7: offset = number,
    8: data = data_if_any,
    9: positioned = flag,
    10: recoverable = flag,
    11: join_leave = flag,
    12: delta = text,
    13: filter = filter,
    14: flag = int64,
    15: kind = int32,
});

/// A node of a filter. Nodes stand in each other, so how deep is bounded here: the stack is.
fn filter_node(bytes: &[u8], depth: usize) -> Result<FilterNode<'_>, Malformed> {
    let below = depth.checked_sub(1).ok_or(Malformed::NotProtobuf)?;
    let mut node = FilterNode::default();
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => node.op = value.text()?,
            2 => node.key = value.text()?,
            3 => node.cmp = value.text()?,
            4 => node.val = value.text()?,
            5 => node.vals.push(value.text()?),
            6 => node.nodes.push(filter_node(value.bytes()?, below)?),
            _ => {}
        }
    }
    Ok(node)
}

message!(OfChannel<'a> { 1: channel = text });

message!(Publish<'a> { 1: channel = text, 2: data = data_if_any, 3: kind = int32 });

message!(History<'a> { 1: channel = text, 7: limit = int32, 8: since = since, 9: reverse = flag });

message!(Since<'a> { 1: offset = number, 2: epoch = text });

message!(Fresh<'a> { 1: channel = text, 2: token = text, 3: kind = int32 });

#[derive(Default)]
struct Token<'a> {
    token: Cow<'a, str>,
}
message!(Token<'a> { 1: token = text });

#[derive(Default)]
struct Sent<'a> {
    data: ClientData<'a>,
}
message!(Sent<'a> { 1: data = data });

#[derive(Default)]
struct Call<'a> {
    method: Cow<'a, str>,
    data: ClientData<'a>,
}
message!(Call<'a> { 1: data = data, 2: method = text });

/// Reads the body of `POST /emulation`.
pub(crate) fn emulation(body: &[u8]) -> Result<Emulation<'_>, Malformed> {
    read(body)
}

message!(Emulation<'a> { 1: node = text, 2: session = text, 3: data = borrowed });

#[derive(Default)]
struct Nothing;

impl Message<'_> for Nothing {
    fn field(&mut self, _: u64, _: Value<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}
