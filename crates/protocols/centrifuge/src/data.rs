//! The application's own data, as a request carries it.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind};

use crate::json::payload_of;

/// Data of a request, borrowed from its frame. Never looked into.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    /// One JSON value.
    Json(&'a RawValue),
    /// The Protobuf form has any bytes; mostly they are JSON all the same.
    Bytes(&'a [u8]),
}

impl<'a> Data<'a> {
    /// The bytes as they came.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(json) => json.get().as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// A payload of its own. Bytes that are one JSON value become JSON, so that subscribers with
    /// both forms of the protocol get the value that was meant.
    #[must_use]
    pub fn payload(self) -> Payload {
        match self {
            Self::Json(json) => Payload {
                bytes: json.get().as_bytes().into(),
                kind: PayloadKind::Json,
            },
            Self::Bytes(bytes) => payload_of(bytes),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Data<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::Json)
    }
}

/// As text, whatever form it came in.
impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.bytes()), f)
    }
}
