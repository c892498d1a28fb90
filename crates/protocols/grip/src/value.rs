//! Tree for items of publishers, whether JSON or tnetstrings.
//!
//! Owns: the tree, reading it from JSON, and taking fields out of objects with errors that
//! name them. Never: knows what a field is for.
//!
//! JSON has no bytes, so it carries them as base64 under names that end in `-bin`;
//! tnetstrings have no text, so bytes stand wherever text is meant.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

#[cfg(test)]
pub(crate) mod tests;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, or tnetstring type `~`.
    Null,
    /// `true` or `false`, in either coding.
    Bool(bool),
    /// Whole number of 64 bits.
    Int(i64),
    /// Number with a fraction or an exponent.
    Float(f64),
    /// Text, from JSON only.
    Text(String),
    /// Bytes, from tnetstrings only.
    Bytes(Vec<u8>),
    /// Array, in its order.
    List(Vec<Self>),
    /// An object, in its order. A name that comes twice counts with its last value.
    Object(Vec<(String, Self)>),
}

/// Coding of a document, which decides how bytes are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Bytes are base64 text.
    Json,
    /// Bytes stand as they are.
    Tnetstring,
}

/// Fault of a document that was well-formed. The texts reach publishers and backends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("{place}: an object was expected")]
    NotAnObject { place: &'static str },
    #[error("{place}: {field} is missing")]
    Missing {
        place: &'static str,
        field: &'static str,
    },
    #[error("{place}: {field} has a value of the wrong kind")]
    WrongType { place: &'static str, field: String },
    #[error("{place}: {field} cannot have this value")]
    Invalid {
        place: &'static str,
        field: &'static str,
    },
    #[error("{place}: {field} is not base64")]
    NotBase64 {
        place: &'static str,
        field: &'static str,
    },
    #[error("item: none of http-response, http-stream and ws-message is there")]
    NoFormats,
}

/// An object being taken apart.
#[derive(Debug)]
pub(crate) struct Fields {
    place: &'static str,
    coding: Coding,
    entries: Vec<(String, Value)>,
}

impl Fields {
    /// Takes an object apart; `place` names it in errors.
    pub(crate) fn new(
        value: Value,
        coding: Coding,
        place: &'static str,
    ) -> Result<Self, DocumentError> {
        match value {
            Value::Object(entries) => Ok(Self {
                place,
                coding,
                entries,
            }),
            _ => Err(DocumentError::NotAnObject { place }),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes a field and hands it out, `null` too.
    pub(crate) fn take(&mut self, field: &str) -> Option<Value> {
        // From the end: of two fields with one name the later one counts.
        let at = self.entries.iter().rposition(|(name, _)| name == field)?;
        Some(self.entries.remove(at).1)
    }

    /// A text, or none if absent or null.
    pub(crate) fn text(&mut self, field: &'static str) -> Result<Option<String>, DocumentError> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.into_text() {
                Some(text) => Ok(Some(text)),
                None => Err(self.wrong_type(field)),
            },
        }
    }

    pub(crate) fn required_text(&mut self, field: &'static str) -> Result<String, DocumentError> {
        match self.take(field) {
            None => Err(self.missing(field)),
            Some(value) => value.into_text().ok_or_else(|| self.wrong_type(field)),
        }
    }

    /// A whole number, also when written as text, between two bounds. None if absent.
    pub(crate) fn integer(
        &mut self,
        field: &'static str,
        min: i64,
        max: i64,
    ) -> Result<Option<i64>, DocumentError> {
        let Some(value) = self.take(field) else {
            return Ok(None);
        };
        let Some(number) = value.as_integer() else {
            return Err(self.wrong_type(field));
        };
        if (min..=max).contains(&number) {
            Ok(Some(number))
        } else {
            Err(self.invalid(field))
        }
    }

    /// A list of texts. None if absent.
    pub(crate) fn texts(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Vec<String>>, DocumentError> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::List(list)) => list
                .into_iter()
                .map(Value::into_text)
                .collect::<Option<_>>()
                .map(Some)
                .ok_or_else(|| self.wrong_type(field)),
            Some(_) => Err(self.wrong_type(field)),
        }
    }

    /// Another object inside. None if absent or null.
    pub(crate) fn object(
        &mut self,
        field: &'static str,
        place: &'static str,
    ) -> Result<Option<Self>, DocumentError> {
        match self.take(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value @ Value::Object(_)) => Self::new(value, self.coding, place).map(Some),
            Some(_) => Err(self.wrong_type(field)),
        }
    }

    /// `meta`: an object whose values are all texts. Empty if absent or null.
    pub(crate) fn meta(&mut self) -> Result<Vec<(String, String)>, DocumentError> {
        let Some(inner) = self.object("meta", "meta")? else {
            return Ok(Vec::new());
        };
        let mut out: Vec<(String, String)> = Vec::with_capacity(inner.entries.len());
        // Where each key is: a body may have a hundred thousand, too many to be looked for one by
        // one.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (key, value) in inner.entries {
            let Some(value) = value.into_text() else {
                return Err(DocumentError::WrongType {
                    place: "meta",
                    field: key,
                });
            };
            // Of two keys with one name the later one counts.
            match places.get(&key).and_then(|&at| out.get_mut(at)) {
                Some(entry) => entry.1 = value,
                None => {
                    places.insert(key.clone(), out.len());
                    out.push((key, value));
                }
            }
        }
        Ok(out)
    }

    /// Bytes under `text` or, in JSON as base64, under `binary`, which wins. None if neither
    /// is there. The flag says that it was `binary`.
    pub(crate) fn bytes(
        &mut self,
        text: &'static str,
        binary: &'static str,
    ) -> Result<Option<(Vec<u8>, bool)>, DocumentError> {
        if let Some(value) = self.take(binary) {
            let bytes = match (self.coding, value) {
                (Coding::Json, Value::Text(text)) => {
                    decode_base64(&text).ok_or(DocumentError::NotBase64 {
                        place: self.place,
                        field: binary,
                    })?
                }
                (Coding::Tnetstring, Value::Bytes(bytes)) => bytes,
                _ => return Err(self.wrong_type(binary)),
            };
            return Ok(Some((bytes, true)));
        }
        match self.take(text) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some((text.into_bytes(), false))),
            Some(Value::Bytes(bytes)) => Ok(Some((bytes, false))),
            Some(_) => Err(self.wrong_type(text)),
        }
    }

    pub(crate) fn missing(&self, field: &'static str) -> DocumentError {
        DocumentError::Missing {
            place: self.place,
            field,
        }
    }

    pub(crate) fn wrong_type(&self, field: &str) -> DocumentError {
        DocumentError::WrongType {
            place: self.place,
            field: field.to_owned(),
        }
    }

    pub(crate) fn invalid(&self, field: &'static str) -> DocumentError {
        DocumentError::Invalid {
            place: self.place,
            field,
        }
    }
}

