//! Where a head ends, and whether its field lines are well formed.
//!
//! Two passes make the faults independent of how bytes were cut. The first one
//! ([`find_end`]) may run on part of a head and judges nothing but line ends, from
//! left to right. The second one ([`check_request`], [`check_response`]) runs on
//! whole heads alone.

use std::mem::MaybeUninit;

use httparse::{Error, Header, Status};
use memchr::memchr2;

use crate::{BadRequest, BadResponse, HEADERS_CAP, Headers};

/// A fault of a head that requests and responses share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    LineEnd,
    TooManyHeaders,
    Header,
    FirstLine,
}

impl From<HeadFault> for BadRequest {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::LineEnd => Self::LineEnd,
            HeadFault::TooManyHeaders => Self::TooManyHeaders,
            HeadFault::Header => Self::Header,
            HeadFault::FirstLine => Self::Target,
        }
    }
}

impl From<HeadFault> for BadResponse {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::LineEnd => Self::LineEnd,
            HeadFault::TooManyHeaders => Self::TooManyHeaders,
            HeadFault::Header => Self::Header,
            HeadFault::FirstLine => Self::StatusLine,
        }
    }
}

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
) -> Result<Option<usize>, HeadFault> {
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
fn search(window: &[u8], mut from: usize) -> Result<Option<usize>, HeadFault> {
    while let Some(found) = memchr2(b'\r', b'\n', window.get(from..).unwrap_or_default()) {
        let at = from + found;
        match window.get(at..at + 2) {
            Some(b"\r\n") => {}
            None if window[at] == b'\r' => return Ok(None),
            _ => return Err(HeadFault::LineEnd),
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
) -> Result<Headers<'_>, HeadFault> {
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
) -> Result<(u16, Headers<'_>), HeadFault> {
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
    Ok((code.ok_or(HeadFault::FirstLine)?, headers))
}

/// Whether a proxy says in a field of this name whom it asks for.
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
) -> Result<Headers<'b>, HeadFault> {
    match status {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) | Err(Error::NewLine) => return Err(HeadFault::LineEnd),
        Err(Error::TooManyHeaders) => return Err(HeadFault::TooManyHeaders),
        Err(Error::HeaderName | Error::HeaderValue) => return Err(HeadFault::Header),
        Err(Error::Token | Error::Version | Error::Status) => return Err(HeadFault::FirstLine),
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
