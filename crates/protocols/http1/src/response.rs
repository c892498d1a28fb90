//! Response heads, in the client's role (RFC 9112 section 4).

use crate::framing::{self, Body, ResponseBody};
use crate::head;
use crate::{BadResponse, Headers, Limits};

/// The head of a response. It borrows the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'b> {
    /// The status code, from 100 to 999. After 1xx other than 101 the real answer follows.
    pub status: u16,
    /// 0 for HTTP/1.0 and 1 for HTTP/1.1.
    pub minor_version: u8,
    /// How the body that follows is delimited.
    pub body: ResponseBody,
    headers: Headers<'b>,
}

impl<'b> Response<'b> {
    /// The first value of a field, by its name in any case. None if there is no such
    /// field or if its value is not UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'b str> {
        self.headers.get(name)
    }

    /// All field lines in their order.
    #[must_use]
    pub fn headers(&self) -> Headers<'b> {
        self.headers
    }

    /// Whether the server will take another request on this connection (RFC 9112 section 9.3).
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        if self.body == ResponseBody::UntilClose || self.headers.has_token("connection", "close") {
            return false;
        }
        self.minor_version == 1 || self.headers.has_token("connection", "keep-alive")
    }
}

/// Parses the head of a response at the start of `input`. Answers it and its length in bytes,
/// or None while it is not whole. Whether the request was HEAD decides about the body.
///
/// # Errors
/// A [`BadResponse`]; faults in field lines wait for the end of the head.
pub fn parse_response<'b>(
    input: &'b [u8],
    limits: &Limits,
    request_was_head: bool,
) -> Result<Option<(Response<'b>, usize)>, BadResponse> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    let not_yet = if window.len() == limits.head_bytes_max {
        Err(BadResponse::HeadTooLarge)
    } else {
        Ok(None)
    };
    let Some(minor_version) = scan_version(window)? else {
        return not_yet;
    };
    // A head without fields ends right behind its first line, so that has to be found first.
    let Some(lines_at) = first_line_end(window)? else {
        return not_yet;
    };
    let Some(end) = head::find_end(window, lines_at, 0)? else {
        return not_yet;
    };
    let (status, headers) = head::check_response(&window[..end], lines_at, limits.headers_max)?;
    let declared = framing::declared(headers, minor_version)?;
    let body = match declared {
        _ if request_was_head || matches!(status, 100..=199 | 204 | 304) => ResponseBody::None,
        Body::Length(length) if limits.body_bytes_max < length => {
            return Err(BadResponse::BodyTooLarge);
        }
        Body::Length(length) => ResponseBody::Length(length),
        Body::Chunked => ResponseBody::Chunked,
        Body::None => ResponseBody::UntilClose,
    };
    let response = Response {
        status,
        minor_version,
        body,
        headers,
    };
    Ok(Some((response, end)))
}

/// The minor version, once it and the space behind it are there. Whatever answers in another
/// protocol is refused at its first byte that differs.
fn scan_version(bytes: &[u8]) -> Result<Option<u8>, BadResponse> {
    for (at, (&byte, &expected)) in bytes.iter().zip(b"HTTP/1.1 ").enumerate() {
        if byte != expected && !(at == 7 && byte == b'0') {
            return Err(BadResponse::StatusLine);
        }
    }
    match bytes.get(7) {
        Some(&minor) if 9 <= bytes.len() => Ok(Some(minor - b'0')),
        _ => Ok(None),
    }
}

fn first_line_end(window: &[u8]) -> Result<Option<usize>, BadResponse> {
    let Some(at) = memchr::memchr2(b'\r', b'\n', window) else {
        return Ok(None);
    };
    match window.get(at..at + 2) {
        Some(b"\r\n") => Ok(Some(at + 2)),
        None if window[at] == b'\r' => Ok(None),
        _ => Err(BadResponse::LineEnd),
    }
}

#[cfg(test)]
mod tests;
