//! Events of back ends: the bodies of calls, and their bounds.

use serde::Deserialize;
use throng_types::{coded_enum, error_text};

use crate::{ChannelAccess, ChannelKind, NAME_BYTES_MAX};

/// Channels of one call at most.
pub const CHANNELS_MAX: usize = 100;
/// Events of one batch at most.
pub const BATCH_MAX: usize = 10;

/// Facts about a channel that a caller has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoAttributes {
    pub user_count: bool,
    pub subscription_count: bool,
    pub cache: bool,
}

impl InfoAttributes {
    /// Reads the names between commas; unknown ones ask for nothing.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        let has = |name| list.split(',').any(|part| part.trim() == name);
        Self {
            user_count: has("user_count"),
            subscription_count: has("subscription_count"),
            cache: has("cache"),
        }
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        !(self.user_count || self.subscription_count || self.cache)
    }
}

/// Bounds of one event, in bytes; the server gives them for each app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    pub name_bytes_max: usize,
    pub data_bytes_max: usize,
}

/// An event of a back end, within the bounds of [`EventLimits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub name: String,
    pub data: String,
    /// One or more, at most [`CHANNELS_MAX`].
    pub channels: Vec<String>,
    /// Id of the connection that does not get it; it need not exist.
    pub socket_id: Option<String>,
    pub info: InfoAttributes,
}

coded_enum! {
    /// Reason for refusing a body.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BadEvent {
        /// Status code of the answer.
        fn status -> u16;
        /// Sentence for the answer.
        fn reason;
        Body = 400, "the body is not the JSON object that this call takes: events have a name, \
                     data (a string) and a channel or channels";
        Name = 400, "the name of an event is empty or too long";
        Data = 413, "the content of this event is too long: event_bytes_max is the most";
        NoChannel = 400, "an event needs a channel";
        Channels = 400, "an event goes to at most 100 channels";
        ChannelName = 400, "the name of a channel is too long, or has characters besides letters, \
                            digits and -_=@,.;";
        Encrypted = 400, "an event for an encrypted channel can go to that channel alone";
        SocketId = 400, "socket_id is not the id of a connection";
        Batch = 400, "Batch too large: it has at most 10 events";
    }
}

error_text!(BadEvent.reason);

#[derive(Deserialize)]
struct Fields {
    name: String,
    data: String,
    channel: Option<String>,
    channels: Option<Vec<String>>,
    socket_id: Option<String>,
    info: Option<String>,
}

#[derive(Deserialize)]
struct Batch {
    batch: Vec<Fields>,
}

impl Trigger {
    /// Reads the body of [`super::PusherCall::Events`].
    pub fn parse(body: &[u8], limits: EventLimits) -> Result<Self, BadEvent> {
        let fields = serde_json::from_slice(body).map_err(|_| BadEvent::Body)?;
        Self::checked(fields, limits)
    }

    /// Reads the body of [`super::PusherCall::BatchEvents`]: at most [`BATCH_MAX`] events.
    pub fn parse_batch(body: &[u8], limits: EventLimits) -> Result<Vec<Self>, BadEvent> {
        let Batch { batch } = serde_json::from_slice(body).map_err(|_| BadEvent::Body)?;
        if batch.len() > BATCH_MAX {
            return Err(BadEvent::Batch);
        }
        let checked = batch
            .into_iter()
            .map(|fields| Self::checked(fields, limits));
        checked.collect()
    }

    fn checked(fields: Fields, limits: EventLimits) -> Result<Self, BadEvent> {
        let Fields {
            name,
            data,
            channel,
            channels,
            socket_id,
            info,
        } = fields;
        let channels = channels.unwrap_or_else(|| channel.into_iter().collect());
        if name.is_empty() || name.len() > limits.name_bytes_max {
            return Err(BadEvent::Name);
        }
        if data.len() > limits.data_bytes_max {
            return Err(BadEvent::Data);
        }
        if channels.is_empty() {
            return Err(BadEvent::NoChannel);
        }
        if channels.len() > CHANNELS_MAX {
            return Err(BadEvent::Channels);
        }
        for channel in &channels {
            let kind = ChannelKind::of(channel).ok_or(BadEvent::ChannelName)?;
            if kind.access == ChannelAccess::Encrypted && channels.len() > 1 {
                return Err(BadEvent::Encrypted);
            }
        }
        let socket_id = socket_id.filter(|id| !id.is_empty());
        if !socket_id.as_deref().is_none_or(is_socket_id) {
            return Err(BadEvent::SocketId);
        }
        let info = InfoAttributes::parse(info.as_deref().unwrap_or_default());
        Ok(Self {
            name,
            data,
            channels,
            socket_id,
            info,
        })
    }
}

