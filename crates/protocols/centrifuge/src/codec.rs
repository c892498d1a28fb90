//! The two forms of the bidirectional protocol.

use crate::code::Malformed;
use crate::command::{self, ClientCommand};
use crate::form::Form as _;
use crate::json::Object;
use crate::protobuf::{self, Protobuf};
use crate::reply::{
    ConnectResult, PING, PUSH, Push, Reply, encode_push, write_connect_push, write_push,
    write_reply,
};
use crate::request::{Connect, Emulation};

/// A form of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// JSON, several objects in a frame joined by `\n`.
    Json,
    /// Protobuf, each message behind its length.
    Protobuf,
}

impl Codec {
    /// Reads the commands of one frame. The first [`Malformed`] is the last item, because the
    /// connection ends with it; a frame without a command is [`Malformed::Empty`].
    pub const fn commands(self, frame: &[u8]) -> Commands<'_> {
        Commands {
            codec: self,
            rest: frame,
            any: false,
        }
    }

    /// Reads the body of `POST /emulation`.
    ///
    /// # Errors
    /// The bytes do not follow the protocol.
    pub fn emulation(self, body: &[u8]) -> Result<Emulation<'_>, Malformed> {
        match self {
            Self::Json => Emulation::parse(body),
            Self::Protobuf => protobuf::read(body),
        }
    }

    /// Appends the reply to command `id`.
    pub fn reply(self, id: u32, reply: &Reply<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json => Object::append(out, |form| write_reply(id, reply, form)),
            Self::Protobuf => Protobuf::append(out, |form| write_reply(id, reply, form)),
        }
    }

    pub fn push(self, push: &Push<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json => encode_push(push, true, out),
            Self::Protobuf => Protobuf::append(out, |form| {
                form.message(PUSH, |form| write_push(push, form));
            }),
        }
    }

    /// Reads a bare connect request, as unidirectional transports take it.
    ///
    /// # Errors
    /// The bytes do not follow the protocol.
    pub fn connect(self, request: &[u8]) -> Result<Connect<'_>, Malformed> {
        match self {
            Self::Json => Connect::parse(request),
            Self::Protobuf => Connect::parse_message(request),
        }
    }

    /// Appends a bare push, as unidirectional transports carry it; in Protobuf without its length.
    pub fn bare_push(self, push: &Push<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json => encode_push(push, false, out),
            Self::Protobuf => write_push(push, &mut Protobuf::bare(out)),
        }
    }

    /// Appends the first push of a unidirectional connection, as [`Codec::bare_push`] does others.
    pub fn connect_push(self, result: &ConnectResult<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json => Object::append(out, |form| write_connect_push(result, form)),
            Self::Protobuf => write_connect_push(result, &mut Protobuf::bare(out)),
        }
    }

    /// Appends the server's ping. The client answers with the same if the connect result asked for
    /// it.
    pub fn ping(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Json => PING,
            Self::Protobuf => protobuf::PING,
        });
    }
}

/// Iterator over a frame's commands, by [`Codec::commands`].
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    codec: Codec,
    /// Unread bytes; none once the frame has failed.
    rest: &'a [u8],
    /// A command was found, or the frame was refused for having none.
    any: bool,
}

impl<'a> Commands<'a> {
    /// The unread part of the frame, a frame of its own.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Commands<'a> {
    type Item = Result<ClientCommand<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let command = match self.codec {
                Codec::Json => command::next(&mut self.rest),
                Codec::Protobuf => Some(command::next_message(&mut self.rest)),
            };
            // Empty lines count for nothing.
            let Some(command) = command else { continue };
            self.any = true;
            if command.is_err() {
                self.rest = &[];
            }
            return Some(command);
        }
        (!std::mem::replace(&mut self.any, true)).then_some(Err(Malformed::Empty))
    }
}

impl std::iter::FusedIterator for Commands<'_> {}
