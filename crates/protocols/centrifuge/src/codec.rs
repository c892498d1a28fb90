//! The two forms of the bidirectional protocol.

use crate::code::Malformed;
use crate::command::Command;
use crate::reply::{Push, Reply};
use crate::request::Emulation;
use crate::{protobuf, push, reply};

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
    pub fn commands(self, frame: &[u8]) -> Commands<'_> {
        Commands(match self {
            Self::Json => Form::Json(crate::command::commands(frame)),
            Self::Protobuf => Form::Protobuf(protobuf::commands(frame)),
        })
    }

    /// Reads the body of `POST /emulation`.
    ///
    /// # Errors
    /// It is no such request.
    pub fn emulation(self, body: &[u8]) -> Result<Emulation<'_>, Malformed> {
        match self {
            Self::Json => Emulation::parse(body),
            Self::Protobuf => protobuf::emulation(body),
        }
    }

    /// Appends the reply to command `id`.
    pub fn reply(self, id: u32, reply: &Reply<'_>, out: &mut Vec<u8>) {
        if self == Self::Protobuf {
            return protobuf::append_reply(id, reply, out);
        }
        match *reply {
            Reply::Error(code) => reply::encode_error(id, code, out),
            Reply::Failure {
                code,
                message,
                temporary,
            } => reply::encode_failure(id, code, message, temporary, out),
            Reply::Connect(result) => reply::encode_connect_result(id, result, out),
            Reply::Subscribe(result) => reply::encode_subscribe_result(id, result, out),
            Reply::Unsubscribe => reply::encode_unsubscribe_result(id, out),
            Reply::Publish => reply::encode_publish_result(id, out),
            Reply::Presence(present) => {
                reply::encode_presence_result(id, present.iter().copied(), out);
            }
            Reply::PresenceStats { clients, users } => {
                reply::encode_presence_stats_result(id, clients, users, out);
            }
            Reply::History(result) => reply::encode_history_result(id, result, out),
            Reply::Ping => reply::encode_ping_result(id, out),
            Reply::Rpc(data) => reply::encode_rpc_result(id, data, out),
            Reply::Refresh(result) => reply::encode_refresh_result(id, result, out),
            Reply::SubRefresh(result) => reply::encode_sub_refresh_result(id, result, out),
        }
    }

    /// Appends a push.
    pub fn push(self, push: &Push<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json => push::encode_push(push, true, out),
            Self::Protobuf => protobuf::append_push(push, out),
        }
    }

    /// Appends the server's ping. The client answers with the same if the connect result asked for
    /// it.
    pub fn ping(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Json => reply::PING,
            Self::Protobuf => protobuf::PING,
        });
    }
}

/// The iterator of [`Codec::commands`].
#[derive(Clone, Debug)]
pub struct Commands<'a>(Form<'a>);

impl<'a> Commands<'a> {
    /// What has not been read of the frame, a frame of its own.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        match &self.0 {
            Form::Json(commands) => commands.rest(),
            Form::Protobuf(commands) => commands.rest(),
        }
    }
}

#[derive(Clone, Debug)]
enum Form<'a> {
    Json(crate::command::Commands<'a>),
    Protobuf(protobuf::Commands<'a>),
}

impl<'a> Iterator for Commands<'a> {
    type Item = Result<Command<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Form::Json(commands) => commands.next(),
            Form::Protobuf(commands) => commands.next(),
        }
    }
}

impl std::iter::FusedIterator for Commands<'_> {}
