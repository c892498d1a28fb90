//! Request heads (RFC 9112 section 3).
//!
//! Owns: the request line, the rules about Host, and the order in which faults are
//! found. The request line is judged byte by byte as it arrives, then line ends, then,
//! once the head is whole, everything else.

#[cfg(test)]
pub(crate) mod tests;

use std::net::Ipv6Addr;
use std::str;

use memchr::memchr;

use crate::head::{self, Body, ByteSet, is_token};
use crate::{BadRequest, Headers, HttpLimits};

/// The longest method that is taken, in bytes. The longest registered one has 17.
const METHOD_BYTES_MAX: usize = 32;

/// The head of a request. It borrows the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// The method, as it was written: methods are case-sensitive.
    pub method: &'b str,
    /// The target as it was written: a path and query, an http URI, or `*`. It has no
    /// spaces, control characters or fragment, and its percent-encoding is untouched.
    pub target: &'b str,
    /// 0 for HTTP/1.0 and 1 for HTTP/1.1.
    pub minor_version: u8,
    pub body: Body,
    pub(crate) authority: Option<&'b str>,
    pub(crate) path: &'b str,
    pub(crate) query: &'b str,
    pub(crate) headers: Headers<'b>,
    /// Set by [`Request::close_after`] alone.
    pub(crate) closes: bool,
}

impl<'b> Request<'b> {
    /// The path of the target, up to `?`, not decoded. `/` if a URI has none.
    #[must_use]
    pub fn path(&self) -> &'b str {
        self.path
    }

    /// Query behind the first `?` of the target, not decoded; empty if there is none.
    #[must_use]
    pub fn query(&self) -> &'b str {
        self.query
    }

    /// Host that the request is for: the authority of a target that is a URI, otherwise Host (RFC
    /// 9112 section 3.2.2). Empty if HTTP/1.0 says nothing.
    #[must_use]
    pub fn host(&self) -> &'b str {
        self.authority
            .or_else(|| self.headers.get("host"))
            .unwrap_or_default()
    }

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

    /// Tells whether the connection may serve another request after this one (RFC 9112 section
    /// 9.3).
    ///
    /// HTTP/1.0 never may, even if it asks: it would have to be told, and leaving the answers
    /// alike for both versions is worth more than its second request.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.minor_version == 1 && !self.closes && !self.headers.has_token("connection", "close")
    }

    /// The connection ends with the answer, whatever the client asks for.
    pub const fn close_after(&mut self) {
        self.closes = true;
    }

    /// Tells whether a client of HTTP/1.0 asks for a connection that stays, and waits to be told so
    /// (RFC 9112 appendix C.2.2). For answers whose head can say it.
    #[must_use]
    pub fn asks_keep_alive(&self) -> bool {
        self.minor_version == 0
            && !self.closes
            && self.headers.has_token("connection", "keep-alive")
            && !self.headers.has_token("connection", "close")
    }

    /// Tells whether the client waits for `100 Continue` before it sends the body
    /// (RFC 9110 section 10.1.1).
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.minor_version == 1
            && !matches!(self.body, Body::None | Body::Length(0))
            && self.headers.has_token("expect", "100-continue")
    }

    /// Tells whether the client offers to switch to `protocol` (RFC 9110 section 7.8), which is
    /// compared in any case, and with its version if it has one.
    #[must_use]
    pub fn wants_upgrade(&self, protocol: &str) -> bool {
        self.minor_version == 1
            && self.headers.has_token("connection", "upgrade")
            && self.headers.has_token("upgrade", protocol)
    }
}

/// Parses the head of a request at the start of `input`. Answers it and its length in bytes,
/// or None while it is not whole. Empty lines before it are skipped (RFC 9112 section 2.2).
///
/// Each call starts from the beginning, so a head that comes byte by byte costs the square of
/// its length; the bound on it keeps that small, and [`parse_request_resumed`] avoids it.
///
/// # Errors
/// A [`BadRequest`], as soon as no further bytes could make the request acceptable, except that
/// faults in field lines wait for the end of the head.
pub fn parse_request<'b>(
    input: &'b [u8],
    limits: &HttpLimits,
) -> Result<Option<(Request<'b>, usize)>, BadRequest> {
    parse_request_resumed(input, 0, limits)
}

