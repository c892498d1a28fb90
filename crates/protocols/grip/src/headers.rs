//! Header fields as GRIP reads them: names in any case, lists split at commas, parameters.
//!
//! Owns: the splitting rules of Pushpin, which are not those of RFC 8941: a comma inside
//! quotes does not split, a parameter list with a broken quote is skipped as a whole, and
//! the first element of a list of parameters is taken as it stands up to the first `;`.
//! Never: decides what a header means.

use std::borrow::Cow;

/// A field as a head's parser hands it out: the name as written, the value without white
/// space around it.
pub type HeaderRef<'h> = (&'h str, &'h [u8]);

/// A field that is kept: for the reply to a client or for a request to an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// As written; compared in any case.
    pub name: String,
    /// Without white space around it. Not checked: an encoder must keep line ends out.
    pub value: Vec<u8>,
}

impl Header {
    /// A field from its two halves.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    /// Whether this field has that name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Whether a field belongs to GRIP: its name begins with `Grip-`, in any case.
#[must_use]
pub fn is_grip(name: &str) -> bool {
    has_prefix(name, "Grip-")
}

/// Whether `name` begins with `prefix`, in any case of ASCII.
#[must_use]
pub fn has_prefix(name: &str, prefix: &str) -> bool {
    name.as_bytes()
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// The first value of a field.
#[must_use]
pub fn first<'h>(headers: &[HeaderRef<'h>], name: &str) -> Option<&'h [u8]> {
    headers
        .iter()
        .find(|(other, _)| other.eq_ignore_ascii_case(name))
        .map(|&(_, value)| value)
}

/// All elements of a field over all its lines, split at commas outside quotes and trimmed.
/// A trailing comma adds nothing; two commas in a row have an empty element between them.
#[must_use]
pub fn elements<'h>(headers: &[HeaderRef<'h>], name: &str) -> Vec<&'h [u8]> {
    let mut out = Vec::new();
    for (_, value) in headers
        .iter()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name))
    {
        split(value, &mut out);
    }
    out
}

/// How the first element of a list of parameters is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstElement {
    /// It is a value: everything up to the first `;`, with no look at `=` or quotes.
    Value,
    /// It is a parameter like the others.
    Parameter,
}

/// A value with its parameters, such as `name; prev-id=1; filter=skip-self`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params<'h>(Vec<(&'h [u8], Cow<'h, [u8]>)>);

impl<'h> Params<'h> {
    /// Reads one element. None if a quote does not end.
    #[must_use]
    pub fn parse(text: &'h [u8], first: FirstElement) -> Option<Self> {
        let mut out = Vec::new();
        let mut rest = text;
        if first == FirstElement::Value {
            let (value, after) = cut(rest, b';');
            out.push((trim(value), Cow::Borrowed(&[][..])));
            rest = after;
        }
        while !rest.is_empty() {
            let at = rest.iter().position(|byte| matches!(byte, b'=' | b';'));
            let (name, after) = match at {
                Some(at) => (&rest[..at], &rest[at..]),
                None => (rest, &[][..]),
            };
            let (value, after) = match after {
                [b'=', b'"', quoted @ ..] => {
                    let (value, after) = unquote(quoted)?;
                    // What stands between the closing quote and the next `;` is noise.
                    (Cow::Owned(value), cut(after, b';').1)
                }
                [b'=', plain @ ..] => {
                    let (value, after) = cut(plain, b';');
                    (Cow::Borrowed(trim(value)), after)
                }
                [_, after @ ..] => (Cow::Borrowed(&[][..]), after),
                [] => (Cow::Borrowed(&[][..]), &[][..]),
            };
            out.push((trim(name), value));
            rest = after;
        }
        Some(Self(out))
    }

    /// The parameters of the first line of a field, or none if it is absent, empty or broken.
    #[must_use]
    pub fn of_first(headers: &[HeaderRef<'h>], name: &str) -> Option<Self> {
        let value = first(headers, name).filter(|value| !value.is_empty())?;
        Self::parse(value, FirstElement::Value)
    }

    /// The parameters of each element of a field; elements with a broken quote are skipped.
    #[must_use]
    pub fn of_all(headers: &[HeaderRef<'h>], name: &str, first: FirstElement) -> Vec<Self> {
        elements(headers, name)
            .into_iter()
            .filter_map(|element| Self::parse(element, first))
            .collect()
    }

    /// The first element's name, which is the value itself under [`FirstElement::Value`].
    #[must_use]
    pub fn value(&self) -> &'h [u8] {
        self.0.first().map_or(&[], |(value, _)| value)
    }

    /// The first parameter with this name, in any case; the leading value counts as a name too.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| &**value)
    }

