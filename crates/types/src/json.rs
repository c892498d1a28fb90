//! Payloads and strings in JSON.
//!
//! Written by hand because one publication is encoded for every format and deliveries are the hot
//! path: no intermediate value, no allocation but the caller's buffer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr2;
use serde_json::value::RawValue;

use crate::{Payload, PayloadKind};

/// Appends `text` as a JSON string in quotes. Escapes what RFC 8259 section 7 asks for, and no
/// more.
pub fn append_str(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = first_escaped(rest) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        rest = &rest[at + 1..];
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn first_escaped(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let is_escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let blocks = bytes.chunks_exact(BLOCK);
    // Without a way out of the inner loop, the compiler looks at many bytes at once.
    let plain = blocks
        .take_while(|block| {
            !block
                .iter()
                .fold(false, |any, &byte| any | is_escaped(byte))
        })
        .count();
    let from = plain * BLOCK;
    let found = bytes[from..].iter().position(|&byte| is_escaped(byte))?;
    Some(from + found)
}

/// Appends `payload` as one JSON value: JSON as it stands, text as a string, bytes as a base64
/// string.
pub fn append_payload(payload: &Payload, out: &mut Vec<u8>) {
    match payload.kind {
        PayloadKind::Json => append_json(&payload.bytes, out),
        PayloadKind::Text => match str::from_utf8(&payload.bytes) {
            Ok(text) => append_str(text, out),
            Err(_) => append_str(&String::from_utf8_lossy(&payload.bytes), out),
        },
        PayloadKind::Binary => {
            out.push(b'"');
            append_base64(&payload.bytes, out);
            out.push(b'"');
        }
    }
}

/// Appends bytes in base64, which needs no escaping in a string.
pub fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
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

/// Appends a number in decimal digits.
pub fn append_number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a list whose items `append` writes.
pub fn append_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut append: impl FnMut(T, &mut Vec<u8>),
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

/// Appends a list of strings.
pub fn append_strs(items: impl IntoIterator<Item: AsRef<str>>, out: &mut Vec<u8>) {
    append_list(items, out, |item, out| append_str(item.as_ref(), out));
}

/// An object under construction: puts the commas where they belong.
#[derive(Debug)]
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    fn separate(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }

    /// Writes a key that needs no escaping and lends the buffer for its value.
    pub fn value(&mut self, key: &'static str) -> &mut Vec<u8> {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a key that may need escaping and lends the buffer for its value.
    pub fn value_of(&mut self, key: &str) -> &mut Vec<u8> {
        self.separate();
        append_str(key, self.out);
        self.out.push(b':');
        self.out
    }

    pub fn text(&mut self, key: &'static str, text: &str) {
        append_str(text, self.value(key));
    }

    pub fn texts(&mut self, key: &'static str, texts: impl IntoIterator<Item: AsRef<str>>) {
        append_strs(texts, self.value(key));
    }

    /// Appends a value that is JSON already, as it stands.
    pub fn json(&mut self, key: &'static str, json: &str) {
        self.value(key).extend_from_slice(json.as_bytes());
    }

    /// Leaves an empty text out, as Protobuf's JSON mapping does with defaults.
    pub fn text_if_any(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    pub fn json_if_any(&mut self, key: &'static str, json: Option<&str>) {
        if let Some(json) = json {
            append_json(json.as_bytes(), self.value(key));
        }
    }

    pub fn number(&mut self, key: &'static str, number: impl itoa::Integer) {
        append_number(number, self.value(key));
    }

    pub fn number_if_any(&mut self, key: &'static str, number: u64) {
        if number != 0 {
            self.number(key, number);
        }
    }

    pub fn flag(&mut self, key: &'static str, flag: bool) {
        self.json(key, if flag { "true" } else { "false" });
    }

    pub fn flag_if_set(&mut self, key: &'static str, flag: bool) {
        if flag {
            self.flag(key, true);
        }
    }

    pub fn close(self) {
        self.out.push(b'}');
    }

    pub fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::open(out);
        write(&mut object);
        object.close();
    }

    /// Writes a list of objects.
    pub fn objects<T>(&mut self, key: &'static str, items: &[T], write: impl Fn(&T, &mut Self)) {
        self.value(key).push(b'[');
        self.first = true;
        for item in items {
            self.separate();
            self.nest(|object| write(item, object));
        }
        self.out.push(b']');
        self.first = false;
    }

    /// Writes what `write` appends as an object of its own, where a value is due.
    pub fn nest(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.first = true;
        write(self);
        self.out.push(b'}');
        self.first = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_must_be_escaped_is_and_nothing_else() {
        let mut out = Vec::new();
        append_str("a\"\\\n\r\t\u{1}\u{1f}/é\u{7f}\u{2028}", &mut out);
        let expected = "\"a\\\"\\\\\\n\\r\\t\\u0001\\u001f/é\u{7f}\u{2028}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

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
        fn nothing_ends_the_string_early(text in any::<String>(), low in "[\\x00-\\x22\\\\]{0,8}") {
            for text in [text, low] {
                let mut out = Vec::new();
                append_str(&text, &mut out);
                prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
                prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            }
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
