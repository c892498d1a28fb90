//! Heads: their end, their field lines, and the delimiter of the body that they declare.
//!
//! Two passes make the faults independent of how bytes were cut. The first one
//! ([`find_end`]) may run on part of a head and judges nothing but line ends, from
//! left to right. The second one ([`check_request`], [`check_response`]) runs on
//! whole heads alone. Faults are those of requests; [`BadResponse`](crate::BadResponse) has its own
//! word for each.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::str;

use httparse::{Error, Header, Status};
use memchr::{memchr, memchr2};

use crate::BadRequest;

/// Finds the end of the head, just past its empty line. `lines_at` is where its first
/// field line begins, right behind a CRLF; `searched` is how much of `window` an earlier
/// call has searched in vain.
///
/// RFC 9112 section 2.2 lets us take a bare LF for a line end, but whoever stands before
/// us may not have taken it for one; so both a bare LF and a bare CR are refused.
pub(crate) fn find_end(
    window: &[u8],
    lines_at: usize,
    searched: usize,
) -> Result<Option<usize>, BadRequest> {
    let mut from = searched.min(window.len());
    if from <= lines_at {
        return search(window, lines_at);
    }
    // The byte after a CR decides about it, and may have come only now.
    if window.get(from - 1) == Some(&b'\r') {
        from -= 1;
    }
    match search(window, from)? {
        None => Ok(None),
        // Whether earlier bytes were really searched is the caller's word. A head
        // is searched whole once more before anything in it is believed.
        Some(end) => search(&window[..end], lines_at),
    }
}

/// The first line has its own CRLF before `from`, so an empty line is a CRLF behind a CRLF.
fn search(window: &[u8], mut from: usize) -> Result<Option<usize>, BadRequest> {
    while let Some(found) = memchr2(b'\r', b'\n', window.get(from..).unwrap_or_default()) {
        let at = from + found;
        match window.get(at..at + 2) {
            Some(b"\r\n") => {}
            None if window[at] == b'\r' => return Ok(None),
            _ => return Err(BadRequest::LineEnd),
        }
        from = at + 2;
        if window[..at].ends_with(b"\r\n") {
            return Ok(Some(from));
        }
    }
    Ok(None)
}

/// Checks a whole request head, from its method to its empty line.
pub(crate) fn check_request(
    head: &[u8],
    lines_at: usize,
    headers_max: usize,
) -> Result<Headers<'_>, BadRequest> {
    let mut places = [const { MaybeUninit::uninit() }; HEADERS_CAP];
    let places = &mut places[..headers_max.min(HEADERS_CAP)];
    let mut request = httparse::Request::new(&mut []);
    let status = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut request,
        head,
        places,
    );
    finish(head, lines_at, status, request.headers)
}

/// Checks a whole response head, from its version to its empty line.
/// Answers its status code too.
pub(crate) fn check_response(
    head: &[u8],
    lines_at: usize,
    headers_max: usize,
) -> Result<(u16, Headers<'_>), BadRequest> {
    let mut places = [const { MaybeUninit::uninit() }; HEADERS_CAP];
    let places = &mut places[..headers_max.min(HEADERS_CAP)];
    let mut response = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        head,
        places,
    );
    let headers = finish(head, lines_at, status, response.headers)?;
    let code = response.code.filter(|&code| 100 <= code);
    Ok((code.ok_or(BadRequest::Target)?, headers))
}

/// Tells whether a proxy says in a field of this name whom it asks for.
fn says_whom_for(name: &str) -> bool {
    match name.len() {
        9 => name.eq_ignore_ascii_case("forwarded"),
        15 => name.eq_ignore_ascii_case("x-forwarded-for"),
        _ => false,
    }
}

fn finish<'b>(
    head: &'b [u8],
    lines_at: usize,
    status: httparse::Result<usize>,
    parsed: &[Header<'b>],
) -> Result<Headers<'b>, BadRequest> {
    match status {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) | Err(Error::NewLine) => return Err(BadRequest::LineEnd),
        Err(Error::TooManyHeaders) => return Err(BadRequest::TooManyHeaders),
        Err(Error::HeaderName | Error::HeaderValue) => return Err(BadRequest::Header),
        // The first line.
        Err(Error::Token | Error::Version | Error::Status) => return Err(BadRequest::Target),
    }
    let lines = head.get(lines_at..head.len().saturating_sub(2));
    let forwarded = parsed.iter().any(|header| says_whom_for(header.name));
    let headers = Headers::of_checked(lines.unwrap_or_default(), forwarded);
    debug_assert!(
        headers.eq(parsed.iter().map(|header| (header.name, header.value))),
        "our own reading of the lines and httparse's are the same"
    );
    Ok(headers)
}

/// The field lines of a checked head, in their order. It borrows the head and copies nothing.
///
/// Iterating splits the lines anew each time, which for the few lookups that a request
/// needs is cheaper than a table of them that moves with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'b> {
    /// Lines that each end in CRLF; each has a token, a colon and a value without
    /// control characters, and none continues the one before.
    lines: &'b [u8],
    /// True if there is a `Forwarded` or an `X-Forwarded-For`.
    forwarded: bool,
}