impl Value {
    /// From JSON text. Depth is bounded by the reader (128 levels).
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Text, or bytes read as UTF-8 with replacement characters.
    #[must_use]
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(bytes) => Some(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
            _ => None,
        }
    }

    /// A whole number; text in decimal counts, and a fraction is rounded.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            // `as` saturates, and what it saturates to is out of every bound used here.
            Self::Float(number) if number.is_finite() => Some(number.round() as i64),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Bytes(bytes) => str::from_utf8(bytes).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// Converts to a JSON tree; bytes become text.
    #[must_use]
    pub fn into_json(self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Float(value) => value.into(),
            Self::List(list) => list.into_iter().map(Self::into_json).collect(),
            Self::Object(entries) => entries
                .into_iter()
                .map(|(name, value)| (name, value.into_json()))
                .collect(),
            text @ (Self::Text(_) | Self::Bytes(_)) => text.into_text().into(),
        }
    }
}

/// An object that is being put together, in the order of its fields.
#[derive(Default)]
pub(crate) struct NewObject(Vec<(String, Value)>);

impl NewObject {
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl From<NewObject> for Value {
    fn from(object: NewObject) -> Self {
        Self::Object(object.0)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    /// A number beyond what both codings hold stays at the bound.
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

macro_rules! plain {
    ($($visit:ident($Type:ty): $Variant:ident),+) => {$(
        fn $visit<E>(self, value: $Type) -> Result<Value, E> {
            Ok(Value::$Variant(value))
        }
    )+};
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    plain! { visit_bool(bool): Bool, visit_i64(i64): Int, visit_f64(f64): Float }
    plain! { visit_string(String): Text }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Object(entries))
    }
}

/// Base64 of the standard alphabet; white space inside and missing padding are taken,
/// because encoders of publishers differ there.
#[must_use]
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let text: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        return ENGINE.decode(text).ok();
    }
    ENGINE.decode(text).ok()
}
