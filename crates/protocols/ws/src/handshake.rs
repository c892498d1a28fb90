//! The opening handshake (RFC 6455 section 4): its fields, without an HTTP parser.
//!
//! Owns: the rules about fields and the bytes of both heads. Never: reads HTTP, decides
//! who may connect (Origin and authentication are the caller's), or offers an extension.
//!
//! A request's header fields come as they were sent, one a line; those that are lists are read
//! over all their lines (RFC 9110 section 5.3). A response's come through a lookup: it is given a
//! name in lower case, and compares without regard to case.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use throng_types::{coded_enum, error_text};

use crate::DeflateOffer;

/// Concatenated to the client's key (section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The length of a SHA-1 digest in base64.
const ACCEPT_BYTES: usize = 28;

/// A request that may become a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept<'a> {
    /// The value of `Sec-WebSocket-Accept`: base64 text.
    pub key: [u8; ACCEPT_BYTES],
    /// The subprotocols that the client offers, the one that it prefers first.
    pub protocols: Protocols<'a>,
    /// Compression that the client offers, if it is something that we can do.
    pub deflate: Option<DeflateOffer>,
}

/// Subprotocols that `Sec-WebSocket-Protocol` offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocols<'a>(Vec<&'a str>);

impl<'a> Protocols<'a> {
    /// The names in the client's order; what is not a token is passed over.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().copied()
    }

    /// Tells whether the client offers `name`; names are compared byte by byte.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

coded_enum! {
    /// Reason for which a request does not become a WebSocket.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum HandshakeError {
        /// HTTP status of the answer: 400, 405 or 426.
        fn status -> u16;
        fn reason;
        Method = 405, "A WebSocket handshake is a GET request.";
        HostMissing = 400, "The request has no Host header.";
        /// `Upgrade` does not name `websocket`: an ordinary request.
        UpgradeMissing = 426,
            "This is a WebSocket endpoint: the request needs the header \"Upgrade: websocket\".";
        /// `Connection` does not name `Upgrade`; a proxy may have dropped it.
        ConnectionMissing = 400,
            "The header \"Connection: Upgrade\" is missing; a proxy on the way may have \
             removed it.";
        Version = 426, "The header \"Sec-WebSocket-Version\" has to be 13.";
        KeyMissing = 400, "The header \"Sec-WebSocket-Key\" is missing.";
        KeyMalformed = 400, "The header \"Sec-WebSocket-Key\" is not 16 bytes in base64.";
        /// `Sec-WebSocket-Key` or `Sec-WebSocket-Version` is there more than once
        /// (sections 11.3.1 and 11.3.5).
        Repeated = 400,
            "\"Sec-WebSocket-Key\" or \"Sec-WebSocket-Version\" is there more than once.";
    }
}

error_text!(HandshakeError.reason);

impl HandshakeError {
    /// Fields that the answer must have (RFC 9110 sections 15.5.6 and 15.5.22, RFC 6455
    /// section 4.4); with `Upgrade` goes `Connection: Upgrade`.
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self.status() {
            405 => &[("Allow", "GET")],
            426 => &[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")],
            _ => &[],
        }
    }
}

/// Checks a client's request (section 4.2.1). That it is HTTP/1.1 is the caller's to check.
///
/// # Errors
///
/// A [`HandshakeError`], which says how to answer.
pub fn accept<'a>(
    method: &str,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Accept<'a>, HandshakeError> {
    if method != "GET" {
        return Err(HandshakeError::Method);
    }
    let (mut host, mut upgrade, mut connection) = (false, false, false);
    let (mut version, mut key, mut is_repeated) = (None, None, false);
    let mut protocols = Vec::new();
    let mut deflate = None;
    for (name, value) in fields {
        // No field of a handshake has anything but ASCII; what else stands there names nothing.
        let text = || std::str::from_utf8(value).unwrap_or_default();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            host = true;
        } else if is("upgrade") {
            upgrade |= list_names(text(), "websocket");
        } else if is("connection") {
            connection |= list_names(text(), "upgrade");
        } else if is("sec-websocket-version") {
            is_repeated |= version.replace(trim(text())).is_some();
        } else if is("sec-websocket-key") {
            is_repeated |= key.replace(trim(text())).is_some();
        } else if is("sec-websocket-protocol") {
            protocols.extend(list(text()).filter(|name| is_token(name)));
        } else if is("sec-websocket-extensions") {
            deflate = deflate.or_else(|| DeflateOffer::first_of(text()));
        }
    }
    match (version, key) {
        _ if !host => Err(HandshakeError::HostMissing),
        _ if !upgrade => Err(HandshakeError::UpgradeMissing),
        _ if !connection => Err(HandshakeError::ConnectionMissing),
        _ if is_repeated => Err(HandshakeError::Repeated),
        (version, _) if version != Some("13") => Err(HandshakeError::Version),
        (_, None) => Err(HandshakeError::KeyMissing),
        (_, Some(key)) if is_key(key) => Ok(Accept {
            key: accept_key(key.as_bytes()),
            protocols: Protocols(protocols),
            deflate,
        }),
        (_, Some(_)) => Err(HandshakeError::KeyMalformed),
    }
}

