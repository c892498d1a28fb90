//! Reads items in every coding, and writes the form in which one travels through the server.

use serde::Deserialize as _;
use throng_http1::field::Header;
use throng_types::ChannelName;

use super::{
    HttpResponseItem, HttpStreamItem, Item, ItemBody, ResponseItem, WsKind, WsMessageItem,
};
use crate::headers::headers_of;
use crate::tnet::{self, TnetError};
use crate::value::{Coding, DocumentError, Fields, NewObject, Value};

/// The longest name of a channel, in bytes. Pushpin has no bound; clients and backends that put
/// names into headers have one below this.
pub const CHANNEL_BYTES_MAX: usize = 2048;

/// Why a publish was not taken. The text is meant for the publisher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("the body is not JSON")]
    NotJson,
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error("the body has no list of items")]
    NoItems,
    #[error("items must be a list")]
    ItemsWrongType,
    #[error("{}{fault}", which(*.index, *.count))]
    Item {
        /// Index of the item, from 0.
        index: usize,
        /// Number of items in the body.
        count: usize,
        fault: DocumentError,
    },
}

/// Why a message over ZeroMQ is not an item. It has no answer, so this goes to the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    #[error("message has {found} parts instead of {expected}")]
    Parts {
        /// Number of parts that came.
        found: usize,
        /// One for PULL, two for SUB.
        expected: usize,
    },
    #[error("message is no tnetstring: {0}")]
    Tnetstring(#[from] TnetError),
    #[error("message is not JSON")]
    Json,
    #[error("{0}")]
    Document(#[from] DocumentError),
}

fn which(index: usize, count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        _ => format!("in item {index} of {count}: "),
    }
}

const PLACE: &str = "item";

/// Reads the body of `POST /publish/`: `{"items": [...]}`. All items or none.
pub fn items_of_json(body: &[u8]) -> Result<Vec<Item>, PublishError> {
    let value = Value::from_json(body).map_err(|_| PublishError::NotJson)?;
    items_of_value(value, Coding::Json)
}

/// Reads an object with a list `items`, such as the arguments of the command `publish`.
pub fn items_of_value(value: Value, coding: Coding) -> Result<Vec<Item>, PublishError> {
    let mut body = Fields::new(value, coding, "body").map_err(|_| PublishError::NotAnObject)?;
    let items = match body.take("items") {
        None => return Err(PublishError::NoItems),
        Some(Value::List(items)) => items,
        Some(_) => return Err(PublishError::ItemsWrongType),
    };
    let count = items.len();
    items
        .into_iter()
        .enumerate()
        .map(|(index, value)| {
            read(value, coding, None).map_err(|fault| PublishError::Item {
                index,
                count,
                fault,
            })
        })
        .collect()
}

/// Reads a message of the PULL socket: one part, an item with its channel inside.
pub fn zmq_pull_item(parts: &[impl AsRef<[u8]>]) -> Result<Item, ItemError> {
    let [part] = parts else {
        return Err(parts_fault(parts.len(), 1));
    };
    let (value, coding) = decode(part.as_ref())?;
    Ok(read(value, coding, None)?)
}

