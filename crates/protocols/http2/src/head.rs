//! Heads: blocks of fields as the heads of HTTP/1.1 that say the same, so that sessions have one
//! form of a request, and its rules are checked in one place.
//!
//! Owns: pseudo-fields, and the rules for fields that HTTP/2 has of its own (RFC 9113 section 8).
//! What HTTP/1.1 has, too, is judged by `throng-http1` on the text that is written here; no byte of
//! a field can break out of its line.

use std::ops::Range;

use throng_http1::field::value_byte;
use throng_http1::{
    BadRequest, Body, Headers, HttpLimits, Request, Response, is_token, parse_request,
    parse_response,
};

use crate::hpack::{self, Decoder, ENTRY_BYTES, NotHpack};

/// Buffers that all connections of a thread lend each other, one call at a time.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A head as text of HTTP/1.1.
    text: Vec<u8>,
    field: Vec<u8>,
    /// Values of the pseudo-fields, and `Host`.
    parts: Vec<u8>,
    /// Crumbs of `Cookie`, joined (section 8.2.3).
    cookie: Vec<u8>,
    /// The method is HEAD.
    pub(crate) asks_head: bool,
}

/// Reason for refusing one head; the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    /// The stream is reset (section 8.1.1).
    Malformed,
    /// The request is answered so.
    Refused(BadRequest),
}

impl From<BadRequest> for BadHead {
    fn from(fault: BadRequest) -> Self {
        Self::Refused(fault)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    Request,
    Response,
    Trailers,
}

const METHOD: usize = 0;
const SCHEME: usize = 1;
const PATH: usize = 2;
const AUTHORITY: usize = 3;
const PROTOCOL: usize = 4;
const STATUS: usize = 5;
/// Not a pseudo-field: `Host`, which says what `:authority` does.
const HOST: usize = 6;
const PSEUDO: [&[u8]; 6] = [
    b":method",
    b":scheme",
    b":path",
    b":authority",
    b":protocol",
    b":status",
];

/// Stands where HTTP/1.1 has a nonce and HTTP/2 none (RFC 8441 section 5.1).
const UPGRADE: &[u8] = b"connection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/// Decodes a block into `scratch.text`; true if it is an extended CONNECT. The stream may have
/// ended with it.
pub(crate) fn decode(
    decoder: &mut Decoder,
    block: &[u8],
    kind: HeadKind,
    ends: bool,
    limits: &HttpLimits,
    scratch: &mut Scratch,
) -> Result<Result<bool, BadHead>, NotHpack> {
    let Scratch {
        text,
        field,
        parts,
        cookie,
        asks_head,
    } = scratch;
    for buffer in [&mut *text, parts, cookie] {
        buffer.clear();
    }
    let mut head = HeadText {
        kind,
        limits,
        text,
        parts,
        cookie,
        places: [const { None }; 7],
        connects: false,
        has_length: ends,
        bytes: 0,
        fields: 0,
    };
    let mut fault = None;
    decoder.decode(block, field, |name, value| {
        fault = fault.or_else(|| head.add(name, value).err());
    })?;
    *asks_head = head.part(METHOD) == Some(b"HEAD");
    Ok(match fault {
        Some(fault) => Err(fault),
        None => head.finish(),
    })
}

struct HeadText<'s> {
    kind: HeadKind,
    limits: &'s HttpLimits,
    text: &'s mut Vec<u8>,
    parts: &'s mut Vec<u8>,
    cookie: &'s mut Vec<u8>,
    /// Where in `parts` they are.
    places: [Option<Range<usize>>; 7],
    connects: bool,
    /// The end of the body can be told from the head.
    has_length: bool,
    bytes: usize,
    fields: usize,
}