/// Appends the complete head of the answer that opens the WebSocket (section 4.2.2).
///
/// `subprotocol` must be one of those that the client offers, and so a token; `deflate` is its
/// offer if compression is agreed to.
pub fn encode_response(
    accept: &Accept<'_>,
    subprotocol: Option<&str>,
    deflate: Option<DeflateOffer>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\n\
          Upgrade: websocket\r\n\
          Connection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(&accept.key);
    if let Some(name) = subprotocol {
        debug_assert!(accept.protocols.contains(name), "{name} was not offered");
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(name.as_bytes());
    }
    if let Some(offer) = deflate {
        out.extend_from_slice(b"\r\nSec-WebSocket-Extensions: ");
        offer.encode_answer(out);
    }
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends the complete head of a client's request (section 4.1).
///
/// `key` is 16 random bytes, to be kept for [`check_response`]. `headers` are further
/// fields, such as `Origin` or `Sec-WebSocket-Protocol`. The caller vouches that none of
/// the texts holds a line end.
pub fn encode_request(
    host: &str,
    target: &str,
    key: [u8; 16],
    headers: &[(&str, &str)],
    out: &mut Vec<u8>,
) {
    let key = encode_key(key);
    let fixed = [
        ("Host", host),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
    ];
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in fixed.iter().chain(headers) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"Sec-WebSocket-Key: ");
    out.extend_from_slice(&key);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Why a server's answer does not open a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum UpgradeError {
    /// Not a fault of the protocol: the server said no, or where else to ask.
    #[error("the server answered {0}, not 101")]
    Status(u16),
    #[error("the answer's Upgrade header does not name websocket")]
    Upgrade,
    #[error("the answer's Connection header does not name Upgrade")]
    Connection,
    /// `Sec-WebSocket-Accept` is missing or does not belong to our key.
    #[error("the answer's Sec-WebSocket-Accept does not belong to our key")]
    Accept,
    #[error("the answer's Sec-WebSocket-Extensions names what we did not ask for")]
    Extension,
}

/// Checks a server's answer (section 4.1) to a request that had `key`.
///
/// The caller who offered subprotocols looks at `Sec-WebSocket-Protocol` himself; who
/// offered none must fail the connection if it is there.
///
/// # Errors
///
/// A [`UpgradeError`] if this connection is not a WebSocket.
pub fn check_response<'a>(
    status: u16,
    header: impl Fn(&str) -> Option<&'a str>,
    key: [u8; 16],
) -> Result<(), UpgradeError> {
    if status != 101 {
        return Err(UpgradeError::Status(status));
    }
    if !header("upgrade").is_some_and(|value| list_names(value, "websocket")) {
        return Err(UpgradeError::Upgrade);
    }
    if !header("connection").is_some_and(|value| list_names(value, "upgrade")) {
        return Err(UpgradeError::Connection);
    }
    let expected = accept_key(&encode_key(key));
    if header("sec-websocket-accept").map(|value| trim(value).as_bytes()) != Some(&expected) {
        return Err(UpgradeError::Accept);
    }
    match header("sec-websocket-extensions") {
        Some(value) if list(value).next().is_some() => Err(UpgradeError::Extension),
        _ => Ok(()),
    }
}

/// The answer to a key (section 4.2.2, item 5.4).
fn accept_key(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(KEY_SUFFIX);
    to_base64(digest.finish().as_ref())
}

fn encode_key(key: [u8; 16]) -> [u8; 24] {
    to_base64(&key)
}

/// `N` must be the length of the base64 text of `bytes`.
fn to_base64<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut text = [0; N];
    let written = BASE64.encode_slice(bytes, &mut text);
    debug_assert_eq!(written, Ok(N));
    text
}

/// Tells whether `key` is the base64 text of 16 bytes. The four bits that the text has too many
/// may have any value: nothing hangs on them, and careless clients set them.
fn is_key(key: &str) -> bool {
    key.strip_suffix("==").is_some_and(|digits| {
        let is_digit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        digits.len() == 22 && digits.bytes().all(is_digit)
    })
}

/// Tells whether a comma-separated field names `name`, without regard to case.
fn list_names(value: &str, name: &str) -> bool {
    value.eq_ignore_ascii_case(name) || list(value).any(|item| item.eq_ignore_ascii_case(name))
}

/// The items of a comma-separated field (RFC 9110 section 5.6.1); empty ones do not count.
fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(trim).filter(|item| !item.is_empty())
}

/// Without the white space that RFC 9110 section 5.6.3 allows around a value.
fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_token_char = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token_char)
}

#[cfg(test)]
mod tests;
