//! Larger requests of the client protocol, borrowed from the frame's bytes, and frames of emulated
//! transports, whose session lives on another connection.

use std::borrow::Cow;

use serde::Deserializer;

use crate::code::{Malformed, not_a_command, utf8};
use crate::field::{FromJson, TextEntry, message};
use crate::filter::FilterNode;
use crate::json::{ClientData, Text, each_entry};
use crate::protobuf::{FromProtobuf, Value, read};
use crate::strict;

/// Header fields as names and values.
pub type HeaderFields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

message! {
    /// Parameters of `connect`: credentials and wishes of the client.
    pub struct Connect<'a> {
        /// The connection token, empty for none.
        pub token: Cow<'a, str> = 1,
        pub data: Option<ClientData<'a>> = 2,
        /// Server-side subscriptions to recover, and channels that a unidirectional client wants.
        pub subs: Vec<Subscribe<'a>> = 3,
        /// The SDK's or application's name, such as `js`.
        pub name: Cow<'a, str> = 4,
        /// Version of that SDK or application.
        pub version: Cow<'a, str> = 5,
        /// Header fields that the client could not send as such.
        pub headers: HeaderFields<'a> = 6,
        /// Connection features that the client supports, as bits; the server answers with those it
        /// enabled.
        pub flag: i64 = 7,
    }
}

impl Subscribe<'_> {
    /// Tells whether the client wants an error instead of `recovered: false`.
    #[must_use]
    pub const fn rejects_unrecovered(&self) -> bool {
        self.flag & 2 != 0
    }
}

impl<'a> Connect<'a> {
    /// Reads a bare connect request in Protobuf, as the unidirectional stream of gRPC takes it.
    pub fn parse_message(message: &'a [u8]) -> Result<Self, Malformed> {
        read(message)
    }

    /// Reads a bare connect request, as unidirectional transports take it: the parameter
    /// `cf_connect` of `/connection/uni_sse`, the body of `/connection/uni_http_stream`, the first
    /// message of `/connection/uni_websocket`. Nothing, white space and `null` are an anonymous
    /// request.
    pub fn parse(json: &'a [u8]) -> Result<Self, Malformed> {
        let text = utf8(json)?;
        if text.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        strict::from_str::<Option<Self>>(text)
            .map(Option::unwrap_or_default)
            .map_err(|error| not_a_command(&error))
    }
}

message! {
    /// Parameters of `subscribe` for one channel.
    pub struct Subscribe<'a> {
        pub channel: Cow<'a, str> = 1,
        /// The subscription token, empty for none.
        pub token: Cow<'a, str> = 2,
        /// True if everything after `epoch` and `offset` should be sent along.
        pub recover: bool = 3,
        /// The stream's epoch that the client knows; see `throng_types::Epoch::parse`.
        pub epoch: Cow<'a, str> = 6,
        /// The offset of the last publication that the client has.
        pub offset: u64 = 7,
        pub data: Option<ClientData<'a>> = 8,
        /// True if gaps should be detected while subscribed.
        pub positioned: bool = 9,
        /// True if the client will want to recover later.
        pub recoverable: bool = 10,
        /// True if the client wants to hear of others who come and go.
        pub join_leave: bool = 11,
        /// The delta format that the client can read (`fossil`), empty for none.
        pub delta: Cow<'a, str> = 12,
        /// A filter over the tags of publications.
        #[serde(rename = "tf")]
        pub filter: Option<FilterNode<'a>> = 13,
        /// Subscription features, as bits: 1 numbers instead of channel names in pushes, 2 an error
        /// instead of `recovered: false`.
        pub flag: i64 = 14,
        /// The kind of subscription; 0 is a stream, the only one that is offered.
        #[serde(rename = "type")]
        pub(crate) kind: i32 = 15,
    }
}

