//! Writing items: the form in which one travels through the server.

use throng_types::ChannelName;

use super::{HttpResponseItem, HttpStreamItem, Item, ResponseBody, WsMessageItem};
use crate::tnet;
use crate::value::Value;

/// Stands in front of an encoded item, so that nobody takes other data for one.
const MARK: &[u8] = b"\0GRIP\0";

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn texts(list: &[String]) -> Value {
    Value::List(list.iter().map(|entry| text(entry)).collect())
}

fn entry(name: &str, value: Value) -> (String, Value) {
    (name.to_owned(), value)
}

fn action(name: &str) -> Value {
    Value::Object(vec![entry("action", text(name))])
}

impl Item {
    /// Appends the item, without its channel, so that [`Item::decode`] reads the same. False,
    /// and nothing appended, if no transport gets anything of it.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let formats = self.formats();
        if formats.is_empty() {
            return false;
        }
        let mut item = vec![entry("formats", Value::Object(formats))];
        item.extend(self.id.as_deref().map(|id| entry("id", text(id))));
        item.extend(self.prev_id.as_deref().map(|id| entry("prev-id", text(id))));
        if self.no_seq {
            item.push(entry("no-seq", Value::Bool(true)));
        }
        if !self.meta.is_empty() {
            let meta = self.meta.iter().map(|(key, value)| entry(key, text(value)));
            item.push(entry("meta", Value::Object(meta.collect())));
        }
        out.extend_from_slice(MARK);
        tnet::encode(&Value::Object(item), out);
        true
    }

    /// Reads what [`Item::encode`] wrote. None for anything else.
    #[must_use]
    pub fn decode(channel: &ChannelName, bytes: &[u8]) -> Option<Self> {
        super::read::decode_item(channel, bytes.strip_prefix(MARK)?)
    }

    fn formats(&self) -> Vec<(String, Value)> {
        let mut out = Vec::new();
        out.extend(
            self.http_response
                .as_ref()
                .and_then(response)
                .map(|value| entry("http-response", value)),
        );
        out.extend(
            self.http_stream
                .as_ref()
                .and_then(stream)
                .map(|value| entry("http-stream", value)),
        );
        out.extend(
            self.ws_message
                .as_ref()
                .and_then(message)
                .map(|value| entry("ws-message", value)),
        );
        out
    }
}

fn response(item: &HttpResponseItem) -> Option<Value> {
    let item = match item {
        HttpResponseItem::Send(item) => item,
        HttpResponseItem::Hint => return Some(action("hint")),
        HttpResponseItem::Nothing => return None,
    };
    let mut out = vec![entry("code", Value::Int(i64::from(item.code)))];
    out.extend(
        item.reason
            .as_deref()
            .map(|reason| entry("reason", text(reason))),
    );
    let pair =
        |name: &str, value: &[u8]| Value::List(vec![text(name), Value::Bytes(value.to_vec())]);
    let headers = item.headers.iter();
    let headers = headers.map(|header| pair(&header.name, &header.value));
    out.push(entry("headers", Value::List(headers.collect())));
    out.extend(
        item.content_filters
            .as_deref()
            .map(|list| entry("content-filters", texts(list))),
    );
    out.push(match &item.body {
        ResponseBody::Whole(body) => entry("body-bin", Value::Bytes(body.clone())),
        ResponseBody::Patch(operations) => {
            let operations = operations.iter().map(of_json).collect();
            entry("body-patch", Value::List(operations))
        }
    });
    Some(Value::Object(out))
}

fn stream(item: &HttpStreamItem) -> Option<Value> {
    match item {
        HttpStreamItem::Send {
            content,
            content_filters,
        } => {
            let mut out = vec![entry("content-bin", Value::Bytes(content.clone()))];
            out.extend(
                content_filters
                    .as_deref()
                    .map(|list| entry("content-filters", texts(list))),
            );
            Some(Value::Object(out))
        }
        HttpStreamItem::Hint => Some(action("hint")),
        HttpStreamItem::Close => Some(action("close")),
        HttpStreamItem::Nothing => None,
    }
}

fn message(item: &WsMessageItem) -> Option<Value> {
    match item {
        WsMessageItem::Send {
            kind,
            content,
            content_filters,
        } => {
            let mut out = vec![
                entry("type", text(kind.name())),
                entry("content-bin", Value::Bytes(content.clone())),
            ];
            out.extend(
                content_filters
                    .as_deref()
                    .map(|list| entry("content-filters", texts(list))),
            );
            Some(Value::Object(out))
        }
        WsMessageItem::Close { code, reason } => {
            let mut out = vec![
                entry("action", text("close")),
                entry("reason", text(reason)),
            ];
            out.extend(code.map(|code| entry("code", Value::Int(i64::from(code)))));
            Some(Value::Object(out))
        }
        WsMessageItem::Refresh => Some(action("refresh")),
        WsMessageItem::Nothing => None,
    }
}

fn of_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(value) => text(value),
        serde_json::Value::Array(list) => Value::List(list.iter().map(of_json).collect()),
        serde_json::Value::Object(map) => {
            let entries = map.iter().map(|(name, value)| entry(name, of_json(value)));
            Value::Object(entries.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items_of_json;
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
