//! The command socket (5563): tnetstring requests `{id, method, args}` and their replies.
//!
//! Owns: reading requests and writing replies. Never: does what is asked.

use crate::item::{Item, PublishError, items_of_value};
use crate::tnet;
use crate::value::{Coding, Fields, NewObject, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct CommandRequest {
    /// Repeated in the reply. pubcontrol sends none.
    pub id: Option<Value>,
    /// Command, with its arguments read.
    pub command: CommandKind,
}

/// Commands that Pushpin has, and any other.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandKind {
    /// Asks for the publishing sockets; reply with [`ZmqUris`].
    GetZmqUris,
    /// Items, or why they are none.
    Publish(Result<Vec<Item>, PublishError>),
    /// All reliable streams and responses ask their backends.
    Recover,
    /// WebSocket-over-HTTP connections ask their backends.
    Refresh {
        connection_id: Option<String>,
        channel: Option<String>,
    },
    /// Asks which of these connections exist.
    ConnCheck {
        /// Connection ids; none if there is no list of them, which is a `bad-request`.
        ids: Option<Vec<String>>,
    },
    /// Anything else: reply with the condition `method-not-found`.
    Unknown(String),
}

/// Addresses that publishers connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZmqUris {
    pub command: Option<String>,
    /// URI of the PULL socket.
    pub publish_pull: Option<String>,
    /// The SUB socket, if it binds.
    pub publish_sub: Option<String>,
}

impl ZmqUris {
    #[must_use]
    pub fn to_value(&self) -> Value {
        NewObject::default()
            .with_some("command", self.command.as_deref())
            .with_some("publish-pull", self.publish_pull.as_deref())
            .with_some("publish-sub", self.publish_sub.as_deref())
            .into()
    }
}

impl CommandRequest {
    /// Reads the body of a request. None if it is no request at all: such a one gets no reply
    /// from Pushpin; a REQ socket is stuck then, so close its connection.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let (value, _) = tnet::decode(body).ok()?;
        let mut request = Fields::new(value, Coding::Tnetstring, "request").ok()?;
        let id = request.take("id");
        let method = request.required_text("method").ok()?;
        let args = request.take("args").unwrap_or(Value::Null);
        Some(Self {
            id,
            command: command(method, args),
        })
    }

    pub fn reply(&self, value: Value, out: &mut Vec<u8>) {
        self.encode(true, "value", value, out);
    }

    /// Appends the reply to a request that was not: a condition such as `bad-request`.
    pub fn reply_error(&self, condition: &str, out: &mut Vec<u8>) {
        self.encode(false, "condition", condition.into(), out);
    }

    fn encode(&self, success: bool, name: &str, value: Value, out: &mut Vec<u8>) {
        let reply = NewObject::default()
            .with_some("id", self.id.clone())
            .with("success", success)
            .with(name, value);
        tnet::encode(&reply.into(), out);
    }
}

fn command(method: String, args: Value) -> CommandKind {
    let fields = |args| Fields::new(args, Coding::Tnetstring, "args").ok();
    match method.as_str() {
        "get-zmq-uris" => CommandKind::GetZmqUris,
        "publish" => CommandKind::Publish(items_of_value(args, Coding::Tnetstring)),
        "recover" => CommandKind::Recover,
        "refresh" => {
            let mut args = fields(args);
            let mut text = |name| args.as_mut()?.take(name)?.into_text();
            CommandKind::Refresh {
                connection_id: text("cid"),
                channel: text("channel"),
            }
        }
        "conncheck" => CommandKind::ConnCheck {
            ids: fields(args).and_then(|mut args| args.texts("ids").ok()?),
        },
        _ => CommandKind::Unknown(method),
    }
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn what_pubcontrol_asks() {
        let request = CommandRequest::parse(b"25:6:method,12:get-zmq-uris,}").unwrap();
        assert_eq!(request.command, CommandKind::GetZmqUris);
        let uris = ZmqUris {
            publish_pull: Some("tcp://127.0.0.1:5560".to_owned()),
            ..ZmqUris::default()
        };
        let mut out = Vec::new();
        request.reply(uris.to_value(), &mut out);
        assert_eq!(
            out.escape_ascii().to_string(),
            "69:7:success,4:true!5:value,40:12:publish-pull,20:tcp://127.0.0.1:5560,}}"
        );
    }

    #[test]
    fn other_commands() {
        for (request, expected) in cases(include_str!("commands.txt")) {
            let value = Value::from_json(request.as_bytes()).unwrap();
            let mut wire = Vec::new();
            tnet::encode(&value, &mut wire);
            let found = CommandRequest::parse(&wire).map(|request| request.command);
            let found = match found {
                Some(CommandKind::Publish(Ok(items))) => format!("{} item", items.len()),
                Some(command) => format!("{command:?}"),
                None => "no request".to_owned(),
            };
            assert_eq!(found, expected, "{request}");
        }
        let request = CommandRequest {
            id: Some(Value::Int(7)),
            command: CommandKind::Recover,
        };
        let mut out = Vec::new();
        request.reply_error("bad-request", &mut out);
        let expected = b"54:2:id,1:7#7:success,5:false!9:condition,11:bad-request,}";
        assert_eq!(out, expected);
    }
}