/// Like [`parse_request`], for a caller that got None before for the first `searched` bytes
/// of the same input: they are not searched for the end of the head again. A wrong `searched`
/// can delay the answer and nothing else.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_request_resumed<'b>(
    input: &'b [u8],
    searched: usize,
    limits: &HttpLimits,
) -> Result<Option<(Request<'b>, usize)>, BadRequest> {
    // Nothing past the limit is looked at, or the fault found would depend on how much came.
    let window = &input[..input.len().min(limits.head_bytes_max)];
    let full = window.len() == limits.head_bytes_max;

    let Some(start) = skip_empty_lines(window) else {
        return not_yet(full, BadRequest::HeadTooLarge);
    };
    let Some(line) = RequestLine::scan(&window[start..])? else {
        return not_yet(full, BadRequest::TargetTooLong);
    };
    let lines_at = start + line.length;
    let Some(end) = head::find_end(window, lines_at, searched)? else {
        return not_yet(full, BadRequest::HeadTooLarge);
    };
    let request = line.finish(&window[start..end], limits)?;
    Ok(Some((request, end)))
}

fn not_yet<T>(full: bool, fault: BadRequest) -> Result<Option<T>, BadRequest> {
    if full { Err(fault) } else { Ok(None) }
}

/// Offset of the request line, once its first byte is there.
fn skip_empty_lines(window: &[u8]) -> Option<usize> {
    let mut at = 0;
    while window[at..].starts_with(b"\r\n") {
        at += 2;
    }
    match &window[at..] {
        [] | [b'\r'] => None,
        _ => Some(at),
    }
}

/// A request line that is whole and well formed, as places in it.
struct RequestLine {
    method_end: usize,
    target_end: usize,
    minor_version: u8,
    length: usize,
}

impl RequestLine {
    /// Judges a request line from left to right, so that a fault does not wait for its end.
    fn scan(bytes: &[u8]) -> Result<Option<Self>, BadRequest> {
        let Some(method_end) = scan_method(bytes)? else {
            return Ok(None);
        };
        let target_at = method_end + 1;
        let Some(target_length) = scan_target(&bytes[target_at..])? else {
            return Ok(None);
        };
        let target_end = target_at + target_length;
        let version_at = target_end + 1;
        let Some(minor_version) = scan_version(&bytes[version_at..])? else {
            return Ok(None);
        };
        Ok(Some(Self {
            method_end,
            target_end,
            minor_version,
            length: version_at + VERSION_LINE_BYTES,
        }))
    }

    /// Judges a whole head, which this line begins.
    fn finish<'b>(&self, head: &'b [u8], limits: &HttpLimits) -> Result<Request<'b>, BadRequest> {
        let text = |from, to| str::from_utf8(&head[from..to]).map_err(|_| BadRequest::Target);
        let method = text(0, self.method_end)?;
        let target = text(self.method_end + 1, self.target_end)?;
        let (authority, path, query) = split_target(method, target).ok_or(BadRequest::Target)?;
        let headers = head::check_request(head, self.length, limits.headers_max)?;
        check_host(headers, self.minor_version)?;
        let body = head::declared(headers, self.minor_version)?;
        if matches!(body, Body::Length(length) if limits.body_bytes_max < length) {
            return Err(BadRequest::BodyTooLarge);
        }
        Ok(Request {
            method,
            target,
            minor_version: self.minor_version,
            body,
            authority,
            path,
            query,
            headers,
            closes: false,
        })
    }
}

/// The first byte of a client that speaks TLS: its record is of the handshake.
const TLS_HANDSHAKE: u8 = 22;

/// The length of the method, once the space behind it is there.
fn scan_method(bytes: &[u8]) -> Result<Option<usize>, BadRequest> {
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b' ' if at != 0 => return Ok(Some(at)),
            _ if !is_token(byte) => {
                return Err(match (at, byte) {
                    (0, TLS_HANDSHAKE) => BadRequest::Tls,
                    _ => BadRequest::Method,
                });
            }
            _ if at == METHOD_BYTES_MAX => return Err(BadRequest::MethodTooLong),
            _ => {}
        }
    }
    Ok(None)
}

