//! Messages of clients: `{"type":…,"data":…}` in one frame, text or binary.
//!
//! Owns: the grammar of each message, its checks in Appwrite's order and with its texts, limits.
//! Never: acts. A message parses the same whether or not it is allowed now.
//!
//! `authentication` may come before the first `subscribe` or after it (SDKs send both at once);
//! stock loses the connection's project in the first case, a fault that nobody may copy.

use std::borrow::Cow;

use serde_json::{Map, Value};
use throng_types::date;

use crate::{MessageLimits, QueryFilter, RealtimeError};

/// The longest session that Appwrite takes, in characters.
const SESSION_CHARS_MAX: usize = 2048;
/// The longest status of a presence, in characters.
const STATUS_CHARS_MAX: usize = 2048;
/// The longest id, in bytes (Appwrite's `CustomId`).
const ID_BYTES_MAX: usize = 36;

/// The rule for ids in words.
const UID_RULE: &str = "An id has 1 to 36 of the characters a-z, A-Z, 0-9, -, . and _, and begins \
                        with a letter or a digit";

#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// Sent every 20 s by SDKs from 16.1 on; answered with `pong`.
    Ping,
    /// A session for a connection whose handshake could carry none: base64 of JSON
    /// `{"id":…,"secret":…}`, not looked into here.
    Authentication {
        session: String,
    },
    Subscribe(Vec<SubscribeItem>),
    /// Ids of subscriptions to end. Unknown ones are answered with `removed: false`.
    Unsubscribe(Vec<String>),
    Presence(Presence),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SubscribeItem {
    /// The client's id for it; without one the server makes one.
    pub id: Option<String>,
    /// The channels as asked for; [`channel::convert`](crate::channel::convert) is still to come.
    pub channels: Vec<String>,
    pub filter: QueryFilter,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// Free text for other users.
    pub status: String,
    /// Id of the presence to change; none asks for a new id (`unique()` on the wire).
    pub id: Option<String>,
    /// A JSON object to keep with it.
    pub metadata: Option<Map<String, Value>>,
    /// Permission strings, not looked into here; without them only the user has any.
    pub permissions: Option<Vec<String>>,
}

impl Presence {
    /// The body of `PUT /v1/presences/ID` that writes it, good until a moment in Unix milliseconds.
    #[must_use]
    pub fn body(&self, until_unix_ms: u64) -> Vec<u8> {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("status", Value::from(&*self.status));
        put("expiresAt", Value::from(date::rfc3339(until_unix_ms)));
        if let Some(metadata) = &self.metadata {
            put("metadata", Value::Object(metadata.clone()));
        }
        if let Some(permissions) = &self.permissions {
            put("permissions", Value::from(&**permissions));
        }
        Value::Object(body).to_string().into_bytes()
    }
}

impl ClientMessage {
    /// Reads one frame's payload.
    ///
    /// # Errors
    /// The [`RealtimeError`] that Appwrite would answer; [`RealtimeError::Format`] for a frame
    /// beyond the limit.
    pub fn parse(frame: &[u8], limits: &MessageLimits) -> Result<Self, RealtimeError> {
        // The one message that every client sends all the time.
        if frame == br#"{"type":"ping"}"# {
            return Ok(Self::Ping);
        }
        if frame.len() > limits.message_bytes_max {
            return Err(RealtimeError::Format);
        }
        let message: Value = serde_json::from_slice(frame).map_err(|_| RealtimeError::Format)?;
        let Value::Object(mut message) = message else {
            return Err(RealtimeError::Format);
        };
        if !message.contains_key("type") && !message.contains_key("data") {
            return Err(RealtimeError::Format);
        }
        let data = message.remove("data").unwrap_or(Value::Null);
        match message.get("type").and_then(Value::as_str) {
            Some("ping") => Ok(Self::Ping),
            Some("authentication") => authentication(&data),
            Some("subscribe") => subscribe(&data, limits).map(Self::Subscribe),
            Some("unsubscribe") => unsubscribe(&data, limits).map(Self::Unsubscribe),
            Some("presence") => presence(data).map(Self::Presence),
            _ => Err(RealtimeError::MessageType),
        }
    }
}

fn authentication(data: &Value) -> Result<ClientMessage, RealtimeError> {
    match data.get("session") {
        None => Err(RealtimeError::Required("Session")),
        Some(Value::String(session)) if within(session, SESSION_CHARS_MAX) => {
            Ok(ClientMessage::Authentication {
                session: session.clone(),
            })
        }
        Some(_) => Err(RealtimeError::Field(
            "session",
            text_rule(SESSION_CHARS_MAX),
        )),
    }
}

