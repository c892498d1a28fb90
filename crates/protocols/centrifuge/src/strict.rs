//! JSON in which an object is an object.
//!
//! Serde's derived readers take an array for a struct, its items for the fields in their order. The
//! protocol has no such form, and a client that sends one is broken. So every request, and every
//! struct inside one, is read by [`from_str`]: this module turns each wish for a struct into a wish
//! for an object, on all levels, and changes nothing else.
//!
//! Never: decides what a field means. Text and raw values are borrowed as without it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Reads one value, with nothing but white space behind it.
///
/// # Errors
/// The text is not the JSON that `T` asks for.
pub(crate) fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Strict(&mut json))?;
    json.end()?;
    Ok(value)
}

/// Reads one value of UTF-8 text.
///
/// # Errors
/// As [`from_str`]; also if the bytes are not UTF-8.
pub(crate) fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(Strict(&mut json))?;
    json.end()?;
    Ok(value)
}

/// A value, read by these rules whatever reads it.
pub(crate) struct Checked<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Strict(deserializer)).map(Self)
    }
}

/// An object without fields that anybody looks at.
#[derive(Default, Deserialize)]
pub(crate) struct Nothing {}

/// A reader, or what a reader calls back, with these rules around it.
struct Strict<T>(T);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Strict(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Strict(visitor))
    }

    // The name tells serde_json that a value is wanted as it was written.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Strict(visitor))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct enum identifier
    }
}

macro_rules! forward {
    ($($visit:ident($Type:ty))+) => {$(
        fn $visit<E: serde::de::Error>(self, value: $Type) -> Result<V::Value, E> {
            self.0.$visit(value)
        }
    )+};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str)
        visit_borrowed_str(&'de str) visit_string(String)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(map))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(Strict(seed))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Inner {
        number: u32,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Outer<'a> {
        text: &'a str,
        inner: Option<Inner>,
        list: Vec<Inner>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }

    #[test]
    fn an_array_is_no_object_on_any_level() {
        let array = "[\"t\",null,[],1]";
        assert!(
            serde_json::from_str::<Outer<'_>>(array).is_ok(),
            "the reason for this module"
        );
        for wrong in [
            array,
            "[]",
            "{\"inner\":[1]}",
            "{\"inner\":[]}",
            "{\"list\":[[1]]}",
            "{\"list\":{\"number\":1}}",
            "{} {}",
        ] {
            assert!(from_str::<Outer<'_>>(wrong).is_err(), "{wrong}");
            assert!(
                from_slice::<Outer<'_>>(wrong.as_bytes()).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_right_is_read_as_ever_and_borrowed() {
        let text = "{\"text\":\"t\",\"new\":[[{}]],\"inner\":{\"number\":1},\
                    \"list\":[{\"number\":2},{}],\"raw\":[ 1, {} ]}";
        let outer: Outer<'_> = from_str(text).expect("an object");
        assert!(
            text.as_bytes()
                .as_ptr_range()
                .contains(&outer.text.as_ptr())
        );
        assert_eq!((outer.text, outer.inner), ("t", Some(Inner { number: 1 })));
        assert_eq!(outer.list, [Inner { number: 2 }, Inner { number: 0 }]);
        assert_eq!(outer.raw.map(RawValue::get), Some("[ 1, {} ]"));
    }
}