impl<'b> Headers<'b> {
    /// From lines that `head::check` has accepted.
    pub(crate) const fn of_checked(lines: &'b [u8], forwarded: bool) -> Self {
        Self { lines, forwarded }
    }

    /// Tells whether a proxy has noted whom it asks for: there is a `Forwarded` or an
    /// `X-Forwarded-For`.
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

    /// Tells whether the field, taken as a list separated by commas over all its lines
    /// (RFC 9110 section 5.6.1), has an element equal to `token` in any case.
    #[must_use]
    pub fn has_token(self, name: &str, token: &str) -> bool {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|element| trim(element).eq_ignore_ascii_case(token.as_bytes()))
    }
}

impl Headers<'_> {
    /// Tells whether the client takes a content coding that it names (RFC 9110, section 12.5.3):
    /// `*` is not taken for a name, and a weight of 0 refuses.
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

pub(crate) struct Line<'b>(&'b [u8]);

impl<'b> Line<'b> {
    /// Value without the white space around it, if the line has this name in any case. Compares the
    /// bytes: a reader that looks for a name need not know where another one ends, or that it is
    /// text.
    pub(crate) fn value_of(&self, name: &str) -> Option<&'b [u8]> {
        let (own, rest) = self.0.split_at_checked(name.len())?;
        let [b':', value @ ..] = rest else {
            return None;
        };
        own.eq_ignore_ascii_case(name.as_bytes())
            .then(|| trim(value))
    }

    pub(crate) fn place_of(&self, name: &str) -> Option<Range<usize>> {
        let value = self.value_of(name)?;
        let rest = self.0.get(name.len() + 1..)?;
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
        let start = name.len() + 1 + blanks.count();
        Some(start..start + value.len())
    }

    /// Length without the line's end.
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

/// Tells whether a byte may stand in a token (RFC 9110 section 5.6.2), as in a field's name.
#[must_use]
pub fn is_token(byte: u8) -> bool {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none: neither a length nor a coding was declared.
    None,
    /// This many bytes; may be zero.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is none, because of the status or because the request was HEAD.
    None,
    /// This many bytes; may be zero.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
    /// All bytes until the server closes the connection.
    UntilClose,
}

/// Reads the body's delimiter from the fields (RFC 9112 section 6). Stricter than the RFC, because
/// a request that two implementations delimit differently smuggles a second one past the first:
/// - Content-Length is one field line with decimal digits. Repeated lines and lists are refused
///   even if all their values are equal, which the RFC would allow to be repaired.
/// - Transfer-Encoding is one field line with the one word `chunked`; other codings, lists and
///   parameters are refused, and so is the field in HTTP/1.0. An unknown coding is named as such.
/// - Both together are refused, which the RFC leaves to the server.
pub(crate) fn declared(headers: Headers<'_>, minor_version: u8) -> Result<Body, BadRequest> {
    let mut length = None;
    let mut chunked = false;
    for line in headers.lines() {
        if let Some(value) = line.value_of("content-length") {
            if length.is_some() {
                return Err(BadRequest::ContentLength);
            }
            length = Some(decimal(value).ok_or(BadRequest::ContentLength)?);
        } else if let Some(value) = line.value_of("transfer-encoding") {
            if minor_version == 1 && names_unknown_coding(value) {
                return Err(BadRequest::UnknownCoding);
            }
            let plain = value.eq_ignore_ascii_case(b"chunked");
            if chunked || !plain || minor_version == 0 {
                return Err(BadRequest::TransferEncoding);
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(BadRequest::FramingConflict),
        (Some(length), false) => Ok(Body::Length(length)),
        (None, true) => Ok(Body::Chunked),
        (None, false) => Ok(Body::None),
    }
}

/// Tells whether a list of codings has the name of one that is not `chunked`.
fn names_unknown_coding(list: &[u8]) -> bool {
    let names = list.split(|&byte| byte == b',').map(|coding| {
        let name = coding.split(|&byte| byte == b';').next();
        trim(name.unwrap_or_default())
    });
    let mut names = names.filter(|name| !name.is_empty());
    names.any(|name| {
        !name.eq_ignore_ascii_case(b"chunked") && name.iter().all(|&byte| is_token(byte))
    })
}

/// A number of decimal digits alone: `str::parse` would take a plus sign too.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The most field lines that any limit can allow: the parser keeps their places on the stack.
pub const HEADERS_CAP: usize = 128;

/// Bounds of one message. They are checked on what is declared, before it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Bytes of a head: empty lines before it, its first line, its fields and the empty line
    /// after them. A longer one is refused with 431, or with 414 if its first line alone is longer.
    pub head_bytes_max: usize,
    /// Field lines in a head; values above [`HEADERS_CAP`] count as that. More are refused with
    /// 431.
    pub headers_max: usize,
    /// Bytes of a body's data, without the framing of chunks. A longer one is refused with 413.
    pub body_bytes_max: u64,
}

impl HttpLimits {
    /// Bounds that suit most servers.
    pub const USUAL: Self = Self {
        head_bytes_max: 16 * 1024,
        headers_max: 64,
        body_bytes_max: 1024 * 1024,
    };
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self::USUAL
    }
}
