//! Events as Appwrite publishes them: one JSON message each, on Redis channel `realtime`.
//!
//! Owns: the message's form in every version since 0.10. Never: subscribes, decides who receives,
//! or re-encodes the payload, which stays as it came.
//!
//! The publisher has already worked out channels and roles, so this is all that a receiver needs;
//! the API port takes the same message, so that Appwrite need not be there.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use throng_types::json::{Object, append_strs};
use throng_types::{date, mix};

use crate::filter::truthy;
use crate::identity::{ANY, GUESTS, USERS};

pub const REDIS_CHANNEL: &str = "realtime";

/// Why a message of the feed cannot be used. The publisher's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("the feed message is malformed")]
    Malformed,
    #[error("the feed message has no `{0}`")]
    Missing(&'static str),
    #[error("the feed message has no project, no channel or no role")]
    Empty,
    #[error("the feed message is too long")]
    TooLong,
}

/// One event as the feed brings it. Shared by reference among the shards.
#[derive(Debug)]
pub struct FeedMessage {
    /// The project whose connections may get it.
    pub project: Box<str>,
    /// Roles that may get it; names from before 1.0 are already in their new form.
    pub roles: Vec<Box<str>>,
    pub channels: Vec<Box<str>>,
    /// The roles of `user_id` have changed, and must be known before this event is matched.
    pub permissions_changed: bool,
    /// User whose roles have changed.
    pub user_id: Option<Box<str>>,
    names: Names,
    timestamp: Option<Box<RawValue>>,
    payload: Box<RawValue>,
    attributes: OnceLock<Map<String, Value>>,
    fingerprint: u64,
}

/// The event's names in the form of the publisher's generation.
#[derive(Debug)]
struct Names {
    /// A list of names, from 0.14 on; before, one name.
    are_many: bool,
    json: Box<RawValue>,
}

#[derive(Deserialize)]
struct Wire<'w> {
    #[serde(borrow)]
    project: Cow<'w, str>,
    #[serde(borrow)]
    roles: Vec<Cow<'w, str>>,
    #[serde(rename = "permissionsChanged", default)]
    permissions_changed: Option<Value>,
    #[serde(rename = "userId", borrow, default)]
    user_id: Option<Cow<'w, str>>,
    #[serde(borrow)]
    data: WireData<'w>,
}

#[derive(Deserialize)]
struct WireData<'w> {
    #[serde(borrow)]
    events: Option<&'w RawValue>,
    #[serde(borrow)]
    event: Option<&'w RawValue>,
    #[serde(borrow)]
    channels: Vec<Cow<'w, str>>,
    #[serde(borrow)]
    timestamp: Option<&'w RawValue>,
    #[serde(borrow)]
    payload: &'w RawValue,
}

/// Says what is wrong with a message that cannot be read: the first field that is missing, if one
/// is.
fn fault(message: &[u8]) -> FeedError {
    let Ok(Value::Object(all)) = serde_json::from_slice(message) else {
        return FeedError::Malformed;
    };
    let data = all.get("data").and_then(Value::as_object);
    let is_missing = |name: &&str| match name.strip_prefix("data.") {
        Some(name) => data.is_some_and(|data| !data.contains_key(name)),
        None => !all.contains_key(*name),
    };
    let needed = ["project", "roles", "data", "data.channels", "data.payload"];
    let missing = needed.into_iter().find(is_missing);
    missing.map_or(FeedError::Malformed, FeedError::Missing)
}

