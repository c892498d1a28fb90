//! Reading items.

use throng_types::ChannelName;

use super::{
    HttpResponseItem, HttpStreamItem, Item, ResponseBody, ResponseItem, WsKind, WsMessageItem,
};
use crate::headers::headers_of;
use crate::tnet::{self, TnetFault};
use crate::value::{Coding, DocFault, Fields, Value};

/// The largest body of a publish by HTTP, in bytes (`push_in_http_max_body_size`).
pub const ITEMS_BODY_BYTES_MAX: usize = 1_000_000;

/// The longest name of a channel, in bytes. Pushpin has no bound; clients and backends that put
/// names into headers have one below this.
pub const CHANNEL_BYTES_MAX: usize = 2048;

/// Why a publish was not taken. The text is meant for the publisher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishFault {
    /// The body is not JSON.
    #[error("the body is not JSON")]
    NotJson,
    /// The body is JSON, but not an object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// No list of items.
    #[error("the body has no list of items")]
    NoItems,
    /// The items are not a list.
    #[error("items must be a list")]
    ItemsWrongType,
    /// One of the items is wrong; none of them was published.
    #[error("{}{fault}", which(*.index, *.count))]
    Item {
        /// Which, from 0.
        index: usize,
        /// Of how many.
        count: usize,
        /// What is wrong with it.
        fault: DocFault,
    },
}

/// Why a message over ZeroMQ is not an item. It has no answer, so this goes to the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemFault {
    /// Another number of parts than the socket's.
    #[error("message has {found} parts instead of {expected}")]
    Parts {
        /// How many came.
        found: usize,
        /// One for PULL, two for SUB.
        expected: usize,
    },
    /// Not a tnetstring.
    #[error("message is no tnetstring: {0}")]
    Tnetstring(#[from] TnetFault),
    /// Announced as JSON, and is none.
    #[error("message is not JSON")]
    Json,
    /// Not an item.
    #[error("{0}")]
    Document(#[from] DocFault),
}

/// Says which item it was, where there are several.
fn which(index: usize, count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        _ => format!("in item {index} of {count}: "),
    }
}

const PLACE: &str = "item";

/// Reads the body of `POST /publish/`: `{"items": [...]}`. All items or none.
pub fn items_of_json(body: &[u8]) -> Result<Vec<Item>, PublishFault> {
    let value = Value::from_json(body).map_err(|_| PublishFault::NotJson)?;
    items_of_value(value, Coding::Json)
}

/// Reads an object with a list `items`, such as the arguments of the command `publish`.
pub fn items_of_value(value: Value, coding: Coding) -> Result<Vec<Item>, PublishFault> {
    let mut body = Fields::new(value, coding, "body").map_err(|_| PublishFault::NotAnObject)?;
    let items = match body.take("items") {
        None => return Err(PublishFault::NoItems),
        Some(Value::List(items)) => items,
        Some(_) => return Err(PublishFault::ItemsWrongType),
    };
    let count = items.len();
    items
        .into_iter()
        .enumerate()
        .map(|(index, value)| {
            read(value, coding, None).map_err(|fault| PublishFault::Item {
                index,
                count,
                fault,
            })
        })
        .collect()
}

/// Reads a message of the PULL socket: one part, an item with its channel inside.
pub fn zmq_pull_item(parts: &[impl AsRef<[u8]>]) -> Result<Item, ItemFault> {
    let [part] = parts else {
        return Err(parts_fault(parts.len(), 1));
    };
    let (value, coding) = decode(part.as_ref())?;
    Ok(read(value, coding, None)?)
}

/// Reads a message of the SUB socket: the channel, then an item without one.
pub fn zmq_sub_item(parts: &[impl AsRef<[u8]>]) -> Result<Item, ItemFault> {
    let [channel, part] = parts else {
        return Err(parts_fault(parts.len(), 2));
    };
    let (value, coding) = decode(part.as_ref())?;
    Ok(read(
        value,
        coding,
        Some(crate::headers::text(channel.as_ref())),
    )?)
}

/// Reads an item that [`Item::encode`] wrote. None for bytes that are none.
pub(super) fn decode_item(channel: &ChannelName, bytes: &[u8]) -> Option<Item> {
    let (value, rest) = tnet::decode_nested(bytes, tnet::OWN_DEPTH_MAX).ok()?;
    let whole = rest == bytes.len();
    let channel = Some(channel.as_str().to_owned());
    whole.then(|| read(value, Coding::Tnetstring, channel).ok())?
}

fn parts_fault(found: usize, expected: usize) -> ItemFault {
    ItemFault::Parts { found, expected }
}

/// `J` and JSON, or a tnetstring with or without `T` before it. What stands behind the
/// tnetstring is ignored.
fn decode(part: &[u8]) -> Result<(Value, Coding), ItemFault> {
    match part {
        [b'J', json @ ..] => Value::from_json(json)
            .map(|value| (value, Coding::Json))
            .map_err(|_| ItemFault::Json),
        [b'T', tnet @ ..] | tnet => Ok((tnet::decode(tnet)?.0, Coding::Tnetstring)),
    }
}

