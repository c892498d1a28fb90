//! Objects of JSON, the few lenient readers that the protocol asks for, and the application's own
//! data in a request.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::{Epoch, Payload, PayloadKind};

use crate::form::{Form, Key};

pub(crate) use throng_types::json::{
    Object, append_payload, append_str as append_text, payload_of,
};

impl Form for Object<'_> {
    fn number(&mut self, (key, _): Key, number: u64) {
        Object::number(self, key, number);
    }

    fn flag_if_set(&mut self, (key, _): Key, flag: bool) {
        Object::flag_if_set(self, key, flag);
    }

    fn flag(&mut self, (key, _): Key, flag: bool) {
        let text: &[u8] = if flag { b"true" } else { b"false" };
        self.value(key).extend_from_slice(text);
    }

    fn text(&mut self, (key, _): Key, text: &str) {
        Object::text(self, key, text);
    }

    fn texts(&mut self, (key, _): Key, texts: &[&str]) {
        Object::texts(self, key, texts);
    }

    fn json_if_any(&mut self, (key, _): Key, json: Option<&str>) {
        Object::json_if_any(self, key, json);
    }

    fn data(&mut self, (key, _): Key, payload: &Payload) {
        append_payload(payload, self.value(key));
    }

    fn delta(&mut self, (key, _): Key, payload: &Payload, patch: Option<&[u8]>) {
        let out = self.value(key);
        match (patch, payload.kind) {
            (Some(patch), _) => append_text(&String::from_utf8_lossy(patch), out),
            (None, PayloadKind::Json) => append_text(&String::from_utf8_lossy(&payload.bytes), out),
            (None, PayloadKind::Text | PayloadKind::Binary) => {
                let mut json = Vec::new();
                append_payload(payload, &mut json);
                append_text(&String::from_utf8_lossy(&json), out);
            }
        }
    }

    fn tags(&mut self, key: Key, tags: &str) {
        Form::json_if_any(self, key, Some(tags));
    }

    fn epoch(&mut self, (key, _): Key, epoch: Epoch) {
        use std::io::Write as _;
        // Hexadecimal digits need no escaping, and writing to a vector does not fail.
        let _ = write!(self.value(key), "\"{epoch}\"");
    }

    fn message(&mut self, (key, _): Key, write: impl FnOnce(&mut Self)) {
        self.value(key);
        self.nest(write);
    }

    fn list<T>(&mut self, (key, _): Key, items: &[T], write: impl Fn(&T, &mut Self)) {
        self.objects(key, items, write);
    }

    fn map<'t, T>(
        &mut self,
        key: Key,
        entries: impl Iterator<Item = (&'t str, T)>,
        write: impl Fn(T, &mut Self),
    ) {
        self.message(key, |form| {
            for (name, item) in entries {
                form.value_of(name);
                form.nest(|form| write(item, form));
            }
        });
    }
}

/// A string that borrows from the input unless it has escapes; `null` is the empty string.
///
/// `Cow`'s own implementation always copies.
#[derive(Default)]
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
pub(crate) struct AnyText;

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

    /// JSON beside base64, which counts first. Bytes become base64, since they may be anything.
    #[must_use]
    pub fn parts(data: Option<Self>, base64: &'a str) -> (Option<&'a RawValue>, Cow<'a, str>) {
        match data {
            Some(Self::Json(json)) => (Some(json), base64.into()),
            Some(Self::Bytes(bytes)) if base64.is_empty() => (None, STANDARD.encode(bytes).into()),
            _ => (None, base64.into()),
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