impl HeadText<'_> {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadHead> {
        self.fields += 1;
        self.bytes += name.len() + value.len() + ENTRY_BYTES;
        // Both count before anything is kept: fields by number cost the peer one byte each.
        if self.fields > self.limits.headers_max {
            return Err(BadRequest::TooManyHeaders.into());
        }
        if self.bytes > self.limits.head_bytes_max {
            return Err(BadRequest::HeadTooLarge.into());
        }
        if value.iter().any(|&byte| value_byte(byte) != byte) {
            return Err(BadHead::Malformed);
        }
        if name.first() == Some(&b':') {
            let place = PSEUDO.iter().position(|pseudo| *pseudo == name);
            let place = place.ok_or(BadHead::Malformed)?;
            let fits = match self.kind {
                HeadKind::Request => place != STATUS,
                HeadKind::Response => place == STATUS,
                HeadKind::Trailers => false,
            };
            // They stand before all fields, and each once (section 8.3).
            if !fits || !self.text.is_empty() || self.places[place].is_some() {
                return Err(BadHead::Malformed);
            }
            self.keep(place, value);
            return Ok(());
        }
        if self.text.is_empty() {
            self.begin()?;
        }
        self.add_field(name, value)
    }

    fn keep(&mut self, place: usize, value: &[u8]) {
        let start = self.parts.len();
        self.parts.extend_from_slice(value);
        self.places[place] = Some(start..self.parts.len());
    }

    fn part(&self, place: usize) -> Option<&[u8]> {
        self.parts.get(self.places[place].clone()?)
    }

    /// Writes the first line, and what else the pseudo-fields say.
    fn begin(&mut self) -> Result<(), BadHead> {
        match self.kind {
            HeadKind::Trailers => self.text.extend_from_slice(b"HTTP/1.1 200 \r\n"),
            HeadKind::Response => {
                let status = self.part(STATUS).ok_or(BadHead::Malformed)?;
                if status.len() != 3 {
                    return Err(BadHead::Malformed);
                }
                let line = [b"HTTP/1.1 ", status, b" \r\n"].concat();
                self.text.extend_from_slice(&line);
            }
            HeadKind::Request => self.begin_request()?,
        }
        Ok(())
    }

    fn begin_request(&mut self) -> Result<(), BadHead> {
        let (parts, places) = (&*self.parts, &self.places);
        let part = |place: usize| parts.get(places[place].clone()?);
        let method = part(METHOD).ok_or(BadHead::Malformed)?;
        let connects = method == b"CONNECT";
        match (connects, part(PROTOCOL)) {
            (false, None) | (true, Some(b"websocket")) => {}
            (false, Some(_)) => return Err(BadHead::Malformed),
            (true, _) => return Err(BadRequest::MethodTooLong.into()),
        }
        let (path, authority) = (part(PATH).unwrap_or_default(), part(AUTHORITY));
        let is_sound = part(SCHEME).is_some()
            && method.iter().all(|&byte| is_token(byte))
            && (path.first() == Some(&b'/') || path == b"*")
            && !path.contains(&b' ')
            && authority.is_none_or(|host| !host.contains(&b' ') && !host.contains(&b'@'));
        if !is_sound {
            return Err(BadHead::Malformed);
        }
        let method = if connects { b"GET" } else { method };
        for part in [method, b" ", path, b" HTTP/1.1\r\n"] {
            self.text.extend_from_slice(part);
        }
        if let Some(authority) = authority {
            write_line(b"host", authority, self.text);
        }
        if connects {
            self.text.extend_from_slice(UPGRADE);
        }
        self.connects = connects;
        Ok(())
    }

    fn add_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadHead> {
        let is_name = |&byte: &u8| is_token(byte) && !byte.is_ascii_uppercase();
        let is_sound = !name.is_empty()
            && name.iter().all(is_name)
            && value.trim_ascii().len() == value.len()
            && !hpack::is_of_connection(name);
        if !is_sound {
            return Err(BadHead::Malformed);
        }
        match (self.kind, name) {
            (HeadKind::Request, b"te") if value != b"trailers" => return Err(BadHead::Malformed),
            (HeadKind::Request, b"host") => {
                match self.part(AUTHORITY).or_else(|| self.part(HOST)) {
                    Some(known) if known == value => return Ok(()),
                    Some(_) => return Err(BadHead::Malformed),
                    None => self.keep(HOST, value),
                }
            }
            (HeadKind::Request, b"cookie") => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
                return Ok(());
            }
            (_, b"content-length") => self.has_length = true,
            // The nonce is ours.
            (HeadKind::Request, b"sec-websocket-key") if self.connects => return Ok(()),
            _ => {}
        }
        write_line(name, value, self.text);
        Ok(())
    }

    fn finish(mut self) -> Result<bool, BadHead> {
        if self.text.is_empty() {
            self.begin()?;
        }
        if !self.cookie.is_empty() {
            write_line(b"cookie", self.cookie, self.text);
        }
        if self.kind == HeadKind::Request && !self.has_length && !self.connects {
            write_line(b"transfer-encoding", b"chunked", self.text);
        }
        self.text.extend_from_slice(b"\r\n");
        Ok(self.connects)
    }
}

fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Reads a request that was decoded, whose stream may have ended with it.
pub(crate) fn request<'s>(
    scratch: &'s Scratch,
    limits: &HttpLimits,
    connects: bool,
    ends: bool,
) -> Result<(Request<'s>, &'s [u8]), BadHead> {
    let parsed = parse_request(&scratch.text, limits)?;
    let (mut request, _) = parsed.ok_or(BadHead::Malformed)?;
    match request.body {
        _ if connects => request.body = Body::None,
        Body::Length(length) if ends && length > 0 => return Err(BadHead::Malformed),
        _ => {}
    }
    Ok((request, &scratch.text))
}

/// Reads a response that was decoded.
pub(crate) fn response<'s>(
    scratch: &'s Scratch,
    limits: &HttpLimits,
) -> Result<Response<'s>, BadHead> {
    let parsed = parse_response(&scratch.text, limits, false);
    let parsed = parsed.map_err(|_| BadHead::Malformed)?;
    parsed
        .map(|(response, _)| response)
        .ok_or(BadHead::Malformed)
}

/// Reads trailers that were decoded.
pub(crate) fn trailers<'s>(
    scratch: &'s Scratch,
    limits: &HttpLimits,
) -> Result<Headers<'s>, BadHead> {
    response(scratch, limits).map(|response| response.headers())
}

/// Appends the block of a response, in the same bytes on every connection. The status 101, with
/// which HTTP/1.1 accepts a WebSocket, becomes 200 and loses what only HTTP/1.1 says (RFC 8441
/// section 5).
pub fn encode_response<'h>(
    status: u16,
    fields: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    out: &mut Vec<u8>,
) {
    let accepts = status == 101;
    hpack::encode_status(if accepts { 200 } else { status }, out);
    for (name, value) in fields {
        if !(accepts && name.eq_ignore_ascii_case("sec-websocket-accept")) {
            hpack::encode_field(name, value, out);
        }
    }
}

/// Appends the block of a request, in the same bytes on every connection. With a `protocol`, it is
/// an extended CONNECT (RFC 8441 section 4), whatever the method.
pub fn encode_request<'h>(
    method: &str,
    scheme: &str,
    authority: &str,
    path: &str,
    protocol: Option<&str>,
    fields: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    out: &mut Vec<u8>,
) {
    let method = if protocol.is_some() {
        "CONNECT"
    } else {
        method
    };
    let pseudo = [
        (":method", Some(method)),
        (":scheme", Some(scheme)),
        (":authority", Some(authority)),
        (":path", Some(path)),
        (":protocol", protocol),
    ];
    for (name, value) in pseudo {
        if let Some(value) = value {
            hpack::encode_indexed(name, value.as_bytes(), out);
        }
    }
    for (name, value) in fields {
        hpack::encode_field(name, value, out);
    }
}
