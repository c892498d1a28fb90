//! Fields of what clients and backends send. A message is declared once for JSON and Protobuf, by
//! `message!`, or by `fields!` if it has only a JSON form.
//!
//! In both forms a field that is missing has its default, and fields that are not known are passed
//! over, because the protocol grows by fields that both sides negotiate; calls of the server API in
//! JSON refuse them. In JSON `null` means the default.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::code::{Malformed, utf8};
use crate::json::{AnyText, ClientData, Text, append_text, each_entry};
use crate::protobuf::{FromProtobuf, Message, Value, read};

/// Declares a struct whose fields are all read by [`FromJson`].
macro_rules! fields {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident<'a> {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty,)*
    }) => {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        $(#[$meta])*
        $vis struct $Name<'a> {
            $(
                $(#[$of_field])*
                #[serde(deserialize_with = "crate::field::FromJson::from_json")]
                $field_vis $field: $Type,
            )*
        }
    };
}

/// Declares a message with the numbers that its fields have in Protobuf, unless only JSON has them.
macro_rules! message {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident<'a> {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty $(= $number:literal)?,)*
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
                    $($(
                        $number => crate::protobuf::FromProtobuf::merge(&mut self.$field, value),
                    )?)*
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

/// Data, of which `null` is a value and only a missing field is nothing.
#[derive(Debug)]
pub struct IfThere<T>(pub Option<T>);

impl<T> Default for IfThere<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Tags: a JSON object of texts, kept as it was written. Nothing and the empty object are both no
/// tags.
#[derive(Debug, Default)]
pub struct Tags<'a>(pub Option<Cow<'a, str>>);

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

        /// Cuts off what is above its bits, as every reader of Protobuf does.
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

impl<'de, T: Deserialize<'de>> FromJson<'de> for IfThere<T> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for IfThere<ClientData<'a>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        self.0.merge(value)
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Vec<Cow<'a, str>> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts: Vec<Text<'a>> = or_default(deserializer)?;
        Ok(texts.into_iter().map(|Text(text)| text).collect())
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
        Ok(Self((count > 0).then_some(Cow::Borrowed(raw.get()))))
    }
}

message! {
    /// Entry of a map from name to text.
    pub(crate) struct TextEntry<'a> {
        pub(crate) name: Cow<'a, str> = 1,
        pub(crate) value: Cow<'a, str> = 2,
    }
}

/// An entry of the map, which is kept as JSON too.
impl<'de: 'a, 'a> FromProtobuf<'de> for Tags<'a> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        let TextEntry { name, value } = read(value.bytes()?)?;
        let mut json = self.0.take().map_or_else(String::new, Cow::into_owned);
        json.truncate(json.len().saturating_sub(1));
        json.push(if json.is_empty() { '{' } else { ',' });
        let mut entry = Vec::new();
        append_text(&name, &mut entry);
        entry.push(b':');
        append_text(&value, &mut entry);
        json.push_str(utf8(&entry)?);
        json.push('}');
        self.0 = Some(Cow::Owned(json));
        Ok(())
    }
}

impl<'de: 'a, 'a> FromProtobuf<'de> for Vec<Cow<'a, str>> {
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed> {
        self.push(Cow::Borrowed(value.text()?));
        Ok(())
    }
}
