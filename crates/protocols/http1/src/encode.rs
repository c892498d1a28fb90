//! Heads and chunks, written into the caller's buffer.
//!
//! No text given to an encoder can break out of its place. In field names every byte
//! that is not of a token becomes `_`, and an empty name `_`; in values every control
//! character but the tab becomes a space, as RFC 9110 section 5.5 has recipients
//! do; in targets everything but visible ASCII is percent-encoded. The encoders write
//! the fields that delimit messages themselves and leave out those given by the caller.

use crate::headers::is_token;
use crate::query::hex_digit;
use crate::reason_phrase;

/// Ends a body of chunks, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Ends one chunk, behind [`encode_chunk_head`] and the data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// A response with a body that is at hand. Content-Length is set, and `Connection` to `close`
/// unless the connection is kept alive and to `Upgrade` if the field Upgrade is among `headers`
/// (RFC 9110 section 7.8); fields with those names, or Transfer-Encoding, in `headers` are left
/// out. `date` is the value of Date (RFC 9110 section 6.6.1); an empty one writes no such field.
/// 1xx, 204 and 304 have neither a body nor its length (RFC 9110 section 8.6), so `body` is left
/// out there.
pub fn encode_response(
    status: u16,
    date: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    let body_bytes = body.len() as u64;
    encode_response_head(status, date, headers, body_bytes, keep_alive, out);
    if !is_bodiless(status) {
        out.extend_from_slice(body);
    }
}

/// How [`encode_response`] begins where the connection is kept: everything before the length of the
/// body. Answers that differ in nothing else can keep it; [`encode_response_end`] completes it. For
/// statuses with a body.
pub fn encode_response_start(status: u16, date: &str, headers: &[(&str, &str)], out: &mut Vec<u8>) {
    status_line(status, date, out);
    fields(headers, &FRAMING, out);
}

/// Completes a response that [`encode_response_start`] began.
pub fn encode_response_end(body: &[u8], out: &mut Vec<u8>) {
    content_length(body.len() as u64, out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

/// The fields that delimit a response.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// The head of [`encode_response`] alone: for the answer to HEAD, or for a body that is
/// written from elsewhere.
pub fn encode_response_head(
    status: u16,
    date: &str,
    headers: &[(&str, &str)],
    body_bytes: u64,
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    encode_response_start(status, date, headers, out);
    if !is_bodiless(status) {
        content_length(body_bytes, out);
    }
    let upgrades = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
    out.extend_from_slice(match (upgrades, keep_alive) {
        (false, true) => b"",
        (false, false) => b"Connection: close\r\n",
        (true, true) => b"Connection: Upgrade\r\n",
        (true, false) => b"Connection: Upgrade, close\r\n",
    });
    out.extend_from_slice(b"\r\n");
}

/// The head of a response whose body has no end yet, or of one without any, such as 101.
///
/// The body is either sent in chunks, or `Connection: close` is set and it lasts until the
/// connection ends, which is what HTTP/1.0 understands. Content-Length and Transfer-Encoding
/// in `headers` are left out; Connection is too where this sets it. `date` is as in
/// [`encode_response`].
pub fn encode_stream_head(
    status: u16,
    date: &str,
    headers: &[(&str, &str)],
    chunked: bool,
    out: &mut Vec<u8>,
) {
    status_line(status, date, out);
    if is_bodiless(status) {
        fields(headers, &["content-length", "transfer-encoding"], out);
    } else if chunked {
        fields(headers, &["content-length", "transfer-encoding"], out);
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else {
        fields(headers, &FRAMING, out);
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// One chunk. Empty data write nothing, since an empty chunk would end the body.
pub fn encode_chunk(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    encode_chunk_head(data.len() as u64, out);
    out.extend_from_slice(data);
    out.extend_from_slice(CHUNK_END);
}

/// What stands before the data of a chunk, for data that are written from elsewhere; put
/// [`CHUNK_END`] behind them. `data_bytes` must not be 0, which would end the body.
pub fn encode_chunk_head(data_bytes: u64, out: &mut Vec<u8>) {
    debug_assert_ne!(data_bytes, 0, "an empty chunk ends the body");
    let digits = (u64::BITS - data_bytes.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(hex_digit((data_bytes >> (4 * digit) & 15) as u8) as u8);
    }
    out.extend_from_slice(b"\r\n");
}

/// A request. Content-Length is set if there is a body, even an empty one; fields named Host,
/// Content-Length or Transfer-Encoding in `headers` are left out. An empty target becomes `/`.
pub fn encode_request(
    method: &str,
    target: &str,
    host: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    name(method, out);
    out.push(b' ');
    encode_target(target, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    field("Host", host, out);
    fields(
        headers,
        &["host", "content-length", "transfer-encoding"],
        out,
    );
    if let Some(body) = body {
        content_length(body.len() as u64, out);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.unwrap_or_default());
}

/// Whether a response with this status never has a body (RFC 9110 section 6.4.1).
fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

fn status_line(status: u16, date: &str, out: &mut Vec<u8>) {
    debug_assert!(
        (100..1000).contains(&status),
        "a status code has three digits"
    );
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason_phrase(status).as_bytes());
    out.extend_from_slice(b"\r\n");
    if !date.is_empty() {
        field("Date", date, out);
    }
}

fn content_length(bytes: u64, out: &mut Vec<u8>) {
    field("Content-Length", itoa::Buffer::new().format(bytes), out);
}

/// All fields but those that the encoder owns, which are given in lower case.
fn fields(headers: &[(&str, &str)], owned: &[&str], out: &mut Vec<u8>) {
    for (name, value) in headers {
        if !owned.iter().any(|owned| name.eq_ignore_ascii_case(owned)) {
            field(name, value, out);
        }
    }
}

fn field(field_name: &str, value: &str, out: &mut Vec<u8>) {
    name(field_name, out);
    out.extend_from_slice(b": ");
    let is_control = |byte: u8| byte < 32 || byte == 127;
    // Without a way out of the loop, the compiler looks at many bytes at once.
    let any_control = { value.bytes() }.fold(false, |any, byte| any | is_control(byte));
    if any_control {
        out.extend(value.bytes().map(|byte| match byte {
            b'\t' => byte,
            _ if is_control(byte) => b' ',
            _ => byte,
        }));
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

fn name(name: &str, out: &mut Vec<u8>) {
    if name.is_empty() {
        out.push(b'_');
    }
    out.extend(
        name.bytes()
            .map(|byte| if is_token(byte) { byte } else { b'_' }),
    );
}

fn encode_target(target: &str, out: &mut Vec<u8>) {
    if target.is_empty() {
        out.push(b'/');
    }
    for byte in target.bytes() {
        if byte.is_ascii_graphic() && byte != b'#' {
            out.push(byte);
        } else {
            out.push(b'%');
            out.push(hex_digit(byte >> 4) as u8);
            out.push(hex_digit(byte & 15) as u8);
        }
    }
}

#[cfg(test)]
mod tests;
