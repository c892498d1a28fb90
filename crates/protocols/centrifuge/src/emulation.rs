//! What a client of an emulated transport sends beside its stream: commands for a session that
//! lives on another connection.

use std::borrow::Cow;

use serde::Deserialize;

use crate::json::text;
use crate::malformed::{Malformed, not_a_command, utf8};
use crate::strict;

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
