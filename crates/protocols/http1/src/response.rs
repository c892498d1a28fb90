//! Response heads, in the client's role (RFC 9112 section 4).

use crate::head::{self, Body, ResponseBody};
use crate::{BadResponse, Headers, HttpLimits};

/// The head of a response. It borrows the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'b> {
    /// The status code, from 100 to 999. After 1xx other than 101 the real answer follows.
    pub status: u16,
    /// 0 for HTTP/1.0 and 1 for HTTP/1.1.
    pub minor_version: u8,
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

    #[must_use]
    pub fn headers(&self) -> Headers<'b> {
        self.headers
    }

    /// Tells whether the server will take another request on this connection (RFC 9112 section
    /// 9.3).
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
    limits: &HttpLimits,
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
    let declared = head::declared(headers, minor_version)?;
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::tests::cases;

    type Parsed<'b> = Result<Option<(Response<'b>, usize)>, BadResponse>;

    /// Parses `wire` whole, cut at every place and with more behind it, and answers
    /// what all of them agree on.
    #[track_caller]
    fn parse_all_ways<'b>(wire: &'b [u8], limits: &HttpLimits, was_head: bool) -> Parsed<'b> {
        let whole = parse_response(wire, limits, was_head);
        let mut decided = false;
        for cut in 0..=wire.len() {
            let prefix = parse_response(&wire[..cut], limits, was_head);
            assert!(!decided || prefix == whole, "undecided again at {cut}");
            decided |= prefix != Ok(None);
            assert!(!decided || prefix == whole, "decided at {cut}");
        }
        if decided {
            for more in ["\r", "\n", "\r\n\r\n", " ", "\0"] {
                let longer = [wire, more.as_bytes()].concat();
                assert_eq!(
                    parse_response(&longer, limits, was_head),
                    whole,
                    "with more"
                );
            }
        }
        whole
    }

    #[test]
    fn responses_of_the_table_are_refused() {
        for (wire, fault) in cases("answer") {
            let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default(), false);
            let found = format!("{:?}", parsed.expect_err("refused"));
            assert_eq!(found, fault, "{wire:?}");
        }
    }

    #[track_caller]
    fn accepted(wire: &str, was_head: bool) -> Response<'_> {
        let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default(), was_head);
        let (response, length) = parsed.unwrap().unwrap();
        assert_eq!(length, wire.len());
        response
    }

    #[test]
    fn a_response_is_taken_apart() {
        let response = accepted(
            "HTTP/1.1 200 All right\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
            false,
        );
        assert_eq!((response.status, response.minor_version), (200, 1));
        assert_eq!(response.header("content-type"), Some("text/plain"));
        assert_eq!(response.headers().count(), 2);
        assert_eq!(response.body, ResponseBody::Length(5));
        assert!(response.keep_alive());
    }

    #[test]
    fn bodies_are_delimited() {
        for kind in ["get", "head"] {
            for (wire, expected) in cases(kind) {
                let response = accepted(&wire, kind == "head");
                let found = format!("{:?} {}", response.body, response.keep_alive());
                assert_eq!(found, expected, "{wire}");
            }
        }
    }

    #[test]
    fn an_unfinished_head_is_no_error() {
        for wire in [
            "",
            "H",
            "HTTP/1.1",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r",
        ] {
            let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default(), false);
            assert_eq!(parsed, Ok(None), "{wire:?}");
        }
        assert_eq!(accepted("HTTP/1.1 404\r\n\r\n", false).status, 404);
        assert_eq!(accepted("HTTP/1.1 404 \r\n\r\n", false).status, 404);
    }

    #[test]
    fn limits_hold_to_the_byte() {
        let wire = b"HTTP/1.1 200 OK\r\nX: 1\r\nY: 2\r\n\r\n";
        let check = |head_bytes_max, headers_max, expect: Result<(), BadResponse>| {
            let limits = HttpLimits {
                head_bytes_max,
                headers_max,
                ..HttpLimits::default()
            };
            let parsed = parse_all_ways(wire, &limits, false);
            assert_eq!(parsed.map(|parsed| assert!(parsed.is_some())), expect);
        };
        check(wire.len(), 2, Ok(()));
        check(wire.len() - 1, 2, Err(BadResponse::HeadTooLarge));
        check(4, 2, Err(BadResponse::HeadTooLarge));
        check(wire.len(), 1, Err(BadResponse::TooManyHeaders));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                "HTTP/1.1 200", " ", "OK", "\r\n", "\r", "\n", "X: 1", ":", "Content-Length: 3",
                "Transfer-Encoding: chunked", "\t", "\0", "\u{e9}",
            ]), 0..12),
            head_bytes_max in 0_usize..60,
        ) {
            for start in ["", "HTTP/1.1 200 OK\r\n"] {
                let wire = format!("{start}{}", parts.concat());
                let limits = HttpLimits { head_bytes_max, ..HttpLimits::default() };
                let _ = parse_all_ways(wire.as_bytes(), &limits, false);
                let _ = parse_all_ways(wire.as_bytes(), &HttpLimits::default(), true);
            }
        }
    }
}
