//! Frames of the server, appended by hand.
//!
//! `data` of the protocol's own events is a JSON string that contains JSON. In errors and pings it
//! is an object, as libraries expect there. JSON about users is appended as it is.

use std::borrow::Cow;

use serde_json::value::RawValue;
use throng_types::json::append_str;

pub const PING: &[u8] = br#"{"event":"pusher:ping","data":{}}"#;
pub const PONG: &[u8] = br#"{"event":"pusher:pong","data":{}}"#;
/// Name of the event with the number of a channel's subscribers.
pub const SUBSCRIPTION_COUNT: &str = "pusher_internal:subscription_count";

/// Appends the first frame of a connection. `activity_timeout_s` is the silence after which the
/// client pings; pusher-js refuses 0.
pub fn connection_established(socket_id: &str, activity_timeout_s: u32, out: &mut Vec<u8>) {
    own_event("pusher:connection_established", None, out, |data| {
        data.extend_from_slice(br#"{"socket_id":"#);
        append_str(socket_id, data);
        data.extend_from_slice(br#","activity_timeout":"#);
        append_number(activity_timeout_s.into(), data);
        data.push(b'}');
    });
}

/// Part of a connection that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorScope<'a> {
    Connection,
    Channel(&'a str),
}

/// Appends `pusher:error`. The code does not tell whether a close follows.
pub fn error(code: u16, message: &str, scope: ErrorScope<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"event":"pusher:error","data":{"code":"#);
    append_number(code.into(), out);
    out.extend_from_slice(br#","message":"#);
    append_str(message, out);
    out.push(b'}');
    if let ErrorScope::Channel(channel) = scope {
        append_channel(channel, out);
    }
    out.push(b'}');
}

/// Appends the success of a subscribe to a channel without presence.
pub fn subscription_succeeded(channel: &str, out: &mut Vec<u8>) {
    let event = "pusher_internal:subscription_succeeded";
    own_event(event, Some(channel), out, |data| {
        data.extend_from_slice(b"{}")
    });
}

/// Appends the success in a presence channel, with its users: each id once, and the JSON about it.
/// The caller bounds how many there are.
pub fn presence_succeeded<'a>(
    channel: &str,
    users: impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone,
    out: &mut Vec<u8>,
) {
    let event = "pusher_internal:subscription_succeeded";
    own_event(event, Some(channel), out, |data| {
        data.extend_from_slice(br#"{"presence":{"count":"#);
        append_number(users.clone().count() as u64, data);
        data.extend_from_slice(br#","ids":["#);
        for (number, (id, _)) in users.clone().enumerate() {
            append_comma(number, data);
            append_str(id, data);
        }
        data.extend_from_slice(br#"],"hash":{"#);
        for (number, (id, info)) in users.enumerate() {
            append_comma(number, data);
            append_str(id, data);
            data.push(b':');
            data.extend_from_slice(info.unwrap_or("null").as_bytes());
        }
        data.extend_from_slice(b"}}}");
    });
}

/// Kind of failure of a subscription, as libraries name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionFailure {
    AuthError,
    LimitReached,
    /// The server cannot do it now.
    ServerError,
}

impl SubscriptionFailure {
    const fn name(self) -> &'static str {
        match self {
            Self::AuthError => "AuthError",
            Self::LimitReached => "LimitReached",
            Self::ServerError => "ServerError",
        }
    }
}

/// Appends `pusher:subscription_error`; the connection stays. `status` is one of HTTP or the code
/// of a [`crate::CloseCode`].
pub fn subscription_error(
    channel: &str,
    failure: SubscriptionFailure,
    why: &str,
    status: u16,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(br#"{"event":"pusher:subscription_error","data":{"type":"#);
    append_str(failure.name(), out);
    out.extend_from_slice(br#","error":"#);
    append_str(why, out);
    out.extend_from_slice(br#","status":"#);
    append_number(status.into(), out);
    out.push(b'}');
    append_channel(channel, out);
    out.push(b'}');
}

/// Appends that a user's first connection has come to a presence channel.
pub fn member_added(channel: &str, user_id: &str, user_info: Option<&str>, out: &mut Vec<u8>) {
    own_event("pusher_internal:member_added", Some(channel), out, |data| {
        data.extend_from_slice(br#"{"user_id":"#);
        append_str(user_id, data);
        if let Some(info) = user_info {
            data.extend_from_slice(br#","user_info":"#);
            data.extend_from_slice(info.as_bytes());
        }
        data.push(b'}');
    });
}

/// Appends that a user's last connection has left a presence channel.
pub fn member_removed(channel: &str, user_id: &str, out: &mut Vec<u8>) {
    own_event(
        "pusher_internal:member_removed",
        Some(channel),
        out,
        |data| {
            data.extend_from_slice(br#"{"user_id":"#);
            append_str(user_id, data);
            data.push(b'}');
        },
    );
}

/// Appends that a user whom the client watches has come online, or gone offline.
pub fn watchlist_event(is_online: bool, user_id: &str, out: &mut Vec<u8>) {
    own_event("pusher_internal:watchlist_events", None, out, |data| {
        data.extend_from_slice(br#"{"events":[{"name":"#);
        append_str(if is_online { "online" } else { "offline" }, data);
        data.extend_from_slice(br#","user_ids":["#);
        append_str(user_id, data);
        data.extend_from_slice(b"]}]}");
    });
}

/// Appends that a cache channel has no newest event.
pub fn cache_miss(channel: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"event":"pusher:cache_miss""#);
    append_channel(channel, out);
    out.push(b'}');
}

/// Appends the answer to a sign-in, with the user as the client sent it.
pub fn signin_success(user_data: &str, out: &mut Vec<u8>) {
    own_event("pusher:signin_success", None, out, |data| {
        data.extend_from_slice(br#"{"user_data":"#);
        append_str(user_data, data);
        data.push(b'}');
    });
}

/// Data of an application's event.
#[derive(Clone, Copy, Debug)]
pub enum EventData<'a> {
    /// Text, as back ends send it.
    Text(&'a str),
    /// Any JSON value, as clients send it.
    Json(&'a RawValue),
}

impl<'a> EventData<'a> {
    /// Content of a text, or the JSON of anything else.
    #[must_use]
    pub fn content(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Json(json) => { serde_json::from_str::<String>(json.get()) }
                .map_or_else(|_| json.get().into(), Cow::Owned),
        }
    }
}

/// Appends an application's event without its channel, the form of a publication in the hub.
/// `user_id` is the sender of a client event in a presence channel.
pub fn append_event(event: &str, data: EventData<'_>, user_id: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"event":"#);
    append_str(event, out);
    out.extend_from_slice(br#","data":"#);
    match data {
        EventData::Text(text) => append_str(text, out),
        EventData::Json(json) => out.extend_from_slice(json.get().as_bytes()),
    }
    if let Some(user_id) = user_id {
        out.extend_from_slice(br#","user_id":"#);
        append_str(user_id, out);
    }
    out.push(b'}');
}

/// Appends the frame of an event that [`append_event`] has made, by adding the channel. Other
/// bytes, as publishers of other protocols leave them, become the data of an event `message`.
pub fn append_delivery(event: &[u8], channel: &str, out: &mut Vec<u8>) {
    match event
        .strip_suffix(b"}")
        .filter(|_| event.starts_with(br#"{"event":"#))
    {
        Some(open) => out.extend_from_slice(open),
        None => {
            out.extend_from_slice(br#"{"event":"message","data":"#);
            append_str(&String::from_utf8_lossy(event), out);
        }
    }
    append_channel(channel, out);
    out.push(b'}');
}

/// Appends an event of the protocol whose data are a string of JSON.
fn own_event(
    event: &str,
    channel: Option<&str>,
    out: &mut Vec<u8>,
    append_data: impl FnOnce(&mut Vec<u8>),
) {
    let mut data = Vec::new();
    append_data(&mut data);
    let data = String::from_utf8_lossy(&data);
    append_event(event, EventData::Text(&data), None, out);
    if let Some(channel) = channel {
        out.pop();
        append_channel(channel, out);
        out.push(b'}');
    }
}

fn append_channel(channel: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","channel":"#);
    append_str(channel, out);
}

fn append_comma(number: usize, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b',');
    }
}

pub(crate) fn append_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn frames_are_what_libraries_read() {
        let channel = "presence-a";
        for (frame, expected) in [
            (
                written(|out| connection_established("1.2", 120, out)),
                json!({
                    "event": "pusher:connection_established",
                    "data": r#"{"socket_id":"1.2","activity_timeout":120}"#,
                }),
            ),
            (
                written(|out| error(4301, "no", ErrorScope::Channel("a"), out)),
                json!({
                    "event": "pusher:error", "channel": "a",
                    "data": {"code": 4301, "message": "no"},
                }),
            ),
            (
                written(|out| error(4009, "no", ErrorScope::Connection, out)),
                json!({"event": "pusher:error", "data": {"code": 4009, "message": "no"}}),
            ),
            (
                written(|out| subscription_succeeded("a", out)),
                json!({
                    "event": "pusher_internal:subscription_succeeded",
                    "channel": "a", "data": "{}",
                }),
            ),
            (
                written(|out| {
                    let users = [("7", Some(r#"{"a":1}"#)), ("8", None)];
                    presence_succeeded(channel, users.into_iter(), out);
                }),
                json!({
                    "event": "pusher_internal:subscription_succeeded", "channel": channel,
                    "data": concat!(
                        r#"{"presence":{"count":2,"ids":["7","8"],"#,
                        r#""hash":{"7":{"a":1},"8":null}}}"#,
                    ),
                }),
            ),
            (
                written(|out| {
                    subscription_error("a", SubscriptionFailure::AuthError, "no", 401, out)
                }),
                json!({
                    "event": "pusher:subscription_error", "channel": "a",
                    "data": {"type": "AuthError", "error": "no", "status": 401},
                }),
            ),
            (
                written(|out| member_added(channel, "7", Some("1"), out)),
                json!({
                    "event": "pusher_internal:member_added", "channel": channel,
                    "data": r#"{"user_id":"7","user_info":1}"#,
                }),
            ),
            (
                written(|out| member_removed(channel, "7", out)),
                json!({
                    "event": "pusher_internal:member_removed", "channel": channel,
                    "data": r#"{"user_id":"7"}"#,
                }),
            ),
            (
                written(|out| watchlist_event(false, "7", out)),
                json!({
                    "event": "pusher_internal:watchlist_events",
                    "data": r#"{"events":[{"name":"offline","user_ids":["7"]}]}"#,
                }),
            ),
            (
                written(|out| cache_miss("a", out)),
                json!({"event": "pusher:cache_miss", "channel": "a"}),
            ),
            (
                written(|out| signin_success(r#"{"id":"7"}"#, out)),
                json!({
                    "event": "pusher:signin_success",
                    "data": r#"{"user_data":"{\"id\":\"7\"}"}"#,
                }),
            ),
        ] {
            assert_eq!(frame, expected);
        }
    }

    fn delivered(event: &[u8]) -> Value {
        written(|out| append_delivery(event, "a", out))
    }

    #[test]
    fn what_is_no_event_is_delivered_as_data() {
        let expected = json!({"event": "message", "data": "{\"a\":1}", "channel": "a"});
        assert_eq!(delivered(br#"{"a":1}"#), expected);
    }

    proptest! {
        #[test]
        fn an_event_keeps_its_data(event: String, text: String, user: Option<String>) {
            let mut kept = Vec::new();
            append_event(&event, EventData::Text(&text), user.as_deref(), &mut kept);
            let mut expected = json!({"event": event, "data": text, "channel": "a"});
            if let Some(user) = user {
                expected["user_id"] = user.into();
            }
            prop_assert_eq!(delivered(&kept), expected);
        }
    }
}
