//! What a client sends, out of its frames.

use std::borrow::Cow;

use crate::code::Malformed;
use crate::command::{
    Command, Envelope, Field, Fresh, OfChannel, Publish, Request, publish, sub_refresh, subscribe,
};
use crate::filter::{DEPTH_MAX, FilterNode};
use crate::json::Data;
use crate::protobuf::wire::{Fields, Value, delimited};
use crate::request::HEADERS_MAX;
use crate::{Connect, Emulation, History, Since, Subscribe};

/// Reads the commands of one frame in Protobuf. The first [`Malformed`] is the last item.
pub(crate) const fn commands(frame: &[u8]) -> Commands<'_> {
    Commands {
        rest: Some(frame),
        any: false,
    }
}

/// The commands of a frame in Protobuf, each behind its length.
#[derive(Clone, Debug)]
pub(crate) struct Commands<'a> {
    /// What has not been read; nothing once the frame has failed.
    rest: Option<&'a [u8]>,
    /// Whether a command was found.
    any: bool,
}

impl<'a> Commands<'a> {
    /// What has not been read.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        match self.rest {
            Some(rest) => rest,
            None => &[],
        }
    }
}

impl<'a> Iterator for Commands<'a> {
    type Item = Result<Command<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.as_mut()?;
        if rest.is_empty() {
            let is_first = !self.any;
            self.rest = None;
            return is_first.then_some(Err(Malformed::Empty));
        }
        self.any = true;
        let command = delimited(rest).and_then(command);
        if command.is_err() {
            self.rest = None;
        }
        Some(command)
    }
}

impl std::iter::FusedIterator for Commands<'_> {}

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

fn command(bytes: &[u8]) -> Result<Command<'_>, Malformed> {
    read::<Envelope<'_>>(bytes)?.into_command()
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
            4 => (Field::Connect, Request::Connect(read(value.bytes()?)?)),
            5 => (Field::Subscribe, subscribe(read(value.bytes()?)?)),
            6 => {
                let channel = channel()?;
                (Field::Unsubscribe, Request::Unsubscribe { channel })
            }
            7 => (Field::Publish, publish(read(value.bytes()?)?)),
            8 => {
                let channel = channel()?;
                (Field::Presence, Request::Presence { channel })
            }
            9 => {
                let channel = channel()?;
                (Field::PresenceStats, Request::PresenceStats { channel })
            }
            10 => (Field::History, Request::History(read(value.bytes()?)?)),
            11 => {
                read::<Nothing>(value.bytes()?)?;
                (Field::Ping, Request::Ping)
            }
            12 => {
                let Sent { data } = read(value.bytes()?)?;
                (Field::Send, Request::Send { data })
            }
            13 => {
                let Called { method, data } = read(value.bytes()?)?;
                (Field::Rpc, Request::Rpc { method, data })
            }
            14 => {
                let Token { token } = read(value.bytes()?)?;
                (Field::Refresh, Request::Refresh { token })
            }
            15 => (Field::SubRefresh, sub_refresh(read(value.bytes()?)?)),
            _ => return Ok(()),
        };
        self.take(field, request);
        Ok(())
    }
}

/// Data, unless it is empty: in this form the two are the same.
fn data<'a>(value: Value<'a>) -> Result<Option<Data<'a>>, Malformed> {
    let bytes = value.bytes()?;
    Ok((!bytes.is_empty()).then_some(Data::Bytes(bytes)))
}

impl<'a> Message<'a> for Connect<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.token = value.text()?,
            2 => self.data = data(value)?,
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
            7 => self.flag = value.number()? as i64,
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

impl<'a> Message<'a> for Header<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = value.text()?,
            2 => self.value = value.text()?,
            _ => {}
        }
        Ok(())
    }
}

/// An entry of the map from channel to request.
#[derive(Default)]
struct Entry<'a> {
    channel: Cow<'a, str>,
    subscribe: Subscribe<'a>,
}

impl<'a> Message<'a> for Entry<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.channel = value.text()?,
            2 => self.subscribe = read(value.bytes()?)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Subscribe<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.channel = value.text()?,
            2 => self.token = value.text()?,
            3 => self.recover = value.flag()?,
            6 => self.epoch = value.text()?,
            7 => self.offset = value.number()?,
            8 => self.data = data(value)?,
            9 => self.positioned = value.flag()?,
            10 => self.recoverable = value.flag()?,
            11 => self.join_leave = value.flag()?,
            12 => self.delta = value.text()?,
            13 => self.filter = Some(filter_node(value.bytes()?, DEPTH_MAX)?),
            14 => self.flag = value.number()? as i64,
            15 => self.kind = value.int32()?,
            _ => {}
        }
        Ok(())
    }
}

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

impl<'a> Message<'a> for OfChannel<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.channel = value.text()?;
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Publish<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.channel = value.text()?,
            2 => self.data = data(value)?,
            3 => self.kind = value.int32()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for History<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.channel = value.text()?,
            7 => self.limit = value.int32()?,
            8 => self.since = Some(read(value.bytes()?)?),
            9 => self.reverse = value.flag()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Since<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.offset = value.number()?,
            2 => self.epoch = value.text()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Fresh<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.channel = value.text()?,
            2 => self.token = value.text()?,
            3 => self.kind = value.int32()?,
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Token<'a> {
    token: Cow<'a, str>,
}

impl<'a> Message<'a> for Token<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.token = value.text()?;
        }
        Ok(())
    }
}

struct Sent<'a> {
    data: Data<'a>,
}

impl Default for Sent<'_> {
    fn default() -> Self {
        Self {
            data: Data::Bytes(b""),
        }
    }
}

impl<'a> Message<'a> for Sent<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.data = Data::Bytes(value.bytes()?);
        }
        Ok(())
    }
}

struct Called<'a> {
    method: Cow<'a, str>,
    data: Data<'a>,
}

impl Default for Called<'_> {
    fn default() -> Self {
        Self {
            method: Cow::default(),
            data: Data::Bytes(b""),
        }
    }
}

impl<'a> Message<'a> for Called<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.data = Data::Bytes(value.bytes()?),
            2 => self.method = value.text()?,
            _ => {}
        }
        Ok(())
    }
}

/// Reads the body of `POST /emulation`.
pub(crate) fn emulation(body: &[u8]) -> Result<Emulation<'_>, Malformed> {
    read(body)
}

impl<'a> Message<'a> for Emulation<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.node = value.text()?,
            2 => self.session = value.text()?,
            3 => self.data = Cow::Borrowed(value.bytes()?),
            _ => {}
        }
        Ok(())
    }
}

/// A message without fields.
#[derive(Default)]
struct Nothing;

impl Message<'_> for Nothing {
    fn field(&mut self, _: u64, _: Value<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}