fn subscribe(data: &Value, limits: &MessageLimits) -> Result<Vec<SubscribeItem>, RealtimeError> {
    let items = list(data)?;
    // Appwrite checks the form of every item before it reads any query.
    for item in items {
        check_item(item, limits)?;
    }
    if items.len() > limits.subscriptions_max {
        return Err(items_fault("Too many subscriptions."));
    }
    items.iter().map(|item| read_item(item, limits)).collect()
}

fn check_item(item: &Value, limits: &MessageLimits) -> Result<(), RealtimeError> {
    if !item.is_object() && !item.is_array() {
        return Err(items_fault("Each subscribe payload must be an object."));
    }
    if item.get("subscriptionId").is_some_and(|id| !is_id(id)) {
        return Err(items_fault("subscriptionId is not a valid id."));
    }
    let Some(channels) = item.get("channels") else {
        return Err(items_fault("channels is not present in payload."));
    };
    let Some(channels) = as_list(channels) else {
        return Err(items_fault("channels is not a valid array."));
    };
    if !channels.iter().all(Value::is_string) {
        return Err(items_fault("channels must contain only strings."));
    }
    if item
        .get("queries")
        .is_some_and(|queries| as_list(queries).is_none())
    {
        return Err(items_fault("queries is not a valid array."));
    }
    if channels.len() > limits.channels_max {
        return Err(items_fault("Too many channels."));
    }
    let too_long = |channel: &Value| {
        channel
            .as_str()
            .is_some_and(|c| c.len() > limits.channel_bytes_max)
    };
    if channels.iter().any(too_long) {
        return Err(items_fault("A channel's name is too long."));
    }
    Ok(())
}

fn read_item(item: &Value, limits: &MessageLimits) -> Result<SubscribeItem, RealtimeError> {
    let texts = |name: &str| -> Vec<&str> {
        let values = item.get(name).and_then(as_list).unwrap_or_default();
        values.iter().filter_map(Value::as_str).collect()
    };
    let queries = texts("queries");
    let asked = item.get("queries").and_then(as_list).unwrap_or_default();
    if queries.len() != asked.len() {
        return Err(RealtimeError::Internal("a query is not a text".to_owned()));
    }
    Ok(SubscribeItem {
        id: item
            .get("subscriptionId")
            .and_then(Value::as_str)
            .map(str::to_owned),
        channels: texts("channels").into_iter().map(str::to_owned).collect(),
        filter: QueryFilter::parse(&queries, limits, RealtimeError::MessageQuery)?,
    })
}

fn unsubscribe(data: &Value, limits: &MessageLimits) -> Result<Vec<String>, RealtimeError> {
    let items = list(data)?;
    if items.len() > limits.subscriptions_max {
        return Err(items_fault("Too many subscriptions."));
    }
    items
        .iter()
        .map(|item| match item.get("subscriptionId") {
            Some(Value::String(id)) if !id.is_empty() => Ok(id.clone()),
            _ => Err(items_fault(
                "Each unsubscribe payload must include a non-empty subscriptionId.",
            )),
        })
        .collect()
}

fn presence(data: Value) -> Result<Presence, RealtimeError> {
    let Value::Object(mut data) = data else {
        return Err(RealtimeError::Required("Status"));
    };
    let status = match data.remove("status") {
        None => return Err(RealtimeError::Required("Status")),
        Some(Value::String(status)) if within(&status, STATUS_CHARS_MAX) => status,
        Some(_) => return Err(RealtimeError::Field("status", text_rule(STATUS_CHARS_MAX))),
    };
    let id = match data.remove("presenceId") {
        None => None,
        Some(Value::String(id)) if id == "unique()" => None,
        Some(Value::String(id)) if is_uid(&id) => Some(id),
        Some(_) => return Err(RealtimeError::Field("presenceId", UID_RULE.into())),
    };
    let metadata = match data.remove("metadata") {
        None | Some(Value::Null) => None,
        Some(Value::Object(metadata)) => Some(metadata),
        // PHP's empty object arrives as an empty list.
        Some(Value::Array(list)) if list.is_empty() => Some(Map::new()),
        Some(_) => {
            return Err(RealtimeError::Field(
                "metadata",
                "Value must be a valid JSON object".into(),
            ));
        }
    };
    let permissions = match data.remove("permissions") {
        None | Some(Value::Null) => None,
        Some(Value::Array(list)) => Some(texts_only(list).ok_or_else(permissions_fault)?),
        Some(_) => return Err(permissions_fault()),
    };
    Ok(Presence {
        status,
        id,
        metadata,
        permissions,
    })
}