impl FeedMessage {
    /// Reads one message of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`FeedError`]; the message is then to be counted and dropped.
    pub fn parse(message: &[u8], bytes_max: usize) -> Result<Self, FeedError> {
        if message.len() > bytes_max {
            return Err(FeedError::TooLong);
        }
        let wire: Wire<'_> = serde_json::from_slice(message).map_err(|_| fault(message))?;
        let are_many = wire.data.events.is_some();
        let json = wire.data.events.or(wire.data.event);
        let json = json.ok_or(FeedError::Missing("data.events"))?.to_owned();
        let names = Names { are_many, json };
        if wire.project.is_empty() || wire.roles.is_empty() || wire.data.channels.is_empty() {
            return Err(FeedError::Empty);
        }
        let mut this = Self {
            project: wire.project.into(),
            roles: wire
                .roles
                .iter()
                .map(|role| modern_role(role).into())
                .collect(),
            channels: wire
                .data
                .channels
                .iter()
                .map(|c| c.as_ref().into())
                .collect(),
            permissions_changed: wire.permissions_changed.is_some_and(|value| truthy(&value)),
            user_id: wire
                .user_id
                .filter(|user_id| !user_id.is_empty())
                .map(Into::into),
            names,
            timestamp: wire.data.timestamp.map(ToOwned::to_owned),
            payload: wire.data.payload.to_owned(),
            attributes: OnceLock::new(),
            fingerprint: 0,
        };
        this.fingerprint = this.stirred();
        Ok(this)
    }

    /// Tells whether everyone may get it.
    #[must_use]
    pub fn for_everyone(&self) -> bool {
        self.roles.iter().any(|role| &**role == ANY)
    }

    /// The payload's top level, for filters; parsed at the first call. A payload that is not an
    /// object has none.
    pub fn attributes(&self) -> &Map<String, Value> {
        self.attributes
            .get_or_init(|| serde_json::from_str(self.payload.get()).unwrap_or_default())
    }

    /// The id of what the event is about, if its payload has one.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.attributes().get("$id").and_then(Value::as_str)
    }

    #[must_use]
    pub fn payload(&self) -> &str {
        self.payload.get()
    }

    /// The event's names, longest first; empty if they are not texts.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let json = self.names.json.get();
        if self.names.are_many {
            return serde_json::from_str(json).unwrap_or_default();
        }
        serde_json::from_str(json).into_iter().collect()
    }

    /// A number that tells it from other events: the same in every process that reads the same
    /// message.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn stirred(&self) -> u64 {
        let names = self.names.json.get();
        let timestamp = self.timestamp.as_ref().map_or("", |raw| raw.get());
        let texts = [&*self.project, names, timestamp, self.payload.get()];
        let lists = self.roles.iter().chain(&self.channels);
        let texts = texts.into_iter().chain(lists.map(|text| &**text));
        texts.fold(0, |sum, text| stirred(sum, text.as_bytes()))
    }

    /// Encodes the end of the event's frame, after [`EVENT_HEAD`] and a connection's ids: once for
    /// all receivers.
    #[must_use]
    pub fn encode_tail(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.payload.get().len());
        out.extend_from_slice(b"],");
        out.extend_from_slice(match self.names.are_many {
            true => br#""events":"#,
            false => br#""event":"#,
        });
        out.extend_from_slice(self.names.json.get().as_bytes());
        out.extend_from_slice(br#","channels":"#);
        append_strs(&self.channels, &mut out);
        if let Some(timestamp) = &self.timestamp {
            out.extend_from_slice(br#","timestamp":"#);
            out.extend_from_slice(timestamp.get().as_bytes());
        }
        out.extend_from_slice(br#","payload":"#);
        out.extend_from_slice(self.payload.get().as_bytes());
        out.extend_from_slice(b"}}");
        out
    }
}

/// A sum with more bytes in it, and with how many they are.
fn stirred(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(mix(sum ^ bytes.len() as u64), |sum, word| {
        mix(sum.wrapping_add(u64::from_le_bytes(*word)))
    })
}

/// Beginning of every event's frame, up to the ids of a connection's subscriptions: texts in quotes
/// with commas between. Stock has `subscriptions` last; first, what all receivers share is one
/// piece, and clients cannot tell the difference.
pub const EVENT_HEAD: &[u8] = br#"{"type":"event","data":{"subscriptions":["#;

/// Roles were written otherwise before 1.0.
fn modern_role(role: &str) -> &str {
    match role {
        "*" | "role:all" => ANY,
        "role:guest" => GUESTS,
        "role:member" => USERS,
        role => role,
    }
}

/// An event to put on the feed: for presence, for the `tests` channel, and for publishers that
/// have no Appwrite behind them.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'e> {
    pub project: &'e str,
    /// Roles that may get it.
    pub roles: &'e [&'e str],
    /// Names of the event, the most telling first.
    pub names: &'e [&'e str],
    pub channels: &'e [&'e str],
    /// When it happened, in Unix milliseconds.
    pub time_unix_ms: u64,
    /// Payload, one JSON value.
    pub payload: &'e str,
}

