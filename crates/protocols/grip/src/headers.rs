//! Header fields as GRIP reads them: names in any case, lists split at commas, parameters.
//!
//! Owns: the rules by which GRIP's fields are split, which are not those of RFC 8941: a comma
//! inside quotes does not split, an element with a broken quote is skipped as a whole, and
//! the value in front of the parameters is taken as it stands up to the first `;`.
//! Never: decides what a header means.

use std::borrow::Cow;

pub(crate) use throng_http1::field::{Header, HeaderRef, elements, first, has_prefix};

use crate::value::{DocumentError, Fields, Value};

/// Tells whether a field belongs to GRIP: its name begins with `Grip-`, in any case.
#[must_use]
pub fn is_grip(name: &str) -> bool {
    has_prefix(name, "Grip-")
}

/// Tells whether a backend that reads `_` as `-` takes one name for the other. CGI, WSGI and what
/// grew out of them do, so a client's `Grip_Sig` would be a `Grip-Sig` to them.
#[must_use]
pub fn is_like(name: &str, other: &str) -> bool {
    name.len() == other.len() && begins_like(name, other)
}

/// Tells whether `name` begins with something like `prefix`; see [`is_like`].
#[must_use]
pub fn begins_like(name: &str, prefix: &str) -> bool {
    let fold = |byte: &u8| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    let head = name.as_bytes().get(..prefix.len());
    head.is_some_and(|head| head.iter().map(fold).eq(prefix.as_bytes().iter().map(fold)))
}

/// One element of a list: a value, and parameters behind it, such as
/// `name; prev-id=1; filter=skip-self`. It owns nothing; parameters are read each time they
/// are asked for, since most elements are asked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'h> {
    value: &'h [u8],
    tail: &'h [u8],
}

impl<'h> Element<'h> {
    /// Splits an element. None if a quote among its parameters does not end.
    #[must_use]
    pub fn new(text: &'h [u8]) -> Option<Self> {
        let (value, tail) = cut(text, b';');
        let whole = Parameters(tail).all(|parameter| parameter.is_ok());
        whole.then_some(Self {
            value: value.trim_ascii(),
            tail,
        })
    }

    /// The first line of a field, or none if it is absent, empty or broken.
    #[must_use]
    pub fn first(headers: &[HeaderRef<'h>], name: &str) -> Option<Self> {
        let value = first(headers, name).filter(|value| !value.is_empty())?;
        Self::new(value)
    }

    /// Each element of a field; those with a broken quote are skipped.
    pub fn all(headers: &[HeaderRef<'h>], name: &str) -> impl Iterator<Item = Self> {
        elements(headers, name).into_iter().filter_map(Self::new)
    }

    /// Everything up to the first `;`, with no look at `=` or quotes.
    #[must_use]
    pub const fn value(&self) -> &'h [u8] {
        self.value
    }

    /// Tells whether anything follows the value.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.tail.is_empty()
    }

    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'h>> {
        // Checked when it was made.
        Parameters(self.tail).filter_map(Result::ok)
    }

    /// The first parameter with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'h, [u8]>> {
        self.parameters()
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

/// A name and its value, unquoted; the value is empty where there is none.
pub type Parameter<'h> = (&'h [u8], Cow<'h, [u8]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuote;

/// `name=value; name="value"` as long as there is any.
pub struct Parameters<'h>(pub &'h [u8]);

impl<'h> Iterator for Parameters<'h> {
    type Item = Result<Parameter<'h>, OpenQuote>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let name_end = memchr::memchr2(b'=', b';', self.0).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(name_end);
        let (value, rest) = match rest {
            [b'=', b'"', inside @ ..] => match unquote(inside) {
                // What stands between the closing quote and the next `;` is noise.
                Some((value, after)) => (Cow::Owned(value), cut(after, b';').1),
                None => {
                    self.0 = &[];
                    return Some(Err(OpenQuote));
                }
            },
            rest => {
                let (value, after) = cut(rest, b';');
                (
                    Cow::Borrowed(value.strip_prefix(b"=").unwrap_or(value).trim_ascii()),
                    after,
                )
            }
        };
        self.0 = rest;
        Some(Ok((name.trim_ascii(), value)))
    }
}

/// A whole number in decimal with white space around it, as a backend writes one.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// Text of bytes, with the replacement character for what is not UTF-8.
#[must_use]
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits at the first `byte`; all of it is in front if there is none.
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

/// `headers`: an object, or a list of pairs. None if absent.
pub(crate) fn headers_of(fields: &mut Fields) -> Result<Vec<Header>, DocumentError> {
    let headers = match fields.take("headers") {
        None => Some(Vec::new()),
        Some(Value::Object(entries)) => entries
            .into_iter()
            .map(|(name, value)| Some(Header::new(name, value.into_text()?)))
            .collect(),
        Some(Value::List(pairs)) => pairs.into_iter().map(pair).collect(),
        Some(_) => None,
    };
    headers.ok_or_else(|| fields.wrong_type("headers"))
}

fn pair(value: Value) -> Option<Header> {
    let Value::List(pair) = value else {
        return None;
    };
    let [name, value] = <[Value; 2]>::try_from(pair).ok()?;
    Some(Header::new(name.into_text()?, value.into_text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&[(&str, &str)]>) {
        let found: Result<Vec<_>, _> = Parameters(text.as_bytes()).collect();
        let found = found.as_ref().ok().map(|parameters| {
            let text = |bytes| str::from_utf8(bytes).unwrap();
            let pairs = parameters
                .iter()
                .map(|(name, value)| (text(name), text(value)));
            pairs.collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), expect, "{text:?}");
        let element = format!("a=\"b ;{text}");
        let element = Element::new(element.as_bytes());
        assert_eq!(
            element.map(|element| element.value()),
            expect.map(|_| &b"a=\"b"[..])
        );
        let names = element.map(|element| element.parameters().count());
        assert_eq!(names, expect.map(<[_]>::len));
    }

    #[test]
    fn parameters() {
        check("", Some(&[]));
        check(
            " prev-id=1;filter=a; filter = b",
            Some(&[("prev-id", "1"), ("filter", "a"), ("filter", "b")]),
        );
        check("a=b; c", Some(&[("a", "b"), ("c", "")]));
        check("a=b=c;=d", Some(&[("a", "b=c"), ("", "d")]));
        check(
            r#"k="v;\"w\\" junk; x=1"#,
            Some(&[("k", r#"v;"w\"#), ("x", "1")]),
        );
        check(r#"k="never ends"#, None);
        check(r#"k="ends in escape\"#, None);
        check(" ;", Some(&[("", "")]));
        let element = Element::new(br"\n\n; FORMAT=cstring").unwrap();
        assert_eq!(element.value(), br"\n\n");
        assert_eq!(element.get("format").as_deref(), Some(&b"cstring"[..]));
        assert!(!element.is_bare() && Element::new(b"apple").unwrap().is_bare());
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
        assert_eq!(Element::all(headers, "Grip-Channel").count(), 5);
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
