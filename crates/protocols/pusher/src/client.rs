//! Frames of clients: `{"event":…,"channel":…,"data":…}`, one event each.
//!
//! `data` of the protocol's own events may be an object, or a JSON string that contains one:
//! libraries differ. What is signed is kept as it came.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::{coded_enum, error_text};

/// Prefix of events that clients send to each other.
const CLIENT_EVENT: &str = "client-";

/// One frame of a client. Names and signatures are as they came: their lengths, forms and truth are
/// checked by the receiver.
#[derive(Debug)]
pub enum ClientFrame<'a> {
    Ping,
    Pong,
    Subscribe(SubscribeFields),
    Unsubscribe {
        channel: String,
    },
    SignIn(SignInFields),
    /// An event for the other subscribers of a channel; its name begins with `client-`.
    Event {
        event: String,
        channel: String,
        data: &'a RawValue,
    },
    /// An event `pusher:…` that is not known; it is ignored.
    Other,
}

coded_enum! {
    /// Reason for refusing a frame. The connection stays.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MalformedFrame {
        /// Sentence for the event `pusher:error`.
        fn reason;
        NotAnEvent = "the message is not a JSON object with an event";
        Unnamed = "clients may send events whose names begin with client- or pusher:";
        Data = "the event lacks data, or its data are of the wrong type";
        User = "the user is not a JSON object with an id";
        Member = "channel_data is not a JSON object with a user_id";
    }
}

error_text!(MalformedFrame.reason);

#[derive(Deserialize)]
struct Envelope<'a> {
    event: String,
    channel: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub struct SubscribeFields {
    pub channel: String,
    /// The text `KEY:SIGNATURE` of the back end.
    pub auth: Option<String>,
    /// Member of a presence channel, as its back end signed it.
    pub channel_data: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct SignInFields {
    pub auth: String,
    /// User as the back end signed it: JSON that [`SignedInUser::parse`] reads.
    pub user_data: String,
}

impl<'a> ClientFrame<'a> {
    /// Reads the payload of one text frame.
    pub fn parse(frame: &'a str) -> Result<Self, MalformedFrame> {
        let Envelope {
            event,
            channel,
            data,
        } = serde_json::from_str(frame).map_err(|_| MalformedFrame::NotAnEvent)?;
        Ok(match &*event {
            "pusher:ping" => Self::Ping,
            "pusher:pong" => Self::Pong,
            "pusher:subscribe" => Self::Subscribe(inner(data)?),
            "pusher:unsubscribe" => Self::Unsubscribe {
                channel: inner::<SubscribeFields>(data)?.channel,
            },
            "pusher:signin" => Self::SignIn(inner(data)?),
            name if name.starts_with(CLIENT_EVENT) => Self::Event {
                event,
                channel: channel.ok_or(MalformedFrame::Data)?,
                data: data.unwrap_or(RawValue::NULL),
            },
            name if name.starts_with("pusher:") => Self::Other,
            _ => return Err(MalformedFrame::Unnamed),
        })
    }
}

/// Reads `data`: an object, or a string that contains one.
fn inner<T: DeserializeOwned>(data: Option<&RawValue>) -> Result<T, MalformedFrame> {
    let text = data.ok_or(MalformedFrame::Data)?.get();
    let result = if text.starts_with('"') {
        serde_json::from_str::<String>(text).and_then(|text| serde_json::from_str(&text))
    } else {
        serde_json::from_str(text)
    };
    result.map_err(|_| MalformedFrame::Data)
}

/// Reads a user id: a string or a number. Numbers are written as texts from then on; an empty one
/// is refused.
fn user_id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(serde_json::Number),
    }
    match Id::deserialize(from)? {
        Id::Text(text) if text.is_empty() => Err(D::Error::custom("an empty id")),
        Id::Text(text) => Ok(text),
        Id::Number(number) => Ok(number.to_string()),
    }
}

/// Reads JSON as it came.
fn raw<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let json = Option::<&RawValue>::deserialize(from)?;
    Ok(json.map(|json| json.get().to_owned()))
}

/// A member of a presence channel, as its back end signed it in `channel_data`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChannelUser {
    #[serde(deserialize_with = "user_id")]
    pub user_id: String,
    /// JSON about the user, as it came; `None` if there was none.
    #[serde(default, deserialize_with = "raw")]
    pub user_info: Option<String>,
}

/// A user that a back end signed for a sign-in, in `user_data`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SignedInUser {
    #[serde(deserialize_with = "user_id")]
    pub id: String,
    /// JSON about the user, as it came; `None` if there was none.
    #[serde(default, deserialize_with = "raw")]
    pub user_info: Option<String>,
    /// Ids of users of whom the client wants to hear that they come online or go offline: as many
    /// as came.
    pub watchlist: Option<Vec<String>>,
}