    /// How many elements there are, the leading value among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in their order, the leading value among the names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (*name, &**value))
    }
}

/// A whole number in decimal with white space around it, as a backend writes one.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(trim(text)).ok()?.parse().ok()
}

/// Without ASCII white space at both ends.
#[must_use]
pub fn trim(value: &[u8]) -> &[u8] {
    value.trim_ascii()
}

/// Text of bytes, with the replacement character for what is not UTF-8.
#[must_use]
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What stands before and behind the first `byte`.
fn cut(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    match memchr::memchr(byte, text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// The content of a quoted string whose opening quote is gone, and what follows it.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((out, &text[at + 1..])),
            b'\\' => out.push(*bytes.next()?.1),
            _ => out.push(byte),
        }
    }
    None
}

/// Splits at commas outside quotes. A quote that does not end swallows the rest.
fn split<'h>(text: &'h [u8], out: &mut Vec<&'h [u8]>) {
    let mut rest = text;
    while !rest.is_empty() {
        let at = comma(rest);
        out.push(trim(&rest[..at]));
        rest = rest.get(at + 1..).unwrap_or_default();
    }
}

/// Where the first comma outside quotes is, or the end.
fn comma(text: &[u8]) -> usize {
    let mut quoted = false;
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => {
                bytes.next();
            }
            b',' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, first: FirstElement, expect: Option<&[(&str, &str)]>) {
        let found = Params::parse(text.as_bytes(), first);
        let found = found.as_ref().map(|params| {
            params
                .iter()
                .map(|(name, value)| {
                    (
                        str::from_utf8(name).unwrap(),
                        str::from_utf8(value).unwrap(),
                    )
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expect, "{text:?}");
    }

    #[test]
    fn parameters() {
        use FirstElement::{Parameter, Value};
        check("", Value, Some(&[("", "")]));
        check("", Parameter, Some(&[]));
        check("apple", Value, Some(&[("apple", "")]));
        check(
            " apple ; prev-id=1;filter=a; filter = b",
            Value,
            Some(&[
                ("apple", ""),
                ("prev-id", "1"),
                ("filter", "a"),
                ("filter", "b"),
            ]),
        );
        check("a=b; c", Value, Some(&[("a=b", ""), ("c", "")]));
        check("a=b; c", Parameter, Some(&[("a", "b"), ("c", "")]));
        check(
            r#"k="v;\"w\\" junk; x=1"#,
            Parameter,
            Some(&[("k", r#"v;"w\"#), ("x", "1")]),
        );
        check(r#"k="never ends"#, Parameter, None);
        check(r#"k="ends in escape\"#, Parameter, None);
        check(
            r"\n\n; format=cstring",
            Value,
            Some(&[(r"\n\n", ""), ("format", "cstring")]),
        );
        check("a; ;", Value, Some(&[("a", ""), ("", "")]));
    }

    #[test]
    fn lists_split_outside_quotes_over_all_lines() {
        let headers: &[HeaderRef<'_>] = &[
            ("Grip-Channel", b"a, b; x=\"1,2\" ,"),
            ("Other", b"no"),
            ("grip-channel", b"c,,d"),
            ("GRIP-CHANNEL", b"e; y=\"f, g"),
        ];
        let found: Vec<_> = elements(headers, "Grip-Channel")
            .into_iter()
            .map(|element| str::from_utf8(element).unwrap())
            .collect();
        assert_eq!(found, ["a", "b; x=\"1,2\"", "c", "", "d", "e; y=\"f, g"]);
        // The last element has a quote that does not end, so it is skipped.
        assert_eq!(
            Params::of_all(headers, "Grip-Channel", FirstElement::Value).len(),
            5
        );
    }

    #[test]
    fn prefixes_and_numbers() {
        assert!(
            is_grip("grip-hold") && is_grip("Grip-") && !is_grip("Grip") && !is_grip("X-Grip-A")
        );
        assert_eq!(integer(b" +5 "), Some(5));
        assert_eq!(integer(b"-1"), Some(-1));
        for bad in [&b""[..], b"5s", b"99999999999", b"1.5"] {
            assert_eq!(integer(bad), None);
        }
    }
}
