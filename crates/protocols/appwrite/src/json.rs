//! Appends JSON by hand, so that no frame is built through an intermediate tree.
//!
//! Strings are escaped as RFC 8259 section 7 asks and no further: Appwrite itself also escapes
//! `/` and everything beyond ASCII, and its SDKs read both forms alike.

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_str(out: &mut Vec<u8>, text: &str) {
    throng_types::json::append_str(text, out);
}

/// Appends a list in brackets whose items `push` appends.
pub(crate) fn push_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    push: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    push_items(out, items, push);
    out.push(b']');
}

/// Appends what stands between the brackets of a list or an object.
pub(crate) fn push_items<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T),
) {
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        push(out, item);
    }
}

pub(crate) fn push_strs<S: AsRef<str>>(out: &mut Vec<u8>, items: impl IntoIterator<Item = S>) {
    push_list(out, items, |out, item| push_str(out, item.as_ref()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_texts() {
        let mut out = Vec::new();
        push_strs(&mut out, ["a", "b\""]);
        push_strs(&mut out, [] as [&str; 0]);
        assert_eq!(out, br#"["a","b\""][]"#);
    }
}
