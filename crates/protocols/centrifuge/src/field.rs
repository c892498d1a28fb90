//! Fields of what clients and backends send. A message is declared once for JSON and Protobuf, by
//! `message!`, or by `fields!` if it has only a JSON form.
//!
//! In both forms a field that is missing has its default, and fields that are not known are passed
//! over, because the protocol grows by fields that both sides negotiate. In JSON `null` means the
//! default.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::code::Malformed;
use crate::filter::{DEPTH_MAX, FilterNode};
use crate::json::{AnyText, ClientData, Text, each_entry};
use crate::protobuf::{Message, Value, filter_node, read};
use crate::request::{HEADERS_MAX, HeaderFields, Subscribe};

/// Declares a struct whose fields are all read by [`FromJson`].
macro_rules! fields {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident<'a> {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        $vis struct $Name<'a> {
            $(
                $(#[$of_field])*
                #[serde(deserialize_with = "crate::field::FromJson::from_json")]
                $field_vis $field: $Type,
            )*
        }
    };
}

/// Declares a message with the numbers that its fields have in Protobuf.
macro_rules! message {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident<'a> {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty = $number:literal,)*
    }) => {
        crate::field::fields! {
            $(#[$meta])* $vis struct $Name<'a> {
                $($(#[$of_field])* $field_vis $field: $Type,)*
            }
        }

        impl<'de: 'a, 'a> crate::protobuf::Message<'de> for $Name<'a> {
            fn field(
                &mut self,
                number: u64,
                value: crate::protobuf::Value<'de>,
            ) -> Result<(), crate::Malformed> {
                match number {
                    $($number => crate::field::FromProtobuf::merge(&mut self.$field, value),)*
                    _ => Ok(()),
                }
            }
        }
    };
}

pub(crate) use {fields, message};

/// A field's value out of JSON.
pub(crate) trait FromJson<'de>: Sized {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// A field's value out of Protobuf.
pub(crate) trait FromProtobuf<'de> {
    /// Replaces the value, or adds to a list.
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed>;
}

/// Data, of which `null` is a value and only a missing field is nothing.
#[derive(Debug)]
pub struct Present<T>(pub Option<T>);

impl<T> Default for Present<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Tags: a JSON object of texts, kept as it was written. Nothing and the empty object are both no
/// tags.
#[derive(Debug, Default)]
pub struct Tags<'a>(pub Option<&'a str>);

/// For fields in which `null` means the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

macro_rules! numbers {
    ($($Number:ty)+) => {$(
        impl<'de> FromJson<'de> for $Number {
            fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                or_default(deserializer)
            }
        }

        /// What is above its bits is cut off, as every reader of Protobuf does.
        impl FromProtobuf<'_> for $Number {
            fn merge(&mut self, value: Value<'_>) -> Result<(), Malformed> {
                *self = value.number()? as Self;
                Ok(())
            }
        }
    )+};
}

numbers!(i32 i64 u32 u64);

impl<'de> FromJson<'de> for bool {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer)
    }
}

impl FromProtobuf<'_> for bool {
    fn merge(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        *self = value.number()? != 0;
        Ok(())
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Cow<'a, str> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(|Text(text)| text)
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Cow<'a, str> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        *self = Cow::Borrowed(value.text()?);
        Ok(())
    }
}

/// Bytes, which are a text in JSON.
impl<'de: 'a, 'a> FromJson<'de> for Cow<'a, [u8]> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(|Text(text)| match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Cow<'a, [u8]> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        *self = Cow::Borrowed(value.bytes()?);
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> FromJson<'de> for Option<T> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de, M: Message<'de>> FromProtobuf<'de> for Option<M> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        *self = Some(read(value.bytes()?)?);
        Ok(())
    }
}

/// Data that are empty are none: in Protobuf the two are alike.
impl<'de: 'a, 'a> FromProtobuf<'de> for Option<ClientData<'a>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        let bytes = value.bytes()?;
        *self = (!bytes.is_empty()).then_some(ClientData::Bytes(bytes));
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> FromJson<'de> for Present<T> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Present<ClientData<'a>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        self.0.merge(value)
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Option<FilterNode<'a>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        *self = Some(filter_node(value.bytes()?, DEPTH_MAX)?);
        Ok(())
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Vec<FilterNode<'a>> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer)
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Vec<Cow<'a, str>> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts: Vec<Text<'a>> = or_default(deserializer)?;
        Ok(texts.into_iter().map(|Text(text)| text).collect())
    }
}

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

message! {
    /// Entry of a map from name to text.
    struct TextEntry<'a> {
        name: Cow<'a, str> = 1,
        value: Cow<'a, str> = 2,
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

impl<'de: 'a, 'a> FromJson<'de> for Tags<'a> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(raw) = Option::<&RawValue>::deserialize(deserializer)? else {
            return Ok(Self(None));
        };
        let mut count = 0;
        let mut json = serde_json::Deserializer::from_str(raw.get());
        each_entry(&mut json, |_, _: AnyText| count += 1)
            .map_err(|_| serde::de::Error::custom("tags are not an object of strings"))?;
        Ok(Self((count > 0).then_some(raw.get())))
    }
}
