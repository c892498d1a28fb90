//! Writers and the few lenient readers of JSON that the protocol asks for, and the application's
//! own data in a request.
//!
//! Written by hand because one publication is encoded for every format and deliveries are the hot
//! path: no intermediate value, no allocation but the caller's buffer.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr2;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind, Position};

pub use throng_types::json::append_str as append_text;

/// Appends `payload` as one JSON value: JSON as it stands, text as a string, bytes as a base64
/// string.
pub fn append_payload(payload: &Payload, out: &mut Vec<u8>) {
    match payload.kind {
        PayloadKind::Json => append_json(&payload.bytes, out),
        PayloadKind::Text => match str::from_utf8(&payload.bytes) {
            Ok(text) => append_text(text, out),
            Err(_) => append_text(&String::from_utf8_lossy(&payload.bytes), out),
        },
        PayloadKind::Binary => append_text(&STANDARD.encode(&payload.bytes), out),
    }
}

/// Finds out what `bytes` are: one JSON value, other UTF-8 text, or neither.
#[must_use]
pub fn payload_of(bytes: &[u8]) -> Payload {
    let kind = match std::str::from_utf8(bytes) {
        Err(_) => PayloadKind::Binary,
        Ok(text) if begins_as_json(text) && serde_json::from_str::<&RawValue>(text).is_ok() => {
            PayloadKind::Json
        }
        Ok(_) => PayloadKind::Text,
    };
    Payload {
        bytes: bytes.into(),
        kind,
    }
}

/// Tells whether a text begins as JSON values do (RFC 8259 section 3). What else would come is an
/// error, which costs more than this look.
fn begins_as_json(text: &str) -> bool {
    let first = text.trim_ascii_start().as_bytes().first();
    matches!(
        first,
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
    )
}

/// Appends a JSON value that somebody else wrote, without the line breaks between its tokens.
///
/// Inside strings JSON has line breaks only in escaped form (RFC 8259 section 7), so a raw one is
/// always white space, and tokens that white space alone separates do not exist: nothing can merge.
pub fn append_json(json: &[u8], out: &mut Vec<u8>) {
    let mut rest = json;
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

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
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn payload(bytes: &[u8], kind: PayloadKind) -> Payload {
        Payload {
            bytes: bytes.into(),
            kind,
        }
    }

    #[track_caller]
    fn check(bytes: &[u8], kind: PayloadKind, expected: &str) {
        let mut out = Vec::new();
        append_payload(&payload(bytes, kind), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn payloads_become_one_json_value() {
        check(br#"{"a":1}"#, PayloadKind::Json, r#"{"a":1}"#);
        check(
            b"{\n  \"a\": \"x\\n\",\r\n\t\"b\": [1,\n2]\n}\n",
            PayloadKind::Json,
            "{  \"a\": \"x\\n\",\t\"b\": [1,2]}",
        );
        check(
            "say \"hi\"\\\n\u{7f}\u{1}\u{2028}".as_bytes(),
            PayloadKind::Text,
            "\"say \\\"hi\\\"\\\\\\n\u{7f}\\u0001\u{2028}\"",
        );
        check(b"", PayloadKind::Text, "\"\"");
        check(&[0, 255, 1], PayloadKind::Binary, "\"AP8B\"");
        check(&[255], PayloadKind::Binary, "\"/w==\"");
        // Whoever made this payload was wrong about its kind; the frame is JSON all the same.
        check(&[b'a', 255], PayloadKind::Text, "\"a\u{fffd}\"");
    }

    #[test]
    fn kinds_are_found() {
        for (bytes, kind) in [
            (&b"{}"[..], PayloadKind::Json),
            (b" [1, 2]\n", PayloadKind::Json),
            (b"17", PayloadKind::Json),
            (b"{}{}", PayloadKind::Text),
            (b"hello", PayloadKind::Text),
            (b"", PayloadKind::Text),
            (b"\"\xff\"", PayloadKind::Binary),
        ] {
            let found = payload_of(bytes);
            assert_eq!((found.kind, &*found.bytes), (kind, bytes), "{bytes:?}");
        }
    }

    #[test]
    fn deep_nesting_is_only_bytes() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(payload_of(deep.as_bytes()).kind, PayloadKind::Json);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_comes_back(text: String) {
            let mut out = Vec::new();
            append_text(&text, &mut out);
            prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn json_keeps_its_meaning_without_line_breaks(json in any_json()) {
            let pretty = serde_json::to_string_pretty(&json).unwrap().replace('\n', "\r\n");
            let mut out = Vec::new();
            append_payload(&payload(pretty.as_bytes(), PayloadKind::Json), &mut out);
            prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), json);
        }

        #[test]
        fn any_bytes_become_json(bytes: Vec<u8>) {
            let mut out = Vec::new();
            append_payload(&payload_of(&bytes), &mut out);
            prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
            prop_assert!(serde_json::from_slice::<Value>(&out).is_ok());
        }
    }
}
