//! Larger requests of the client protocol, borrowed from the frame's bytes, and frames of emulated
//! transports, whose session lives on another connection.
//!
//! Unknown fields are ignored, because the protocol grows by fields that both sides negotiate;
//! `null` means the default.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use crate::code::{Malformed, not_a_command, utf8};
use crate::filter::FilterNode;
use crate::json::{ClientData, Text, each_entry, or_default, text};
use crate::strict;

/// Header fields as names and values.
pub type HeaderFields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Parameters of `connect`: credentials and wishes of the client.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Connect<'a> {
    /// The connection token, empty for none.
    #[serde(borrow, deserialize_with = "text")]
    pub token: Cow<'a, str>,
    /// The application's own data.
    #[serde(borrow)]
    pub data: Option<ClientData<'a>>,
    /// Server-side subscriptions to recover, and channels that a unidirectional client wants.
    #[serde(borrow, deserialize_with = "subs")]
    pub subs: Vec<Subscribe<'a>>,
    /// The SDK's or application's name, such as `js`.
    #[serde(borrow, deserialize_with = "text")]
    pub name: Cow<'a, str>,
    /// Version of that SDK or application.
    #[serde(borrow, deserialize_with = "text")]
    pub version: Cow<'a, str>,
    /// Header fields that the client could not send as such.
    #[serde(borrow, deserialize_with = "headers")]
    pub headers: HeaderFields<'a>,
    /// Connection features that the client supports, as bits; the server answers with those it
    /// enabled.
    #[serde(deserialize_with = "or_default")]
    pub flag: i64,
}

impl Subscribe<'_> {
    /// Tells whether the client wants an error instead of `recovered: false`.
    #[must_use]
    pub const fn rejects_unrecovered(&self) -> bool {
        self.flag & 2 != 0
    }
}

impl<'a> Connect<'a> {
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

/// Parameters of `subscribe` for one channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Subscribe<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// The subscription token, empty for none.
    #[serde(borrow, deserialize_with = "text")]
    pub token: Cow<'a, str>,
    /// True if everything after `epoch` and `offset` should be sent along.
    #[serde(deserialize_with = "or_default")]
    pub recover: bool,
    /// The stream's epoch that the client knows; see `throng_types::Epoch::parse`.
    #[serde(borrow, deserialize_with = "text")]
    pub epoch: Cow<'a, str>,
    /// The offset of the last publication that the client has.
    #[serde(deserialize_with = "or_default")]
    pub offset: u64,
    /// The application's own data.
    #[serde(borrow)]
    pub data: Option<ClientData<'a>>,
    /// True if gaps should be detected while subscribed.
    #[serde(deserialize_with = "or_default")]
    pub positioned: bool,
    /// True if the client will want to recover later.
    #[serde(deserialize_with = "or_default")]
    pub recoverable: bool,
    /// True if the client wants to hear of others who come and go.
    #[serde(deserialize_with = "or_default")]
    pub join_leave: bool,
    /// The delta format that the client can read (`fossil`), empty for none.
    #[serde(borrow, deserialize_with = "text")]
    pub delta: Cow<'a, str>,
    /// A filter over the tags of publications.
    #[serde(rename = "tf", borrow, deserialize_with = "or_default")]
    pub filter: Option<FilterNode<'a>>,
    /// Subscription features, as bits: 1 numbers instead of channel names in pushes, 2 an error
    /// instead of `recovered: false`.
    #[serde(deserialize_with = "or_default")]
    pub flag: i64,
    /// The kind of subscription; 0 is a stream, the only one that is offered.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: i32,
}

/// Parameters of `history` for one channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct History<'a> {
    #[serde(borrow, deserialize_with = "text")]
    pub channel: Cow<'a, str>,
    /// At most so many publications; 0 asks for the stream's position only, a negative one for all.
    #[serde(deserialize_with = "or_default")]
    pub limit: i32,
    /// Only what comes after (with `reverse`: before) this position.
    #[serde(borrow)]
    pub since: Option<Since<'a>>,
    /// Order with the latest first.
    #[serde(deserialize_with = "or_default")]
    pub reverse: bool,
}

/// A position as a client or a backend states it, the epoch still text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Since<'a> {
    /// Offset of the last publication that is known.
    #[serde(deserialize_with = "or_default")]
    pub offset: u64,
    /// The epoch; empty if the client never learned it.
    #[serde(borrow, deserialize_with = "text")]
    pub epoch: Cow<'a, str>,
}

/// The most header fields that a client may state; more are passed over.
pub(crate) const HEADERS_MAX: usize = 64;

/// For `connect.headers`: an object from name to text.
fn headers<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<HeaderFields<'a>, D::Error> {
    let mut headers = Vec::new();
    each_entry(deserializer, |name, value: Option<Text<'de>>| {
        if headers.len() < HEADERS_MAX {
            headers.push((name, value.map_or(Cow::Borrowed(""), |Text(value)| value)));
        }
    })?;
    Ok(headers)
}

/// For `connect.subs`: an object from channel to request, read into requests that know their
/// channel.
fn subs<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Subscribe<'a>>, D::Error> {
    let mut subs = Vec::new();
    each_entry(deserializer, |channel, sub: Option<Subscribe<'de>>| {
        let sub = sub.unwrap_or_default();
        subs.push(Subscribe { channel, ..sub });
    })?;
    Ok(subs)
}

/// The body of `POST /emulation`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Emulation<'a> {
    /// The node that holds the session, as the connect result named it.
    pub node: Cow<'a, str>,
    /// The session, as the connect result named it.
    pub session: Cow<'a, str>,
    /// A frame of commands, for [`crate::Codec::commands`].
    pub data: Cow<'a, [u8]>,
}

/// The JSON form: the frame is a string.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Json<'a> {
    #[serde(borrow, deserialize_with = "text")]
    node: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "text")]
    session: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "text")]
    data: Cow<'a, str>,
}

impl<'a> Emulation<'a> {
    /// Reads a body in JSON; see [`crate::Codec::emulation`].
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let json: Json<'a> =
            strict::from_str(utf8(body)?).map_err(|error| not_a_command(&error))?;
        Ok(Self {
            node: json.node,
            session: json.session,
            data: match json.data {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        })
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