/// Whether a text is two decimal numbers with a dot between them, as ids of connections are.
#[must_use]
pub fn is_socket_id(text: &str) -> bool {
    let is_number = |part: &str| {
        let is_digits = part.bytes().all(|byte| byte.is_ascii_digit());
        is_digits && (1..=NAME_BYTES_MAX).contains(&part.len())
    };
    text.split_once('.')
        .is_some_and(|(one, two)| is_number(one) && is_number(two))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: EventLimits = EventLimits {
        name_bytes_max: 200,
        data_bytes_max: 20,
    };

    #[test]
    fn bodies() {
        let event = |channels: &str| format!(r#"{{"name":"n","data":"d",{channels}}}"#);
        let many = |count| format!(r#""channels":["a"{}]"#, r#","b""#.repeat(count - 1));
        for (body, expected) in [
            (event(r#""channel":"a""#), Ok(1)),
            (event(&many(CHANNELS_MAX)), Ok(CHANNELS_MAX)),
            (event(&many(CHANNELS_MAX + 1)), Err(BadEvent::Channels)),
            (event(r#""channels":["private-encrypted-a"]"#), Ok(1)),
            (
                event(r#""channels":["private-encrypted-a","b"]"#),
                Err(BadEvent::Encrypted),
            ),
            (event(r#""channels":["a b"]"#), Err(BadEvent::ChannelName)),
            (event(r#""channels":[]"#), Err(BadEvent::NoChannel)),
            (event(r#""channel":null"#), Err(BadEvent::NoChannel)),
            (event(r#""channel":"a","socket_id":"1.2""#), Ok(1)),
            (event(r#""channel":"a","socket_id":null"#), Ok(1)),
            (
                event(r#""channel":"a","socket_id":"1.2:""#),
                Err(BadEvent::SocketId),
            ),
            (
                r#"{"name":"","data":"d","channel":"a"}"#.to_owned(),
                Err(BadEvent::Name),
            ),
            (
                r#"{"name":"n","data":{},"channel":"a"}"#.to_owned(),
                Err(BadEvent::Body),
            ),
            (
                format!(
                    r#"{{"name":"n","data":"{}","channel":"a"}}"#,
                    "d".repeat(21)
                ),
                Err(BadEvent::Data),
            ),
            ("[]".to_owned(), Err(BadEvent::Body)),
        ] {
            let parsed = Trigger::parse(body.as_bytes(), LIMITS);
            assert_eq!(
                parsed.map(|trigger| trigger.channels.len()),
                expected,
                "{body}"
            );
            let batch = |count| format!(r#"{{"batch":[{}]}}"#, vec![&*body; count].join(","));
            let of = |count| Trigger::parse_batch(batch(count).as_bytes(), LIMITS);
            assert_eq!(
                of(2).map(|batch| batch.len()),
                expected.map(|_| 2),
                "{body}"
            );
            assert!(matches!(of(11), Err(BadEvent::Batch | BadEvent::Body)));
        }
    }

    /// A value of another type is refused for each field of the page, so each is read.
    #[test]
    fn the_page_has_the_fields_that_are_read() {
        let page = include_str!("../../../../../docs/api-compatible.md");
        let (_, page) = page.split_once("\n### `POST /apps/ID/events`").unwrap();
        let (page, _) = page.split_once("\n### ").unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        let good = [("name", "n"), ("data", "d"), ("channel", "a")];
        for name in &names {
            let others = good.iter().filter(|(other, _)| other != name);
            let others: String = others
                .map(|(other, value)| format!(r#","{other}":"{value}""#))
                .collect();
            let body = format!(r#"{{"{name}":1{others}}}"#);
            let read = Trigger::parse(body.as_bytes(), LIMITS);
            assert_eq!(read, Err(BadEvent::Body), "{body}");
        }
        assert_eq!(names.len(), 6);
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body: Vec<u8>) {
            let _ = Trigger::parse(&body, LIMITS);
            let _ = Trigger::parse_batch(&body, LIMITS);
        }
    }
}