message! {
    /// Parameters of `history` for one channel.
    pub struct History<'a> {
        pub channel: Cow<'a, str> = 1,
        /// At most so many publications; 0 asks for the stream's position only, a negative one for
        /// all.
        pub limit: i32 = 7,
        /// Only what comes after (with `reverse`: before) this position.
        pub since: Option<Since<'a>> = 8,
        /// Order with the latest first.
        pub reverse: bool = 9,
    }
}

message! {
    /// A position as a client or a backend states it, the epoch still text.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Since<'a> {
        /// Offset of the last publication that is known.
        pub offset: u64 = 1,
        /// The epoch; empty if the client never learned it.
        pub epoch: Cow<'a, str> = 2,
    }
}

/// The most header fields that a client may state; more are passed over.
const HEADERS_MAX: usize = 64;

/// In JSON an object from name to text.
impl<'de: 'a, 'a> FromJson<'de> for HeaderFields<'a> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut headers = Vec::new();
        each_entry(deserializer, |name, value: Option<Text<'de>>| {
            if headers.len() < HEADERS_MAX {
                headers.push((name, value.unwrap_or_default().0));
            }
        })?;
        Ok(headers)
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for HeaderFields<'a> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        if self.len() < HEADERS_MAX {
            let TextEntry { name, value } = read(value.bytes()?)?;
            self.push((name, value));
        }
        Ok(())
    }
}

/// In JSON an object from channel to request, read into requests that know their channel.
impl<'de: 'a, 'a> FromJson<'de> for Vec<Subscribe<'a>> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut subs = Vec::new();
        each_entry(deserializer, |channel, sub: Option<Subscribe<'de>>| {
            let sub = sub.unwrap_or_default();
            subs.push(Subscribe { channel, ..sub });
        })?;
        Ok(subs)
    }
}

message! {
    /// Entry of the map from channel to request.
    struct SubEntry<'a> {
        channel: Cow<'a, str> = 1,
        subscribe: Option<Subscribe<'a>> = 2,
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Vec<Subscribe<'a>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        let SubEntry { channel, subscribe } = read(value.bytes()?)?;
        let subscribe = subscribe.unwrap_or_default();
        self.push(Subscribe {
            channel,
            ..subscribe
        });
        Ok(())
    }
}

message! {
    /// Body of `POST /emulation`.
    #[derive(PartialEq, Eq)]
    pub struct Emulation<'a> {
        /// The node that holds the session, as the connect result named it.
        pub node: Cow<'a, str> = 1,
        /// The session, as the connect result named it.
        pub session: Cow<'a, str> = 2,
        /// A frame of commands, for [`crate::Codec::commands`].
        pub data: Cow<'a, [u8]> = 3,
    }
}

impl<'a> Emulation<'a> {
    /// Reads a body in JSON; see [`crate::Codec::emulation`].
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        strict::from_str(utf8(body)?).map_err(|error| not_a_command(&error))
    }
}

#[cfg(test)]
mod tests {
    use crate::Codec;

    #[test]
    fn both_forms_are_read_alike() {
        let json = br#"{"session":"s","node":"n","data":"{\"id\":1}\n{}"}"#;
        let mut bytes = Vec::new();
        for (number, text) in [(1, "n"), (2, "s"), (3, "{\"id\":1}\n{}")] {
            bytes.extend([number << 3 | 2, text.len() as u8]);
            bytes.extend(text.as_bytes());
        }
        let read = Codec::Json.emulation(json).expect("a request");
        assert_eq!(Codec::Protobuf.emulation(&bytes), Ok(read));
        for cut in 1..bytes.len() {
            let fields_end = [3, 6].contains(&cut);
            let read = Codec::Protobuf.emulation(&bytes[..cut]);
            assert_eq!(read.is_ok(), fields_end, "{cut}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for wrong in ["", "[]", "1", "{\"data\":{}}", "{\"data\":\"x\"", "{} {}"] {
            let read = Codec::Json.emulation(wrong.as_bytes());
            assert!(read.is_err(), "{wrong}");
        }
    }
}