/// The length of the target, once the space behind it is there. Bytes outside ASCII are let
/// through although RFC 3986 wants them encoded, because common clients send them as they are.
fn scan_target(bytes: &[u8]) -> Result<Option<usize>, BadRequest> {
    let end = memchr(b' ', bytes);
    let target = &bytes[..end.unwrap_or(bytes.len())];
    if is_target(target) && end != Some(0) {
        return Ok(end);
    }
    Err(match target.iter().find(|byte| !is_target(&[**byte])) {
        // HTTP/0.9 ends its line here.
        Some(b'\r' | b'\n') => BadRequest::RequestLine,
        _ => BadRequest::Target,
    })
}

/// Tells whether these bytes can be a target.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    // Without a way out of the loop, the compiler looks at many bytes at once.
    let faulty = |any, &byte: &u8| any | matches!(byte, 0..=b' ' | b'#' | 0x7f);
    !bytes.iter().fold(false, faulty)
}

const VERSION_LINE_BYTES: usize = b"HTTP/1.1\r\n".len();

/// The minor version, once the line has ended.
fn scan_version(bytes: &[u8]) -> Result<Option<u8>, BadRequest> {
    for (at, (&byte, &expected)) in bytes.iter().zip(b"HTTP/1.1\r\n").enumerate() {
        let fits = match at {
            5 | 7 => byte.is_ascii_digit(),
            _ => byte == expected,
        };
        if !fits {
            return Err(BadRequest::RequestLine);
        }
        if at == 7 && !matches!(&bytes[5..8], b"1.0" | b"1.1") {
            return Err(BadRequest::Version);
        }
    }
    match bytes.get(7) {
        Some(&minor) if VERSION_LINE_BYTES <= bytes.len() => Ok(Some(minor - b'0')),
        _ => Ok(None),
    }
}

/// The authority, path and query of a target. CONNECT's form is not among those known.
fn split_target<'b>(method: &str, target: &'b str) -> Option<(Option<&'b str>, &'b str, &'b str)> {
    if target == "*" {
        return (method == "OPTIONS").then_some((None, target, ""));
    }
    if target.starts_with('/') {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        return Some((None, path, query));
    }
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    // User information has no business in a request (RFC 9110 section 4.2.4).
    if authority.is_empty() || !is_authority(authority.as_bytes()) {
        return None;
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = if path.is_empty() { "/" } else { path };
    Some((Some(authority), path, query))
}

/// RFC 9112 section 3.2: exactly one Host, and none is forgiven to HTTP/1.0 alone.
fn check_host(headers: Headers<'_>, minor_version: u8) -> Result<(), BadRequest> {
    let mut hosts = headers.values("host");
    let first = hosts.next();
    if hosts.next().is_some() {
        return Err(BadRequest::HostRepeated);
    }
    match first {
        None if minor_version == 0 => Ok(()),
        None => Err(BadRequest::HostMissing),
        Some(host) if is_authority(host) => Ok(()),
        Some(_) => Err(BadRequest::HostInvalid),
    }
}

/// Tells whether this is a host, and behind a colon a port (RFC 3986 section 3.2); may be empty.
fn is_authority(text: &[u8]) -> bool {
    static NAME: ByteSet = ByteSet::of_alphanumeric_and(b"-._~%!$&'()*+;=");
    let host_end = match text {
        [b'[', inside @ ..] => {
            let end = memchr(b']', inside).filter(|end| is_literal(&inside[..*end]));
            let Some(end) = end else {
                return false;
            };
            end + 2
        }
        _ => { text.iter().position(|&byte| !NAME.has(byte)) }.unwrap_or(text.len()),
    };
    match &text[host_end..] {
        [] => true,
        [b':', digits @ ..] => host_end > 0 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Tells whether this may stand between the brackets of a host: an address of IPv6, or of a version
/// to come.
fn is_literal(text: &[u8]) -> bool {
    static FUTURE: ByteSet = ByteSet::of_alphanumeric_and(b"-._~!$&'()*+,;=:");
    let is_v6 = str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    is_v6 || matches!(text, [b'v' | b'V', rest @ ..] if rest.iter().all(|&byte| FUTURE.has(byte)))
}
