//! Whatever goes in, what comes out is one line of JSON that means the same.

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