fn read(value: Value, coding: Coding, channel: Option<String>) -> Result<Item, DocFault> {
    let mut item = Fields::new(value, coding, PLACE)?;
    let channel = match channel.filter(|channel| !channel.is_empty()) {
        Some(channel) => channel,
        None => item.required_text("channel")?,
    };
    let channel = ChannelName::with_bound(&channel, CHANNEL_BYTES_MAX);
    let channel = channel.map_err(|_| item.invalid("channel"))?;
    let id = item.text("id")?;
    let prev_id = item.text("prev-id")?;
    let meta = item.meta()?;
    // Bounded here, so that it fits.
    let size = item
        .integer("size", 0, i64::from(i32::MAX))?
        .map(|size| size as u32);
    let no_seq = match item.take("no-seq") {
        None => false,
        Some(Value::Bool(no_seq)) => no_seq,
        Some(_) => return Err(item.wrong_type("no-seq")),
    };
    // Formats stand in an object of their own, or in the item itself.
    let (mut formats, may_be_unknown) = match item.object("formats", "formats")? {
        // As in Pushpin, formats that nobody here knows are somebody else's.
        Some(formats) => {
            let is_something = !formats.is_empty();
            (formats, is_something)
        }
        None => (item, false),
    };
    let mut format = |name, place| formats.take(name).map(|value| (value, place));
    let response = format("http-response", "http-response");
    let stream = format("http-stream", "http-stream");
    let message = format("ws-message", "ws-message");
    if response.is_none() && stream.is_none() && message.is_none() && !may_be_unknown {
        return Err(DocFault::NoFormats);
    }
    let open = |(value, place)| Fields::new(value, coding, place);
    Ok(Item {
        channel,
        id,
        prev_id,
        no_seq,
        size,
        meta,
        http_response: response
            .map(open)
            .transpose()?
            .map(http_response)
            .transpose()?,
        http_stream: stream.map(open).transpose()?.map(http_stream).transpose()?,
        ws_message: message.map(open).transpose()?.map(ws_message).transpose()?,
    })
}

enum Action {
    Send,
    Hint,
    Close,
    Refresh,
}

fn action(format: &mut Fields) -> Result<Action, DocFault> {
    match format.text("action")?.as_deref() {
        None | Some("send") => Ok(Action::Send),
        Some("hint") => Ok(Action::Hint),
        Some("close") => Ok(Action::Close),
        Some("refresh") => Ok(Action::Refresh),
        Some(_) => Err(format.invalid("action")),
    }
}

fn http_response(mut format: Fields) -> Result<HttpResponseItem, DocFault> {
    match action(&mut format)? {
        Action::Send => {}
        Action::Hint => return Ok(HttpResponseItem::Hint),
        Action::Close | Action::Refresh => return Ok(HttpResponseItem::Nothing),
    }
    // Bounded here, so that it fits.
    let code = format
        .integer("code", 0, 999)?
        .map_or(200, |code| code as u16);
    let reason = format.text("reason")?.filter(|reason| !reason.is_empty());
    let headers = headers_of(&mut format)?;
    let content_filters = format.texts("content-filters")?;
    let body = match format.bytes("body", "body-bin")? {
        Some((body, _)) => ResponseBody::Whole(body),
        None => match format.take("body-patch") {
            Some(Value::List(operations)) => {
                ResponseBody::Patch(operations.into_iter().map(Value::into_json).collect())
            }
            Some(_) => return Err(format.wrong_type("body-patch")),
            None => return Err(format.missing("one of body, body-bin and body-patch")),
        },
    };
    Ok(HttpResponseItem::Send(Box::new(ResponseItem {
        code,
        reason,
        headers,
        body,
        content_filters,
    })))
}

fn http_stream(mut format: Fields) -> Result<HttpStreamItem, DocFault> {
    match action(&mut format)? {
        Action::Send => {}
        Action::Hint => return Ok(HttpStreamItem::Hint),
        Action::Close => return Ok(HttpStreamItem::Close),
        Action::Refresh => return Ok(HttpStreamItem::Nothing),
    }
    let content_filters = format.texts("content-filters")?;
    let (content, _) = format
        .bytes("content", "content-bin")?
        .ok_or_else(|| format.missing("one of content and content-bin"))?;
    Ok(HttpStreamItem::Send {
        content,
        content_filters,
    })
}

fn ws_message(mut format: Fields) -> Result<WsMessageItem, DocFault> {
    match action(&mut format)? {
        Action::Send => {}
        Action::Hint => return Ok(WsMessageItem::Nothing),
        Action::Refresh => return Ok(WsMessageItem::Refresh),
        Action::Close => {
            // Larger codes do not fit a close frame.
            let code = format.integer("code", 0, i64::from(u16::MAX))?;
            return Ok(WsMessageItem::Close {
                code: code.map(|code| code as u16),
                reason: format.text("reason")?.unwrap_or_default(),
            });
        }
    }
    let kind = match format.text("type")? {
        None => None,
        Some(name) => Some(WsKind::from_name(&name).ok_or_else(|| format.invalid("type"))?),
    };
    let content_filters = format.texts("content-filters")?;
    let content = format.bytes("content", "content-bin")?;
    let (kind, content) = match (kind, content) {
        (Some(kind), Some((content, _))) => (kind, content),
        (None, Some((content, true))) => (WsKind::Binary, content),
        (None, Some((content, false))) => (WsKind::Text, content),
        (Some(kind @ (WsKind::Ping | WsKind::Pong)), None) => (kind, Vec::new()),
        (_, None) => return Err(format.missing("one of content and content-bin")),
    };
    let fits = match kind {
        // A text frame with anything else would break the client's connection (RFC 6455
        // section 8.1), and a longer control frame too (section 5.5).
        WsKind::Text => str::from_utf8(&content).is_ok(),
        WsKind::Ping | WsKind::Pong => content.len() <= 125,
        WsKind::Binary => true,
    };
    if !fits {
        return Err(format.invalid("content"));
    }
    Ok(WsMessageItem::Send {
        kind,
        content,
        content_filters,
    })
}
