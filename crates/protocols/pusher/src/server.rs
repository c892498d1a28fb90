//! Frames of the server.
//!
//! `data` of the protocol's own events is a JSON string that contains JSON. In errors and pings it
//! is an object, as libraries expect there. JSON about users is appended as it is.

use std::borrow::Cow;

use serde_json::value::RawValue;
use throng_types::coded_enum;
use throng_types::json::{Object, append_str};

pub const PING: &[u8] = br#"{"event":"pusher:ping","data":{}}"#;
pub const PONG: &[u8] = br#"{"event":"pusher:pong","data":{}}"#;
/// Name of the event with the number of a channel's subscribers.
pub const SUBSCRIPTION_COUNT: &str = "pusher_internal:subscription_count";

/// Appends the first frame of a connection. `activity_timeout_s` is the silence after which the
/// client pings; pusher-js refuses 0.
pub fn connection_established(socket_id: &str, activity_timeout_s: u32, out: &mut Vec<u8>) {
    own_event("pusher:connection_established", None, out, |data| {
        data.text("socket_id", socket_id);
        data.number("activity_timeout", activity_timeout_s);
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
    event_of("pusher:error", out, |frame| {
        Object::append(frame.value("data"), |data| {
            data.number("code", code);
            data.text("message", message);
        });
        if let ErrorScope::Channel(channel) = scope {
            frame.text("channel", channel);
        }
    });
}

/// Appends the success of a subscribe to a channel without presence.
pub fn subscription_succeeded(channel: &str, out: &mut Vec<u8>) {
    let event = "pusher_internal:subscription_succeeded";
    own_event(event, Some(channel), out, |_| {});
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
        Object::append(data.value("presence"), |presence| {
            presence.number("count", users.clone().count());
            presence.texts("ids", users.clone().map(|(id, _)| id));
            Object::append(presence.value("hash"), |hash| {
                for (id, info) in users {
                    let info = info.unwrap_or("null");
                    hash.value_of(id).extend_from_slice(info.as_bytes());
                }
            });
        });
    });
}

coded_enum! {
    /// Kind of failure of a subscription, as libraries name it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SubscriptionFailure {
        fn name;
        AuthError = "AuthError";
        LimitReached = "LimitReached";
        /// The server cannot do it now.
        ServerError = "ServerError";
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
    event_of("pusher:subscription_error", out, |frame| {
        Object::append(frame.value("data"), |data| {
            data.text("type", failure.name());
            data.text("error", why);
            data.number("status", status);
        });
        frame.text("channel", channel);
    });
}

/// Appends that a user's first connection has come to a presence channel.
pub fn member_added(channel: &str, user_id: &str, user_info: Option<&str>, out: &mut Vec<u8>) {
    own_event("pusher_internal:member_added", Some(channel), out, |data| {
        data.text("user_id", user_id);
        if let Some(info) = user_info {
            data.json("user_info", info);
        }
    });
}

/// Appends that a user's last connection has left a presence channel.
pub fn member_removed(channel: &str, user_id: &str, out: &mut Vec<u8>) {
    let event = "pusher_internal:member_removed";
    own_event(event, Some(channel), out, |data| {
        data.text("user_id", user_id)
    });
}

/// Appends that a user whom the client watches has come online, or gone offline.
pub fn watchlist_event(is_online: bool, user_id: &str, out: &mut Vec<u8>) {
    own_event("pusher_internal:watchlist_events", None, out, |data| {
        data.objects("events", &[is_online], |is_online, event| {
            event.text("name", if *is_online { "online" } else { "offline" });
            event.texts("user_ids", [user_id]);
        });
    });
}

/// Appends that a cache channel has no newest event.
pub fn cache_miss(channel: &str, out: &mut Vec<u8>) {
    event_of("pusher:cache_miss", out, |frame| {
        frame.text("channel", channel)
    });
}

/// Appends the answer to a sign-in, with the user as the client sent it.
pub fn signin_success(user_data: &str, out: &mut Vec<u8>) {
    own_event("pusher:signin_success", None, out, |data| {
        data.text("user_data", user_data)
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
    event_of(event, out, |frame| {
        match data {
            EventData::Text(text) => frame.text("data", text),
            EventData::Json(json) => frame.json("data", json.get()),
        }
        if let Some(user_id) = user_id {
            frame.text("user_id", user_id);
        }
    });
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
    out.extend_from_slice(br#","channel":"#);
    append_str(channel, out);
    out.push(b'}');
}

/// Appends an event of the protocol whose data are a string of JSON.
fn own_event(
    event: &str,
    channel: Option<&str>,
    out: &mut Vec<u8>,
    write_data: impl FnOnce(&mut Object<'_>),
) {
    let mut data = Vec::new();
    Object::append(&mut data, write_data);
    event_of(event, out, |frame| {
        frame.text("data", &String::from_utf8_lossy(&data));
        if let Some(channel) = channel {
            frame.text("channel", channel);
        }
    });
}

fn event_of(event: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    Object::append(out, |frame| {
        frame.text("event", event);
        write(frame);
    });
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
