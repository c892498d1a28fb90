//! Header fields that are kept: their names in any case, and lists split at commas.

use throng_types::Save;

use crate::is_token;

/// Names in `Connection` that are looked at; more are ignored.
pub const NAMED_MAX: usize = 64;

/// A field as a head's parser hands it out: the name as written, the value without white
/// space around it.
pub type HeaderRef<'h> = (&'h str, &'h [u8]);

/// A field that is kept: for the reply to a client or for a request to an origin.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Header {
    /// As written; compared in any case.
    pub name: String,
    /// Without white space around it. Not checked: an encoder must keep line ends out.
    pub value: Vec<u8>,
}

impl Header {
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Fields that are kept, as a parser hands them out.
#[must_use]
pub fn fields(headers: &[Header]) -> Vec<HeaderRef<'_>> {
    let headers = headers.iter();
    headers
        .map(|header| (header.name.as_str(), header.value.as_slice()))
        .collect()
}

/// Tells whether `name` begins with `prefix`, in any case of ASCII.
#[must_use]
pub fn has_prefix(name: &str, prefix: &str) -> bool {
    name.as_bytes()
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

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

/// Byte of a field's name: itself, or `_` if no name can have it.
#[must_use]
pub fn name_byte(byte: u8) -> u8 {
    if is_token(byte) { byte } else { b'_' }
}

/// Byte of a field's value: itself, or a space for a control character but the tab (RFC 9110
/// section 5.5).
#[must_use]
pub const fn value_byte(byte: u8) -> u8 {
    match byte {
        b'\t' | b' '..=126 | 128.. => byte,
        _ => b' ',
    }
}

/// Appends a field as a line of a head. Nothing breaks out of its place.
pub fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend(name.bytes().map(name_byte));
    out.extend_from_slice(b": ");
    out.extend(value.iter().copied().map(value_byte));
    out.extend_from_slice(b"\r\n");
}

/// Takes out of an origin's response what its `Connection` names (RFC 9110 section 7.6.1), but for
/// what is read here: what GRIP says, and what a body or a WebSocket needs.
pub fn drop_named(response: &mut Vec<Header>) {
    const KEPT: [&str; 3] = ["Grip-", "Content-", "Sec-WebSocket-"];
    let fields = fields(response);
    let mut named = elements(&fields, "Connection");
    named.truncate(NAMED_MAX);
    let named: Vec<Vec<u8>> = named.into_iter().map(<[u8]>::to_vec).collect();
    response.retain(|header| {
        let is_it = |name: &Vec<u8>| name.eq_ignore_ascii_case(header.name.as_bytes());
        !named.iter().any(is_it) || KEPT.iter().any(|kept| has_prefix(&header.name, kept))
    });
}

/// Splits at commas outside quotes. A quote that does not end swallows the rest.
fn split<'h>(text: &'h [u8], out: &mut Vec<&'h [u8]>) {
    let mut rest = text;
    while !rest.is_empty() {
        let at = comma(rest);
        out.push(rest[..at].trim_ascii());
        rest = rest.get(at + 1..).unwrap_or_default();
    }
}

/// Offset of the first comma outside quotes, or the end.
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

    #[test]
    fn what_a_backend_says_to_this_hop_stays_here() {
        let mut response: Vec<Header> = [
            ("Connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("X-End", "2"),
            ("connection", "Grip-Hold, Content-Type"),
            ("Grip-Hold", "stream"),
            ("Content-Type", "a/b"),
        ]
        .map(|(name, value)| Header::new(name, value))
        .into();
        drop_named(&mut response);
        let left: Vec<&str> = response.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(
            left,
            [
                "Connection",
                "X-End",
                "connection",
                "Grip-Hold",
                "Content-Type"
            ]
        );
    }
}
