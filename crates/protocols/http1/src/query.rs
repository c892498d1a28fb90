//! Query strings and percent-encoding (WHATWG URL, `application/x-www-form-urlencoded`).
//!
//! A `%` that two hexadecimal digits do not follow stands for itself. Bytes that are not UTF-8
//! become U+FFFD, as in browsers, or are refused by [`utf8_pairs`].

use std::borrow::Cow;

use memchr::memchr2;
use throng_types::form_decoded;

/// The names and values of a query string, decoded, in their order. A part without `=`
/// has an empty value; empty parts are skipped.
pub fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    encoded_pairs(query).map(|(name, value)| (decode(name), decode(value)))
}

/// A name or a value that is not UTF-8 once it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The percent-encoding of the query is not that of UTF-8.")]
pub struct NotUtf8;

/// Like [`pairs`], for names that must not be confused with each other.
pub fn utf8_pairs(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), NotUtf8>> {
    encoded_pairs(query).map(|(name, value)| Ok((decode_utf8(name)?, decode_utf8(value)?)))
}

fn encoded_pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn decode_utf8(text: &str) -> Result<Cow<'_, str>, NotUtf8> {
    if memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = form_decoded(text);
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| NotUtf8)
}

/// Decodes a name or a value of a query string, where `+` stands for a space.
#[must_use]
pub fn decode(text: &str) -> Cow<'_, str> {
    if memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(lossy(form_decoded(text)))
}

/// Appends `text` so that it can stand as one name, value or path segment: everything but
/// RFC 3986's unreserved characters is percent-encoded, a space as `%20`.
pub fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(hex_digit(byte >> 4));
            out.push(hex_digit(byte & 15));
        }
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// The upper-case hexadecimal digit of a number below 16.
pub(crate) fn hex_digit(nibble: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(nibble & 15)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::tests::cases;

    #[test]
    fn queries_are_taken_apart() {
        for (query, expected) in cases("query") {
            let pairs: Vec<_> = pairs(&query).collect();
            assert_eq!(format!("{pairs:?}"), expected, "{query}");
            let strict: Result<Vec<_>, _> = utf8_pairs(&query).collect();
            let is_whole = query != "a=%ff";
            assert_eq!(strict, is_whole.then_some(pairs).ok_or(NotUtf8), "{query}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_not_made_so() {
        for query in [
            "a=%ff",
            "a=%fe",
            "a=%E2%82",
            "%c0%80=b",
            "a=b&c=%ed%a0%80",
            "a=%F5%80%80%80",
        ] {
            assert!(
                utf8_pairs(query).any(|pair| pair == Err(NotUtf8)),
                "{query}"
            );
        }
        // What is not encoded was UTF-8 before.
        assert!(utf8_pairs("a=\u{20ac}%41&%e2%82%ac=+").all(|pair| pair.is_ok()));
    }

    #[test]
    fn what_needs_no_decoding_is_borrowed() {
        assert!(matches!(decode("ab"), Cow::Borrowed("ab")));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(name: String, value: String) {
            let mut query = String::new();
            encode(&name, &mut query);
            prop_assert!(decode(&query) == name.as_str());
            query.push('=');
            encode(&value, &mut query);
            prop_assert!(query.bytes().all(|byte| byte.is_ascii_graphic()));
            let pairs: Vec<_> = pairs(&query).collect();
            prop_assert_eq!(pairs, vec![(Cow::Owned(name), Cow::Owned(value))]);
        }
    }
}
