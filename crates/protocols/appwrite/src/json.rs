//! Appends JSON by hand, so that no frame is built through an intermediate tree.
//!
//! Strings are escaped as RFC 8259 section 7 asks and no further: Appwrite itself also escapes
//! `/` and everything beyond ASCII, and its SDKs read both forms alike.

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_str(out: &mut Vec<u8>, text: &str) {
    throng_types::json::append_str(text, out);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_numbers() {
        let mut out = Vec::new();
        push_strs(&mut out, ["a", "b\""]);
        push_strs(&mut out, [] as [&str; 0]);
        push_int(&mut out, 1008_u16);
        assert_eq!(out, br#"["a","b\""][]1008"#);
    }
}
