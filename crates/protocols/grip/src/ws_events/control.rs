//! Orders of a backend to the proxy inside text messages: `c:` and a JSON object.
//!
//! Only a backend that answered `Sec-WebSocket-Extensions: grip` is heard; then text and
//! binary messages with the prefix go to the client without it, and others vanish.

use throng_types::Save;

use crate::filters::Filters;
use crate::item::WsKind;
use crate::value::{Coding, DocumentError, Fields, Value};

/// The prefix of messages for the client, if the backend names no other.
pub const MESSAGE_PREFIX: &str = "m:";
/// Period of keep-alives if none is given, in seconds.
const KEEP_ALIVE_DEFAULT_S: u32 = 55;
/// Delay of a message if none is given, in seconds.
const SEND_DELAYED_DEFAULT_S: u32 = 1;

/// Order of the backend about its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// The connection listens to a channel. The route's prefix goes in front of the name.
    Subscribe {
        /// As the backend wrote it.
        channel: String,
        filters: Filters,
    },
    /// The connection no longer listens to a channel.
    Unsubscribe {
        /// As the backend wrote it.
        channel: String,
    },
    /// The backend lets go of the connection; the client stays.
    Detach,
    /// Names a session of Pushpin's state service, or none; without one nothing follows.
    Session {
        id: Option<String>,
    },
    /// Sets the connection's meta, for filters.
    SetMeta {
        /// The key, not empty.
        name: String,
        /// Value of the key; None removes it.
        value: Option<String>,
    },
    /// Sets the keep-alive of a silent connection. None switches it off.
    KeepAlive(Option<WsKeepAlive>),
    /// A message that goes out later, unless another one replaces or flushes it.
    SendDelayed {
        kind: WsKind,
        content: Vec<u8>,
        /// Delay before it goes out, in seconds.
        timeout_s: u32,
    },
    FlushDelayed,
}

/// Keep-alive of a WebSocket, one frame.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct WsKeepAlive {
    pub kind: WsKind,
    /// Payload of the frame.
    pub content: Vec<u8>,
    /// Seconds, at least 1.
    pub timeout_s: u32,
    /// True if the time counts from the keep-alive before, and not from whatever was sent last.
    pub is_interval: bool,
}

/// Why a control message means nothing. It is logged and ignored, as in Pushpin, but for
/// too many filters, which close the connection with 1011.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("control message: not JSON")]
    NotJson,
    #[error("control message: there is no type '{0}'")]
    UnknownType(String),
    #[error("control message: channel '{0}' has more filters than it may")]
    TooManyFilters(String),
    #[error("{0}")]
    Document(#[from] DocumentError),
}

impl ControlMessage {
    /// Reads the JSON behind `c:`.
    pub fn parse(json: &[u8]) -> Result<Self, ControlError> {
        let value = Value::from_json(json).map_err(|_| ControlError::NotJson)?;
        let mut message = Fields::new(value, Coding::Json, "control message")?;
        let kind = message.required_text("type")?;
        match kind.as_str() {
            "subscribe" => {
                let channel = named(&mut message, "channel")?;
                let names = message.texts("filters")?.unwrap_or_default();
                match Filters::from_names(names.iter().map(String::as_str)) {
                    Ok(filters) => Ok(Self::Subscribe { channel, filters }),
                    Err(_) => Err(ControlError::TooManyFilters(channel)),
                }
            }
            "unsubscribe" => Ok(Self::Unsubscribe {
                channel: named(&mut message, "channel")?,
            }),
            "detach" => Ok(Self::Detach),
            "session" => Ok(Self::Session {
                id: message.text("id")?.filter(|id| !id.is_empty()),
            }),
            "set-meta" => Ok(Self::SetMeta {
                name: named(&mut message, "name")?,
                value: message.text("value")?,
            }),
            "keep-alive" => keep_alive(message),
            "send-delayed" => {
                let (kind, content, timeout_s) = timed(&mut message)?;
                Ok(Self::SendDelayed {
                    kind,
                    content: content.unwrap_or_default(),
                    timeout_s: timeout_s.unwrap_or(SEND_DELAYED_DEFAULT_S),
                })
            }
            "flush-delayed" => Ok(Self::FlushDelayed),
            _ => Err(ControlError::UnknownType(kind)),
        }
    }
}

fn keep_alive(mut message: Fields) -> Result<ControlMessage, ControlError> {
    let (kind, content, timeout_s) = timed(&mut message)?;
    let mode = message.text("mode")?;
    Ok(ControlMessage::KeepAlive(content.map(|content| {
        WsKeepAlive {
            kind,
            content,
            timeout_s: timeout_s.unwrap_or(KEEP_ALIVE_DEFAULT_S),
            is_interval: mode.as_deref() == Some("interval"),
        }
    })))
}

/// A text that must be there and not be empty.
fn named(message: &mut Fields, field: &'static str) -> Result<String, DocumentError> {
    let text = message.required_text(field)?;
    if text.is_empty() {
        return Err(message.invalid(field));
    }
    Ok(text)
}

type Timed = (WsKind, Option<Vec<u8>>, Option<u32>);

/// `message-type`, `content` or `content-bin`, and `timeout`, where 0 is the default too.
/// Without `message-type` it is text, for `content-bin` as well.
fn timed(message: &mut Fields) -> Result<Timed, DocumentError> {
    let kind = match message.text("message-type")? {
        None => WsKind::Text,
        Some(name) => WsKind::from_name(&name).ok_or_else(|| message.invalid("message-type"))?,
    };
    let content = message
        .bytes("content", "content-bin")?
        .map(|(content, _)| content);
    if content.as_ref().is_some_and(|content| !kind.fits(content)) {
        return Err(message.invalid("content"));
    }
    let timeout_s = match content {
        Some(_) => message.integer("timeout", 0, i64::from(i32::MAX))?,
        None => None,
    };
    // Bounded just now.
    Ok((
        kind,
        content,
        timeout_s.filter(|&s| s > 0).map(|s| s as u32),
    ))
}

/// The message prefix of a backend that answered the extension `grip`, or none if it did not.
/// `extensions` are the values of `Sec-WebSocket-Extensions` in its answer.
#[must_use]
pub fn grip_prefix<'h>(extensions: impl IntoIterator<Item = &'h [u8]>) -> Option<String> {
    use crate::headers::{Element, text};
    for value in extensions {
        let fields = [("", value)];
        let grip = Element::all(&fields, "").find(|element| element.value() == b"grip");
        if let Some(grip) = grip {
            let prefix = grip.get("message-prefix");
            return Some(prefix.map_or_else(|| MESSAGE_PREFIX.to_owned(), |prefix| text(&prefix)));
        }
    }
    None
}

/// Sorts a backend's messages when the extension `grip` is on.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct GripFilter {
    prefix: Box<str>,
}

/// Destination of a backend's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GripMessage<'m> {
    /// For the client, without the prefix.
    Client(&'m [u8]),
    /// Order for the proxy itself.
    Control(Result<ControlMessage, ControlError>),
    /// For nobody: it has no prefix.
    Nobody,
}

impl GripFilter {
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        self.prefix.len()
    }

    #[must_use]
    pub fn sort<'m>(&self, is_text: bool, message: &'m [u8]) -> GripMessage<'m> {
        if is_text && let Some(json) = message.strip_prefix(b"c:") {
            return GripMessage::Control(ControlMessage::parse(json));
        }
        match message.strip_prefix(self.prefix.as_bytes()) {
            Some(content) => GripMessage::Client(content),
            None => GripMessage::Nobody,
        }
    }
}