impl NewEvent<'_> {
    /// Appends the message, for Redis or for [`FeedMessage::parse`](super::FeedMessage::parse).
    pub fn encode(&self, out: &mut Vec<u8>) {
        Object::append(out, |message| {
            message.text("project", self.project);
            message.texts("roles", self.roles);
            message.flag("permissionsChanged", false);
            message.json("userId", "null");
            Object::append(message.value("data"), |data| {
                data.texts("events", self.names);
                data.texts("channels", self.channels);
                // As Appwrite writes a moment since 1.2.
                data.text("timestamp", &date::rfc3339(self.time_unix_ms));
                data.json("payload", self.payload);
            });
        });
    }
}

const LOOK_BYTES: usize = 16 << 10;
/// As much of a name as is shown.
const SHOWN_BYTES: usize = 64;

/// The project and the first channel that a message seems to name; `?` where it names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSource<'m> {
    /// Text behind `"project":`, cut short.
    pub project: &'m str,
    /// Text first behind `"channels":`, cut short.
    pub channel: &'m str,
}

/// Looks at the beginning of a message, which need not be JSON.
#[must_use]
pub fn glimpse(message: &[u8]) -> MessageSource<'_> {
    let message = &message[..message.len().min(LOOK_BYTES)];
    MessageSource {
        project: behind(message, br#""project":""#),
        channel: behind(message, br#""channels":[""#),
    }
}

fn behind<'m>(message: &'m [u8], what: &[u8]) -> &'m str {
    let at = message
        .windows(what.len())
        .position(|window| window == what);
    let rest = at.map_or(&[][..], |at| &message[at + what.len()..]);
    let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'"';
    let len = rest
        .iter()
        .take(SHOWN_BYTES)
        .take_while(|byte| is_name(byte))
        .count();
    match std::str::from_utf8(&rest[..len]) {
        Ok(name) if !name.is_empty() => name,
        _ => "?",
    }
}

#[cfg(test)]
mod publish_tests {
    use super::*;
    use crate::FeedMessage;

    #[test]
    fn what_is_published_can_be_read() {
        let mut message = Vec::new();
        NewEvent {
            project: "console",
            roles: &["guests"],
            names: &["test.event"],
            channels: &["tests"],
            time_unix_ms: 0,
            payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
        }
        .encode(&mut message);
        let event = FeedMessage::parse(&message, 1 << 20).unwrap();
        assert_eq!(&*event.project, "console");
        assert_eq!(event.names(), ["test.event"]);
        assert_eq!(event.attributes()["response"], "WS:/v1/realtime:passed");
        assert!(!event.for_everyone());
    }
}

#[cfg(test)]
mod glimpse_tests {
    use super::*;

    #[test]
    fn what_is_there_is_told() {
        let told = |message: &str| {
            let MessageSource { project, channel } = glimpse(message.as_bytes());
            format!("{project} {channel}")
        };
        let cut = r#"{"project":"bench","roles":["any"],"data":{"channels":["files","x"],"payl"#;
        assert_eq!(told(cut), "bench files");
        assert_eq!(told(r#"{"project":"a\nb\u0007"}"#), r"a\nb\u0007 ?");
        assert_eq!(told("{\"project\":\"a\u{7}b\"}"), "a ?");
        assert_eq!(told(""), "? ?");
        let long = format!(r#"{{"project":"{}"}}"#, "x".repeat(100));
        assert_eq!(told(&long), format!("{} ?", "x".repeat(SHOWN_BYTES)));
    }
}
