//! A head that was accepted, so that the next one like it need not be judged again.
//!
//! Whoever sends many requests over one connection sends the same field lines with each of them.
//! A [`KnownHead`] is such a head: another one that differs from it in its query and its
//! Content-Length alone is read by comparing the rest.
//!
//! Invariant: what [`KnownHead::read`] answers is what [`crate::parse_request`] answers for the
//! same bytes. Where it does not know, it answers nothing.

use std::str;

use memchr::memchr;

use crate::head::{Body, decimal};
use crate::request::is_target;
use crate::{Headers, HttpLimits, Request};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHead {
    /// From the method to the end of the path.
    start: Box<[u8]>,
    method_bytes: usize,
    /// From the end of the target to the digits of Content-Length.
    before: Box<[u8]>,
    /// From behind them to the end of the empty line.
    after: Box<[u8]>,
    forwarded: bool,
}

/// Bytes from the end of a target to the first field line.
const VERSION_BYTES: usize = b" HTTP/1.1\r\n".len();

/// Digits of a length; those of more are read in the usual way.
const DIGITS_MAX: usize = 20;

impl KnownHead {
    /// From a head of HTTP/1.1 and the request that was parsed from it. Nothing for a target that
    /// is no path and query, or without a Content-Length.
    #[must_use]
    pub fn of(head: &[u8], request: &Request<'_>) -> Option<Self> {
        let method_bytes = request.method.len();
        let target_end = method_bytes + 1 + request.target.len();
        let is_plain = request.minor_version == 1 && request.target.starts_with('/');
        // Empty lines may stand before a head.
        if !is_plain || !head.starts_with(request.method.as_bytes()) {
            return None;
        }
        let mut at = target_end + VERSION_BYTES;
        for line in request.headers().lines() {
            if let Some(digits) = line.place_of("content-length") {
                let digits = at + digits.start..at + digits.end;
                return Some(Self {
                    start: head.get(..method_bytes + 1 + request.path().len())?.into(),
                    method_bytes,
                    before: head.get(target_end..digits.start)?.into(),
                    after: head.get(digits.end..)?.into(),
                    forwarded: request.headers().are_forwarded(),
                });
            }
            at += line.bytes() + 2;
        }
        None
    }

    /// Reads a head at the start of `input`, if it is like this one. Answers it and its length.
    #[must_use]
    pub fn read<'b>(&self, input: &'b [u8], limits: &HttpLimits) -> Option<(Request<'b>, usize)> {
        let rest = input.strip_prefix(&*self.start)?;
        let query_bytes = match rest.first()? {
            b'?' => memchr(b' ', rest)?,
            b' ' => 0,
            _ => return None,
        };
        let target_at = self.method_bytes + 1;
        let target_end = self.start.len() + query_bytes;
        let target = &input[target_at..target_end];
        let rest = input[target_end..].strip_prefix(&*self.before)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.take(DIGITS_MAX).count();
        let length = decimal(&rest[..digits])?;
        let rest = rest[digits..].strip_prefix(&*self.after)?;
        let bytes = input.len() - rest.len();
        if bytes > limits.head_bytes_max || length > limits.body_bytes_max || !is_target(target) {
            return None;
        }
        let (method, target) = str::from_utf8(&input[..target_end])
            .ok()?
            .split_at(self.method_bytes);
        let target = &target[1..];
        let (path, query) = target.split_at(self.start.len() - target_at);
        let lines = &input[target_end + VERSION_BYTES..bytes - 2];
        let request = Request {
            method,
            target,
            minor_version: 1,
            body: Body::Length(length),
            authority: None,
            path,
            query: query.get(1..).unwrap_or_default(),
            headers: Headers::of_checked(lines, self.forwarded),
            closes: false,
        };
        Some((request, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_request;

    fn known(head: &str) -> Option<KnownHead> {
        let limits = HttpLimits::default();
        let (request, length) = parse_request(head.as_bytes(), &limits).unwrap().unwrap();
        KnownHead::of(&head.as_bytes()[..length], &request)
    }

    const HEAD: &str =
        "POST /pub?channel=a HTTP/1.1\r\nHost: h\r\nContent-Length:  5 \r\nX: y\r\n\r\n";

    #[track_caller]
    fn check(head: &str, is_read: bool) {
        let known = known(HEAD).expect("a head to compare with");
        let limits = HttpLimits::default();
        let wire = format!("{head}12345678");
        let read = known.read(wire.as_bytes(), &limits);
        assert_eq!(read.is_some(), is_read, "{head:?}");
        if is_read {
            let parsed = parse_request(wire.as_bytes(), &limits).unwrap();
            assert_eq!(read, parsed, "{head:?}");
        }
        for cut in 0..head.len() {
            assert_eq!(known.read(&wire.as_bytes()[..cut], &limits), None, "{cut}");
        }
    }

    #[test]
    fn another_query_and_length_are_no_other_head() {
        check(HEAD, true);
        for (from, to) in [
            ("channel=a", "channel=b%20&x"),
            ("?channel=a", ""),
            ("?channel=a", "?"),
            ("channel=a", "\u{e4}"),
            ("  5 ", "  1048576 "),
            ("  5 ", "  005 "),
        ] {
            check(&HEAD.replace(from, to), true);
        }
        for (from, to) in [
            ("POST", "PUT"),
            ("POST", "\r\nPOST"),
            ("/pub", "/pubs"),
            ("channel=a", "channel=a#b"),
            ("channel=a", "channel=\x7f"),
            ("channel=a", "channel=a\tb"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("  5 ", "  "),
            ("  5 ", "  +5 "),
            ("  5 ", "  5 5 "),
            ("  5 ", "  1048577 "),
            ("  5 ", "  99999999999999999999 "),
            ("  5 ", " 5"),
            ("Host: h", "Host: i"),
            ("X: y", "X: y\r\nContent-Length: 5"),
            ("X: y", "X: z"),
            ("\r\n\r\n", "\r\nY: z\r\n\r\n"),
        ] {
            check(&HEAD.replace(from, to), false);
        }
        let limits = HttpLimits {
            head_bytes_max: HEAD.len() - 1,
            ..HttpLimits::default()
        };
        assert_eq!(known(HEAD).unwrap().read(HEAD.as_bytes(), &limits), None);
    }

    #[test]
    fn what_cannot_be_compared_is_not_known() {
        for (from, to) in [
            ("HTTP/1.1", "HTTP/1.0"),
            ("/pub?", "http://h/pub?"),
            ("Content-Length:  5 \r\n", ""),
            ("Content-Length:  5 ", "Transfer-Encoding: chunked"),
            ("POST", "\r\nPOST"),
        ] {
            assert_eq!(known(&HEAD.replace(from, to)), None, "{from} {to}");
        }
    }
}
