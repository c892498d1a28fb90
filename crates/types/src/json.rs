//! Strings in JSON, written by hand where a frame is built without an intermediate value.

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

/// Offset of the first byte that must be escaped.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_must_be_escaped_is_and_nothing_else() {
        let mut out = Vec::new();
        append_str("a\"\\\n\r\t\u{1}\u{1f}/é\u{7f}\u{2028}", &mut out);
        let expected = "\"a\\\"\\\\\\n\\r\\t\\u0001\\u001f/é\u{7f}\u{2028}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn nothing_ends_the_string_early(text in any::<String>(), low in "[\\x00-\\x22\\\\]{0,8}") {
            for text in [text, low] {
                let mut out = Vec::new();
                append_str(&text, &mut out);
                prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            }
        }
    }
}
