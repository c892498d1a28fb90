//! The field lines of a head that has been checked.

use std::ops::Range;
use std::str;

use memchr::memchr;

/// The field lines of a checked head, in their order. It borrows the head and copies nothing.
///
/// Iterating splits the lines anew each time, which for the few lookups that a request
/// needs is cheaper than a table of them that moves with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'b> {
    /// Lines that each end in CRLF; each has a token, a colon and a value without
    /// control characters, and none continues the one before.
    lines: &'b [u8],
    /// Whether there is a `Forwarded` or an `X-Forwarded-For`.
    forwarded: bool,
}

impl<'b> Headers<'b> {
    /// From lines that `head::check` has accepted.
    pub(crate) const fn of_checked(lines: &'b [u8], forwarded: bool) -> Self {
        Self { lines, forwarded }
    }

    /// Whether a proxy has noted whom it asks for: there is a `Forwarded` or an `X-Forwarded-For`.
    #[must_use]
    pub const fn are_forwarded(self) -> bool {
        self.forwarded
    }

    /// The first value of a field, by its name in any case. None if there is no such field
    /// or if its value is not UTF-8.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'b str> {
        self.values(name)
            .next()
            .and_then(|value| str::from_utf8(value).ok())
    }

    /// All values of a field, one a line, by its name in any case.
    pub fn values(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.lines().filter_map(move |line| line.value_of(name))
    }

    /// The lines as they stand, each without its end.
    pub(crate) fn lines(self) -> impl Iterator<Item = Line<'b>> {
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            let end = memchr(b'\r', rest)?;
            let line = &rest[..end];
            rest = rest.get(end + 2..).unwrap_or_default();
            Some(Line(line))
        })
    }

    /// Whether the field, taken as a list separated by commas over all its lines
    /// (RFC 9110 section 5.6.1), has an element equal to `token` in any case.
    #[must_use]
    pub fn has_token(self, name: &str, token: &str) -> bool {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|element| trim(element).eq_ignore_ascii_case(token.as_bytes()))
    }
}

impl Headers<'_> {
    /// Whether the client takes a content coding that it names (RFC 9110, section 12.5.3): `*` is
    /// not taken for a name, and a weight of 0 refuses.
    #[must_use]
    pub fn accepts_coding(self, coding: &str) -> bool {
        let mut elements = self
            .values("accept-encoding")
            .flat_map(|value| value.split(|&byte| byte == b','));
        elements.any(|element| {
            let mut parts = element.split(|&byte| byte == b';').map(trim);
            let named = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case(coding.as_bytes()));
            named && !parts.any(is_weight_0)
        })
    }
}

/// `q=0`, `q=0.`, `q=0.0` and so on.
fn is_weight_0(parameter: &[u8]) -> bool {
    let weight = parameter
        .strip_prefix(b"q=")
        .or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| {
        weight.first() == Some(&b'0') && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
    })
}

/// Names as they were written, and values without the white space around them.
impl<'b> Iterator for Headers<'b> {
    type Item = (&'b str, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let Line(line) = self.lines().next()?;
        self.lines = self.lines.get(line.len() + 2..).unwrap_or_default();
        let (name, value) = line.split_at(memchr(b':', line)?);
        let value = value.get(1..).unwrap_or_default();
        Some((str::from_utf8(name).unwrap_or_default(), trim(value)))
    }
}

/// A checked field line.
pub(crate) struct Line<'b>(&'b [u8]);

impl<'b> Line<'b> {
    /// Its value, without the white space around it, if this is its name in any case. Compares the
    /// bytes: whoever looks for a name need not know where another one ends, or that it is text.
    pub(crate) fn value_of(&self, name: &str) -> Option<&'b [u8]> {
        let (own, rest) = self.0.split_at_checked(name.len())?;
        let [b':', value @ ..] = rest else {
            return None;
        };
        own.eq_ignore_ascii_case(name.as_bytes())
            .then(|| trim(value))
    }

    /// Where that value is in the line.
    pub(crate) fn place_of(&self, name: &str) -> Option<Range<usize>> {
        let value = self.value_of(name)?;
        let rest = self.0.get(name.len() + 1..)?;
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
        let start = name.len() + 1 + blanks.count();
        Some(start..start + value.len())
    }

    /// Its length, without its end.
    pub(crate) const fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Without spaces and tabs at both ends (OWS, RFC 9110 section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// A byte of a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(byte: u8) -> bool {
    TOKEN.has(byte)
}

static TOKEN: ByteSet = ByteSet::of_alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// Bytes of some kind, as a table: one look tells.
pub(crate) struct ByteSet([bool; 256]);

impl ByteSet {
    /// ASCII letters and digits, and some others.
    pub(crate) const fn of_alphanumeric_and(others: &[u8]) -> Self {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            set[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let mut at = 0;
        while at < others.len() {
            set[others[at] as usize] = true;
            at += 1;
        }
        Self(set)
    }

    pub(crate) const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }
}