/// Reads a message of the SUB socket: the channel, then an item without one.
pub fn zmq_sub_item(parts: &[impl AsRef<[u8]>]) -> Result<Item, ItemError> {
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

fn parts_fault(found: usize, expected: usize) -> ItemError {
    ItemError::Parts { found, expected }
}

/// `J` and JSON, or a tnetstring with or without `T` before it. What stands behind the
/// tnetstring is ignored.
fn decode(part: &[u8]) -> Result<(Value, Coding), ItemError> {
    match part {
        [b'J', json @ ..] => Value::from_json(json)
            .map(|value| (value, Coding::Json))
            .map_err(|_| ItemError::Json),
        [b'T', tnet @ ..] | tnet => Ok((tnet::decode(tnet)?.0, Coding::Tnetstring)),
    }
}

fn read(value: Value, coding: Coding, channel: Option<String>) -> Result<Item, DocumentError> {
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
    // The size that Pushpin's statistics count; ours count no bytes.
    item.integer("size", 0, i64::from(i32::MAX))?;
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
    let [response, stream, message] = ["http-response", "http-stream", "ws-message"]
        .map(|name| formats.take(name).map(|value| (value, name)));
    if response.is_none() && stream.is_none() && message.is_none() && !may_be_unknown {
        return Err(DocumentError::NoFormats);
    }
    Ok(Item {
        channel,
        id,
        prev_id,
        no_seq,
        meta,
        http_response: form(response, coding, http_response)?,
        http_stream: form(stream, coding, http_stream)?,
        ws_message: form(message, coding, ws_message)?,
    })
}

fn form<T>(
    value: Option<(Value, &'static str)>,
    coding: Coding,
    read: fn(Fields) -> Result<T, DocumentError>,
) -> Result<Option<T>, DocumentError> {
    value
        .map(|(value, place)| read(Fields::new(value, coding, place)?))
        .transpose()
}

enum Action {
    Send,
    Hint,
    Close,
    Refresh,
}

fn action(format: &mut Fields) -> Result<Action, DocumentError> {
    match format.text("action")?.as_deref() {
        None | Some("send") => Ok(Action::Send),
        Some("hint") => Ok(Action::Hint),
        Some("close") => Ok(Action::Close),
        Some("refresh") => Ok(Action::Refresh),
        Some(_) => Err(format.invalid("action")),
    }
}

fn http_response(mut format: Fields) -> Result<HttpResponseItem, DocumentError> {
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
        Some((body, _)) => ItemBody::Whole(body),
        None => match format.take("body-patch") {
            Some(Value::List(operations)) => {
                ItemBody::Patch(operations.into_iter().map(Value::into_json).collect())
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

fn http_stream(mut format: Fields) -> Result<HttpStreamItem, DocumentError> {
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

fn ws_message(mut format: Fields) -> Result<WsMessageItem, DocumentError> {
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
    if !kind.fits(&content) {
        return Err(format.invalid("content"));
    }
    Ok(WsMessageItem::Send {
        kind,
        content,
        content_filters,
    })
}

/// Stands in front of an encoded item, so that nobody takes other data for one.
const MARK: &[u8] = b"\0GRIP\0";

fn texts(list: &Option<Vec<String>>) -> Option<Value> {
    let list = list.as_ref()?.iter().map(|text| Value::from(&**text));
    Some(Value::List(list.collect()))
}

fn only_action(name: &str) -> NewObject {
    NewObject::default().with("action", name)
}

impl Item {
    /// Appends the item, without its channel, so that [`Item::decode`] reads the same. False,
    /// and nothing appended, if no transport gets anything of it.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let [response, stream, message] = [
            self.http_response.as_ref().and_then(response),
            self.http_stream.as_ref().and_then(stream),
            self.ws_message.as_ref().and_then(message),
        ];
        if response.is_none() && stream.is_none() && message.is_none() {
            return false;
        }
        let formats = NewObject::default()
            .with_some("http-response", response)
            .with_some("http-stream", stream)
            .with_some("ws-message", message);
        let meta = self.meta.iter();
        let meta = meta.fold(NewObject::default(), |meta, (key, value)| {
            meta.with(key, &**value)
        });
        let item = NewObject::default()
            .with("formats", formats)
            .with_some("id", self.id.as_deref())
            .with_some("prev-id", self.prev_id.as_deref())
            .with_some("no-seq", self.no_seq.then_some(true))
            .with_some("meta", (!self.meta.is_empty()).then_some(meta));
        out.extend_from_slice(MARK);
        tnet::encode(&item.into(), out);
        true
    }

    /// Reads what [`Item::encode`] wrote. None for anything else.
    #[must_use]
    pub fn decode(channel: &ChannelName, bytes: &[u8]) -> Option<Self> {
        decode_item(channel, bytes.strip_prefix(MARK)?)
    }
}

fn response(item: &HttpResponseItem) -> Option<NewObject> {
    let item = match item {
        HttpResponseItem::Send(item) => item,
        HttpResponseItem::Hint => return Some(only_action("hint")),
        HttpResponseItem::Nothing => return None,
    };
    let pair = |header: &Header| {
        let value = Value::Bytes(header.value.to_vec());
        Value::List(vec![(&*header.name).into(), value])
    };
    let object = NewObject::default()
        .with("code", u64::from(item.code))
        .with_some("reason", item.reason.as_deref())
        .with(
            "headers",
            Value::List(item.headers.iter().map(pair).collect()),
        )
        .with_some("content-filters", texts(&item.content_filters));
    Some(match &item.body {
        ItemBody::Whole(body) => object.with("body-bin", Value::Bytes(body.clone())),
        ItemBody::Patch(operations) => {
            // Any JSON is a value.
            let operations = operations.iter().flat_map(Value::deserialize);
            object.with("body-patch", Value::List(operations.collect()))
        }
    })
}

fn stream(item: &HttpStreamItem) -> Option<NewObject> {
    match item {
        HttpStreamItem::Send {
            content,
            content_filters,
        } => Some(
            NewObject::default()
                .with("content-bin", Value::Bytes(content.clone()))
                .with_some("content-filters", texts(content_filters)),
        ),
        HttpStreamItem::Hint => Some(only_action("hint")),
        HttpStreamItem::Close => Some(only_action("close")),
        HttpStreamItem::Nothing => None,
    }
}

fn message(item: &WsMessageItem) -> Option<NewObject> {
    match item {
        WsMessageItem::Send {
            kind,
            content,
            content_filters,
        } => Some(
            NewObject::default()
                .with("type", kind.name())
                .with("content-bin", Value::Bytes(content.clone()))
                .with_some("content-filters", texts(content_filters)),
        ),
        WsMessageItem::Close { code, reason } => Some(
            only_action("close")
                .with("reason", &**reason)
                .with_some("code", code.map(u64::from)),
        ),
        WsMessageItem::Refresh => Some(only_action("refresh")),
        WsMessageItem::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_is_what_was_read() {
        let body = br#"{"items": [
            {"channel": "a", "id": "2", "prev-id": "1", "meta": {"sender": "u"}, "formats": {
                "http-stream": {"content": "x\n", "content-filters": ["build-id"]},
                "ws-message": {"content-bin": "AP8="},
                "http-response": {"code": 201, "reason": "Made", "headers": {"A": "1"},
                    "body": "b"}}},
            {"channel": "a", "no-seq": true, "http-stream": {"action": "close"},
                "ws-message": {"action": "close", "code": 1001, "reason": "bye"},
                "http-response": {"action": "hint"}},
            {"channel": "a", "http-stream": {"action": "hint"}, "ws-message": {"type": "ping"},
                "http-response": {"body-patch": [
                    {"op": "add", "path": "/a", "value": [1, 1.5, null, true, "t"]}]}},
            {"channel": "a", "ws-message": {"action": "refresh"}}]}"#;
        for item in items_of_json(body).unwrap() {
            let mut wire = Vec::new();
            assert!(item.encode(&mut wire));
            assert_eq!(Item::decode(&item.channel, &wire), Some(item.clone()));
            for cut in 0..wire.len() {
                assert_eq!(Item::decode(&item.channel, &wire[..cut]), None);
            }
        }
        // As deep as JSON goes, behind the other levels of an item.
        let deep = format!("{}{}", "[".repeat(119), "]".repeat(119));
        let response = format!(r#"{{"body-patch": [{{"value": {deep}}}]}}"#);
        let body = format!(
            r#"{{"items": [{{"channel": "a", "formats": {{"http-response": {response}}}}}]}}"#
        );
        for item in items_of_json(body.as_bytes()).unwrap() {
            let mut wire = Vec::new();
            assert!(item.encode(&mut wire));
            assert_eq!(Item::decode(&item.channel, &wire), Some(item));
        }
        let nothing =
            items_of_json(br#"{"items": [{"channel": "a", "ws-message": {"action": "hint"}}]}"#);
        assert!(!nothing.unwrap()[0].encode(&mut Vec::new()));
    }
}
