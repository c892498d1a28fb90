//! Appends JSON by hand, so that no frame is built through an intermediate tree.
//!
//! Strings are escaped as RFC 8259 section 7 asks and no further: Appwrite itself also escapes
//! `/` and everything beyond ASCII, and its SDKs read both forms alike.

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[plain_from..at]);
        plain_from = at + 1;
        push_escape(out, byte);
    }
    out.extend_from_slice(&bytes[plain_from..]);
    out.push(b'"');
}

/// Appends `items` as a JSON array of strings.
pub(crate) fn push_strs<S: AsRef<str>>(out: &mut Vec<u8>, items: impl IntoIterator<Item = S>) {
    out.push(b'[');
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        push_str(out, item.as_ref());
    }
    out.push(b']');
}

/// Appends a whole number.
pub(crate) fn push_int(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_come_back_from_a_json_reader(text in any::<String>(), low in "[\\x00-\\x22\\\\]{0,8}") {
            for text in [text, low] {
                let mut out = Vec::new();
                push_str(&mut out, &text);
                prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            }
        }
    }

    #[test]
    fn arrays_and_numbers() {
        let mut out = Vec::new();
        push_strs(&mut out, ["a", "b\""]);
        push_strs(&mut out, [] as [&str; 0]);
        push_int(&mut out, 1008_u16);
        assert_eq!(out, br#"["a","b\""][]1008"#);
    }
}
