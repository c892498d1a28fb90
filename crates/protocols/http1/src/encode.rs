//! Heads, chunks and names of status codes, written into the caller's buffer.
//!
//! No text given to an encoder can break out of its place. In field names every byte
//! that is not of a token becomes `_`, and an empty name `_`; in values every control
//! character but the tab becomes a space, as RFC 9110 section 5.5 has recipients
//! do; in targets everything but visible ASCII is percent-encoded. The encoders write
//! the fields that delimit messages themselves and leave out those given by the caller.

use crate::head::is_token;
use crate::query::hex_digit;

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

/// Appends the beginning of [`encode_response`] where the connection is kept: everything before the
/// length of the body. Answers that differ in nothing else can keep it; [`encode_response_end`]
/// completes it. For statuses with a body.
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

/// Appends the size line of a chunk, for data that are written from elsewhere; put [`CHUNK_END`]
/// behind them. `data_bytes` must not be 0, which would end the body.
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

/// Tells whether a response with this status never has a body (RFC 9110 section 6.4.1).
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

/// The name of a status code in the registry of RFC 9110 section 16.2.1; `Unknown` for others.
/// Nobody may rely on it: it is for people who read the wire.
#[must_use]
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{HttpLimits, ResponseBody, parse_request, parse_response};

    #[track_caller]
    fn check(encode: impl Fn(&mut Vec<u8>), expect: &str) {
        let mut out = b"before".to_vec();
        encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("before{expect}"));
    }

    #[test]
    fn responses_declare_their_length() {
        check(
            |out| encode_response(200, "", &[("Content-Type", "text/plain")], b"hi", true, out),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi",
        );
        check(
            |out| encode_response(404, "", &[], b"", false, out),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        check(
            |out| encode_response(204, "", &[], b"x", true, out),
            "HTTP/1.1 204 No Content\r\n\r\n",
        );
        check(
            |out| encode_response_head(200, "", &[], 7, true, out),
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        );
    }

    #[test]
    fn responses_say_when_and_to_what_to_upgrade() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        check(
            |out| encode_response(200, date, &[("A", "b")], b"", true, out),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: b\r\n\
         Content-Length: 0\r\n\r\n",
        );
        check(
            |out| encode_stream_head(200, date, &[], false, out),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n",
        );
        let upgrade = [("Upgrade", "websocket")];
        check(
            |out| encode_response(426, "", &upgrade, b"", true, out),
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\
         Connection: Upgrade\r\n\r\n",
        );
        check(
            |out| encode_response(426, "", &upgrade, b"", false, out),
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\
         Connection: Upgrade, close\r\n\r\n",
        );
    }

    #[test]
    fn framing_belongs_to_the_encoder() {
        let theirs = [
            ("content-LENGTH", "9"),
            ("Transfer-Encoding", "gzip"),
            ("Connection", "Upgrade"),
            ("X", "1"),
        ];
        check(
            |out| encode_response(200, "", &theirs, b"", false, out),
            "HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        check(
            |out| encode_stream_head(200, "", &theirs, true, out),
            "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        check(
            |out| encode_stream_head(200, "", &theirs, false, out),
            "HTTP/1.1 200 OK\r\nX: 1\r\nConnection: close\r\n\r\n",
        );
        check(
            |out| encode_stream_head(101, "", &theirs, false, out),
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nX: 1\r\n\r\n",
        );
        check(
            |out| encode_request("POST", "/x", "h", &theirs, Some(b"hi"), out),
            "POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nX: 1\r\n\
             Content-Length: 2\r\n\r\nhi",
        );
    }

    #[test]
    fn nothing_breaks_out_of_its_place() {
        check(
            |out| {
                encode_response(
                    200,
                    "",
                    &[("A\r\nB", "1\r\nC: 2\0\t\u{e9}"), ("", "x")],
                    b"",
                    true,
                    out,
                )
            },
            "HTTP/1.1 200 OK\r\nA__B: 1  C: 2 \t\u{e9}\r\n_: x\r\nContent-Length: 0\r\n\r\n",
        );
        check(
            |out| encode_request("G T", "/a b\r\n#\u{e9}", "h\r\nX: 1", &[], None, out),
            "G_T /a%20b%0D%0A%23%C3%A9 HTTP/1.1\r\nHost: h  X: 1\r\n\r\n",
        );
        check(
            |out| encode_request("", "", "", &[], None, out),
            "_ / HTTP/1.1\r\nHost: \r\n\r\n",
        );
    }

    #[test]
    fn chunks_have_hexadecimal_sizes() {
        check(|out| encode_chunk(b"", out), "");
        check(|out| encode_chunk(b"a", out), "1\r\na\r\n");
        for (bytes, head) in [
            (15, "F\r\n"),
            (16, "10\r\n"),
            (255, "FF\r\n"),
            (4096, "1000\r\n"),
            (u64::MAX, "FFFFFFFFFFFFFFFF\r\n"),
        ] {
            check(|out| encode_chunk_head(bytes, out), head);
        }
    }

    proptest! {
        #[test]
        fn a_response_has_the_fields_it_was_given_and_no_more(
            headers in prop::collection::vec(
                ("\\PC{0,6}|[\\x00-\\x7f]{0,6}", "\\PC{0,8}|[\\x00-\\x7f]{0,8}"),
                0..6,
            ),
            body in prop::collection::vec(any::<u8>(), 0..20),
            keep_alive: bool,
        ) {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let mut wire = Vec::new();
            encode_response(200, "", &headers, &body, keep_alive, &mut wire);
            let limits = HttpLimits::default();
            let (response, length) = parse_response(&wire, &limits, false).unwrap().unwrap();
            prop_assert_eq!(response.body, ResponseBody::Length(body.len() as u64));
            let fields = headers.len() + 1 + usize::from(!keep_alive);
            prop_assert_eq!(response.headers().count(), fields);
            prop_assert_eq!(response.keep_alive(), keep_alive);
            prop_assert_eq!(&wire[length..], body.as_slice());
        }

        #[test]
        fn a_request_is_one_request(
            method in "\\PC{1,6}|[\\x00-\\x7f]{1,6}",
            target in "/(\\PC{0,8}|[\\x00-\\x7f]{0,8})",
            value in "\\PC{0,8}|[\\x00-\\x7f]{0,8}",
        ) {
            let mut wire = Vec::new();
            encode_request(&method, &target, "h", &[("X", &value)], None, &mut wire);
            match parse_request(&wire, &HttpLimits::default()) {
                Ok(Some((request, length))) => {
                    prop_assert_eq!(length, wire.len());
                    prop_assert_eq!(request.headers().count(), 2);
                }
                refused => {
                    // A character of four bytes becomes four underscores.
                    prop_assert_eq!(refused, Err(crate::BadRequest::MethodTooLong));
                }
            }
        }
    }

    #[test]
    fn a_response_in_two_parts_is_the_same() {
        let headers = [
            ("Content-Type", "text/plain"),
            ("Connection", "x"),
            ("A", "b"),
        ];
        for body in [&b""[..], b"body"] {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            encode_response(200, "now", &headers, body, true, &mut whole);
            encode_response_start(200, "now", &headers, &mut parts);
            encode_response_end(body, &mut parts);
            assert_eq!(parts, whole);
        }
    }

    /// Names as the registry has them today. The `http` crate, which others keep, knows two by
    /// what RFC 7231 called them.
    #[test]
    fn names_are_those_of_the_registry() {
        let mut known = 0;
        for code in 100..600 {
            let name = reason_phrase(code);
            if name == "Unknown" {
                continue;
            }
            known += 1;
            let status = http::StatusCode::from_u16(code).expect("a status code");
            let expected = match status.canonical_reason() {
                Some("Payload Too Large") => "Content Too Large",
                Some("Unprocessable Entity") => "Unprocessable Content",
                other => other.expect("in the registry"),
            };
            assert_eq!(name, expected, "{code}");
        }
        assert_eq!(known, 45);
        assert_eq!(reason_phrase(799), "Unknown");
    }
}
