//! Objects of JSON, the few lenient readers that the protocol asks for, and the application's own
//! data in a request.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind, Position};

pub(crate) use throng_types::json::{
    append_json, append_payload, append_str as append_text, payload_of,
};

pub(crate) fn append_number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// An object under construction: puts the commas where they belong.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Writes a key that needs no escaping and lends the buffer for its value.
    pub(crate) fn value(&mut self, key: &'static str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a key that may need escaping and lends the buffer for its value.
    pub(crate) fn value_of(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        append_text(key, self.out);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn text(&mut self, key: &'static str, text: &str) {
        append_text(text, self.value(key));
    }

    pub(crate) fn texts(&mut self, key: &'static str, texts: &[&str]) {
        append_list(texts, self.value(key), |text, out| append_text(text, out));
    }

    /// Leaves an empty text out, as Protobuf's JSON mapping does with defaults.
    pub(crate) fn text_if_any(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    pub(crate) fn json_if_any(&mut self, key: &'static str, json: Option<&str>) {
        if let Some(json) = json {
            append_json(json.as_bytes(), self.value(key));
        }
    }

    pub(crate) fn number(&mut self, key: &'static str, number: u64) {
        append_number(number, self.value(key));
    }

    pub(crate) fn number_if_any(&mut self, key: &'static str, number: u64) {
        if number != 0 {
            self.number(key, number);
        }
    }

    pub(crate) fn flag_if_set(&mut self, key: &'static str, flag: bool) {
        if flag {
            self.value(key).extend_from_slice(b"true");
        }
    }

    pub(crate) fn position_if_any(&mut self, position: Option<Position>) {
        if let Some(position) = position {
            append_epoch(position, self.value("epoch"));
            self.number_if_any("offset", position.offset);
        }
    }

    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}

/// Appends a list whose items `append` writes.
pub(crate) fn append_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    append: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append(item, out);
    }
    out.push(b']');
}

/// Appends the epoch in its text form, in quotes; hexadecimal digits need no escaping.
pub(crate) fn append_epoch(position: Position, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to a vector does not fail.
    let _ = write!(out, "\"{}\"", position.epoch);
}

/// A string that borrows from the input unless it has escapes; `null` is the empty string.
///
/// `Cow`'s own implementation always copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(""))
            }
        }

        deserializer.deserialize_any(TextVisitor).map(Text)
    }
}

/// For string fields; see [`Text`].
pub(crate) fn text<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, str>, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}

/// For fields in which `null` means the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// For data, where `null` is a value and only a missing field is nothing.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// For a list of strings, each borrowed where it can be.
pub(crate) fn texts<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Cow<'a, str>>, D::Error> {
    let texts = Option::<Vec<Text<'a>>>::deserialize(deserializer)?;
    Ok(texts
        .unwrap_or_default()
        .into_iter()
        .map(|text| text.0)
        .collect())
}

/// For `tags`: an object in which every value is a string, kept as it was written.
///
/// Nothing and the empty object are both no tags.
pub(crate) fn tags<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a str>, D::Error> {
    let Some(raw) = Option::<&RawValue>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let mut count = 0;
    let mut json = serde_json::Deserializer::from_str(raw.get());
    each_entry(&mut json, |_, _: AnyText| count += 1)
        .map_err(|_| serde::de::Error::custom("tags are not an object of strings"))?;
    Ok((count > 0).then_some(raw.get()))
}

/// Calls `each` with every entry of an object, in its order; `null` has none.
pub(crate) fn each_entry<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
    each: impl FnMut(Cow<'de, str>, V),
) -> Result<(), D::Error> {
    struct Entries<F, V>(F, PhantomData<V>);

    impl<'de, F: FnMut(Cow<'de, str>, V), V: Deserialize<'de>> Visitor<'de> for Entries<F, V> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((Text(name), value)) = map.next_entry()? {
                (self.0)(name, value);
            }
            Ok(())
        }
    }

    deserializer.deserialize_any(Entries(each, PhantomData))
}

/// Reads the tags of a publication, which were checked when it was published.
pub(crate) fn each_tag<'a>(tags: &'a str, mut each: impl FnMut(Cow<'a, str>, Cow<'a, str>)) {
    let mut json = serde_json::Deserializer::from_str(tags);
    let read = each_entry(&mut json, |name, Text(value)| each(name, value));
    debug_assert!(read.is_ok(), "tags are checked when they are published");
}

/// Any string and nothing else.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyTextVisitor;

        impl Visitor<'_> for AnyTextVisitor {
            type Value = AnyText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, _text: &str) -> Result<AnyText, E> {
                Ok(AnyText)
            }
        }

        deserializer.deserialize_str(AnyTextVisitor)
    }
}

/// Data of a request, borrowed from its frame. Never looked into.
#[derive(Clone, Copy)]
pub enum ClientData<'a> {
    /// Exactly one JSON value.
    Json(&'a RawValue),
    /// The Protobuf form has any bytes; mostly they are JSON all the same.
    Bytes(&'a [u8]),
}

impl<'a> ClientData<'a> {
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

impl Default for ClientData<'_> {
    fn default() -> Self {
        Self::Bytes(b"")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ClientData<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::Json)
    }
}

/// As text, whatever form it came in.
impl fmt::Debug for ClientData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.bytes()), f)
    }
}