impl ChannelUser {
    /// Reads `channel_data`. An id that is a number counts as its text; an empty one is refused.
    pub fn parse(channel_data: &str) -> Result<Self, MalformedFrame> {
        serde_json::from_str(channel_data).map_err(|_| MalformedFrame::Member)
    }
}

impl SignedInUser {
    /// Reads `user_data`, with ids as in [`ChannelUser::parse`]; pusher-js wants a string.
    pub fn parse(user_data: &str) -> Result<Self, MalformedFrame> {
        serde_json::from_str(user_data).map_err(|_| MalformedFrame::User)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(frame: &str) -> String {
        match ClientFrame::parse(frame) {
            Ok(frame) => format!("{frame:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn data_may_be_an_object_or_a_string() {
        let object = r#"{"event":"pusher:subscribe","data":{"channel":"a","auth":"k:s"}}"#;
        let text = r#"{"event":"pusher:subscribe","data":"{\"channel\":\"a\",\"auth\":\"k:s\"}"}"#;
        assert_eq!(shown(object), shown(text));
        assert!(shown(object).contains(r#"channel: "a", auth: Some("k:s"), channel_data: None"#));
    }

    #[test]
    fn frames_of_every_kind() {
        let raw = r#"{"event":"client-x","channel":"c","data":{"a": [1]}}"#;
        let Ok(ClientFrame::Event {
            event,
            channel,
            data,
        }) = ClientFrame::parse(raw)
        else {
            panic!("{}", shown(raw));
        };
        assert_eq!(
            (&*event, &*channel, data.get()),
            ("client-x", "c", r#"{"a": [1]}"#)
        );
        for (frame, expected) in [
            (r#"{"event":"pusher:ping","data":{}}"#, "Ping"),
            (r#"{"event":"pusher:pong"}"#, "Pong"),
            (
                concat!(
                    r#"{"event":"pusher:subscribe","#,
                    r#""data":{"channel":"a","auth":"","channel_data":null}}"#,
                ),
                concat!(
                    r#"Subscribe(SubscribeFields { channel: "a", "#,
                    r#"auth: Some(""), channel_data: None })"#,
                ),
            ),
            (
                r#"{"event":"pusher:unsubscribe","data":{"channel":"a"}}"#,
                r#"Unsubscribe { channel: "a" }"#,
            ),
            (
                r#"{"event":"pusher:signin","data":{"auth":"k:s","user_data":"{}"}}"#,
                r#"SignIn(SignInFields { auth: "k:s", user_data: "{}" })"#,
            ),
            (r#"{"event":"pusher:new","data":{}}"#, "Other"),
            ("[]", "the message is not a JSON object with an event"),
            ("{", "the message is not a JSON object with an event"),
            (
                r#"{"event":1}"#,
                "the message is not a JSON object with an event",
            ),
            (
                r#"{"event":"x","channel":"c"}"#,
                "clients may send events whose names begin with client- or pusher:",
            ),
        ] {
            assert_eq!(shown(frame), expected, "{frame}");
        }
        for lacking in [
            r#"{"event":"pusher:subscribe"}"#,
            r#"{"event":"pusher:subscribe","data":{"channel":1}}"#,
            r#"{"event":"pusher:signin","data":{"auth":"k:s"}}"#,
            r#"{"event":"client-x"}"#,
        ] {
            let expected = "the event lacks data, or its data are of the wrong type";
            assert_eq!(shown(lacking), expected, "{lacking}");
        }
    }

    #[test]
    fn users_and_members() {
        let member = ChannelUser::parse(r#"{"user_id":7,"user_info":{"a": 1}}"#).unwrap();
        assert_eq!(
            (&*member.user_id, member.user_info.as_deref()),
            ("7", Some(r#"{"a": 1}"#))
        );
        assert_eq!(
            ChannelUser::parse(r#"{"user_id":"é"}"#).unwrap().user_id,
            "é"
        );
        for wrong in ["", "{}", r#"{"user_id":""}"#, r#"{"user_id":[1]}"#] {
            assert_eq!(
                ChannelUser::parse(wrong),
                Err(MalformedFrame::Member),
                "{wrong}"
            );
        }
        let user = SignedInUser::parse(r#"{"id":"7","watchlist":["8","9"]}"#).unwrap();
        assert_eq!((&*user.id, user.watchlist.unwrap().len()), ("7", 2));
        assert_eq!(SignedInUser::parse(r#"{"id":7}"#).unwrap().id, "7");
        for wrong in ["", r#"{"id":{}}"#, r#"{"id":""}"#] {
            assert_eq!(
                SignedInUser::parse(wrong),
                Err(MalformedFrame::User),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = ClientFrame::parse(&text);
            let _ = ChannelUser::parse(&text);
            let _ = SignedInUser::parse(&text);
        }
    }
}