/// An id that Appwrite's API takes in a path, where the message alone would let any text pass.
fn is_uid(id: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let first = id.bytes().next();
    id.len() <= ID_BYTES_MAX
        && id.bytes().all(known)
        && first.is_some_and(|byte| byte.is_ascii_alphanumeric())
}

fn texts_only(list: Vec<Value>) -> Option<Vec<String>> {
    list.into_iter()
        .map(|value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
        .collect()
}

fn permissions_fault() -> RealtimeError {
    RealtimeError::Field(
        "permissions",
        "Permissions must be an array of strings.".into(),
    )
}

/// `data` of a list-shaped message. No `data`, or `null`, is a missing field.
fn list(data: &Value) -> Result<&[Value], RealtimeError> {
    if data.is_null() {
        return Err(RealtimeError::Required("Items"));
    }
    as_list(data).ok_or_else(|| items_fault("Payload is not valid."))
}

/// A list as PHP sees one, where an empty object is an empty list.
fn as_list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(list) => Some(list),
        Value::Object(map) if map.is_empty() => Some(&[]),
        _ => None,
    }
}

fn items_fault(why: &'static str) -> RealtimeError {
    RealtimeError::Field("items", Cow::Borrowed(why))
}

/// Appwrite's `CustomId`: a [`is_uid`], or the literal `unique()`, which it keeps as the id.
fn is_id(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|id| id == "unique()" || is_uid(id))
}

fn within(text: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.chars().count() <= chars_max
}

fn text_rule(chars_max: usize) -> Cow<'static, str> {
    format!(
        "Value must be a valid string and at least 1 chars and no longer than {chars_max} chars"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use throng_types::cases;

    fn parse(frame: &str) -> Result<ClientMessage, RealtimeError> {
        ClientMessage::parse(frame.as_bytes(), &MessageLimits::default())
    }

    #[track_caller]
    fn refused(frame: &str, text: &str) {
        let fault = parse(frame).unwrap_err();
        assert_eq!((fault.code(), &*fault.to_string()), (1003, text), "{frame}");
    }

    #[test]
    fn messages_as_sdks_send_them() {
        for (frame, expect) in cases(include_str!("client/accepted.txt")) {
            let message = parse(frame).unwrap();
            assert_eq!(format!("{message:?}"), expect, "{frame}");
        }
    }

    #[test]
    fn a_presence_is_written_with_its_end() {
        let presence = Presence {
            status: "online".to_owned(),
            id: Some("p1".to_owned()),
            metadata: Some(Map::from_iter([("x".to_owned(), json!(1))])),
            permissions: Some(vec![r#"read("any")"#.to_owned()]),
        };
        let expect = concat!(
            r#"{"expiresAt":"1970-01-01T00:00:00.000+00:00","metadata":{"x":1},"#,
            r#""permissions":["read(\"any\")"],"status":"online"}"#,
        );
        assert_eq!(String::from_utf8(presence.body(0)).unwrap(), expect);
    }

    #[test]
    fn refusals() {
        for (frame, expect) in cases(include_str!("client/refused.txt")) {
            refused(frame, expect);
        }
        let long = json!({"type": "authentication", "data": {"session": "x".repeat(2049)}});
        let rule = "session: Value must be a valid string and at least 1 chars and no longer than \
                    2048 chars";
        refused(&long.to_string(), rule);
        let many = json!({"type": "subscribe", "data": [{"channels": vec!["a"; 300]}]});
        refused(&many.to_string(), "items: Too many channels.");
        let many = json!({"type": "subscribe", "data": vec![json!({"channels": ["a"]}); 1100]});
        refused(&many.to_string(), "items: Too many subscriptions.");
        let long = json!({"type": "subscribe", "data": [{"channels": ["x".repeat(600)]}]});
        refused(&long.to_string(), "items: A channel's name is too long.");
    }

    #[test]
    fn formats_and_types() {
        refused("\u{0}", "Message format is not valid.");
        let long = format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(64_000));
        refused(&long, "Message format is not valid.");
    }

    #[test]
    fn every_prefix_of_a_message_is_refused_or_parsed() {
        let whole =
            r#"{"type":"subscribe","data":[{"subscriptionId":"é","channels":["a"]}]}"#.as_bytes();
        for end in 0..whole.len() {
            assert_eq!(
                ClientMessage::parse(&whole[..end], &MessageLimits::default()),
                Err(RealtimeError::Format)
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            kind in "ping|authentication|subscribe|unsubscribe|presence",
            data in "[\\[\\]{}:,\"a-z0-9]{0,40}",
        ) {
            let _ = ClientMessage::parse(&bytes, &MessageLimits::default());
            let _ = parse(&format!(r#"{{"type":"{kind}","data":{data}}}"#));
        }
    }
}
