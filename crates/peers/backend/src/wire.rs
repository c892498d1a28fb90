//! The bytes of a request, and the head of an answer.

use throng_http1::field::drop_named;
use throng_http1::field::{Header, write_field as field};
use throng_http1::origin::OriginTarget;
use throng_http1::origin::{OriginHead, OriginRequest, RequestRest};
use throng_http1::{BadResponse, HttpLimits, ResponseBody, encode_chunk, parse_response};

/// Field lines of an answer; the parser's own bound.
const HEADERS_MAX: usize = throng_http1::HEADERS_CAP;

/// The host that a request names; empty if it names none.
pub(crate) fn host(request: &OriginRequest) -> String {
    let host = request.headers.iter().find(|header| header.is("Host"));
    let host = host.map(|header| String::from_utf8_lossy(&header.value).into_owned());
    host.unwrap_or_default()
}

/// Appends a request as one origin gets it.
pub(crate) fn encode(request: &OriginRequest, target: &OriginTarget, out: &mut Vec<u8>) {
    out.extend(request.method.bytes().filter(u8::is_ascii_graphic));
    out.push(b' ');
    put_path(&request.path, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = &target.host {
        field("Host", host.as_bytes(), out);
    }
    for header in &request.headers {
        let is_ours = header.is("Content-Length")
            || header.is("Transfer-Encoding")
            || header.is("Connection")
            || header.is("Host") && target.host.is_some();
        if !is_ours {
            field(&header.name, &header.value, out);
        }
    }
    let has_body =
        !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    let length = match request.rest {
        RequestRest::Body(length) => length,
        RequestRest::Nothing if has_body => Some(request.body.len() as u64),
        RequestRest::Nothing | RequestRest::Upgrade => None,
    };
    if let Some(length) = length {
        field("Content-Length", length.to_string().as_bytes(), out);
    }
    match request.rest {
        RequestRest::Nothing | RequestRest::Body(Some(_)) => {}
        RequestRest::Body(None) => field("Transfer-Encoding", b"chunked", out),
        RequestRest::Upgrade => field("Connection", b"Upgrade", out),
    }
    out.extend_from_slice(b"\r\n");
    if request.rest == RequestRest::Body(None) {
        encode_chunk(&request.body, out);
    } else {
        out.extend_from_slice(&request.body);
    }
}

/// Appends a target. Bytes that none may have are encoded (RFC 3986 section 2.1): clients send
/// letters outside ASCII as they are, and a route's own text must not break out of the line.
fn put_path(path: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

pub(crate) struct Answer {
    pub(crate) head: OriginHead,
    pub(crate) body: ResponseBody,
    pub(crate) keep_alive: bool,
    pub(crate) bytes: usize,
}

/// Bounds of an answer; its body has none, because it is passed on as it comes.
pub(crate) fn limits(head_bytes_max: usize) -> HttpLimits {
    HttpLimits {
        head_bytes_max,
        headers_max: HEADERS_MAX,
        body_bytes_max: u64::MAX,
    }
}

/// Reads the head of an answer; `None` while it is not whole.
pub(crate) fn decode(
    input: &[u8],
    limits: &HttpLimits,
    is_head: bool,
) -> Result<Option<Answer>, BadResponse> {
    let Some((response, bytes)) = parse_response(input, limits, is_head)? else {
        return Ok(None);
    };
    let headers = response.headers();
    let declared = headers.get("content-length");
    let mut fields: Vec<Header> = headers
        .map(|(name, value)| Header::new(name, value))
        .collect();
    drop_named(&mut fields);
    Ok(Some(Answer {
        head: OriginHead {
            code: response.status,
            reason: reason(input),
            headers: fields,
            body_bytes: match response.body {
                ResponseBody::Length(bytes) => Some(bytes),
                ResponseBody::None if is_head => declared.and_then(|text| text.parse().ok()),
                _ => None,
            },
            is_bodiless: matches!(response.body, ResponseBody::None),
        },
        body: response.body,
        keep_alive: response.keep_alive(),
        bytes,
    }))
}

/// Text behind the code in a checked status line.
fn reason(input: &[u8]) -> String {
    let line = input
        .split(|&byte| byte == b'\r')
        .next()
        .unwrap_or_default();
    // `HTTP/1.1 200 ` has 13 bytes.
    String::from_utf8_lossy(line.get(13..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_http1::origin::TargetAddress;

    use super::*;

    #[track_caller]
    fn check(method: &str, body: &[u8], rest: RequestRest, host: Option<&str>, expected: &str) {
        let request = OriginRequest {
            to: Arc::default(),
            matched_bytes: 0,
            method: method.to_owned(),
            path: "/a b\r\nX:yé?q".to_owned(),
            headers: vec![
                Header::new("Host", "asked"),
                Header::new("Content-Length", "99"),
                Header::new("Connection", "close"),
                Header::new("X-Kept", "1"),
            ],
            body: body.to_vec(),
            rest,
        };
        let mut target = OriginTarget::new(TargetAddress::Test);
        target.host = host.map(str::to_owned);
        let mut out = Vec::new();
        encode(&request, &target, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn requests() {
        let line = "/a%20b%0D%0AX:y%C3%A9?q HTTP/1.1\r\n";
        let asked = "Host: asked\r\nX-Kept: 1\r\n";
        check(
            "GET",
            b"",
            RequestRest::Nothing,
            None,
            &format!("GET {line}{asked}\r\n"),
        );
        check(
            "GET",
            b"",
            RequestRest::Nothing,
            Some("own"),
            &format!("GET {line}Host: own\r\nX-Kept: 1\r\n\r\n"),
        );
        check(
            "POST",
            b"",
            RequestRest::Nothing,
            None,
            &format!("POST {line}{asked}Content-Length: 0\r\n\r\n"),
        );
        check(
            "DELETE",
            b"x",
            RequestRest::Nothing,
            None,
            &format!("DELETE {line}{asked}Content-Length: 1\r\n\r\nx"),
        );
        check(
            "PUT",
            b"x",
            RequestRest::Body(Some(7)),
            None,
            &format!("PUT {line}{asked}Content-Length: 7\r\n\r\nx"),
        );
        check(
            "PUT",
            b"x",
            RequestRest::Body(None),
            None,
            &format!("PUT {line}{asked}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
        );
        check(
            "PUT",
            b"",
            RequestRest::Body(None),
            None,
            &format!("PUT {line}{asked}Transfer-Encoding: chunked\r\n\r\n"),
        );
        check(
            "GET",
            b"",
            RequestRest::Upgrade,
            None,
            &format!("GET {line}{asked}Connection: Upgrade\r\n\r\n"),
        );
    }

    #[test]
    fn heads_of_answers_at_every_split_point() {
        let wire = b"HTTP/1.1 207 Some  Words\r\nX-A: 1\r\nContent-Length: 5\r\n\r\n";
        let limits = limits(1 << 10);
        for at in 0..wire.len() {
            assert!(
                matches!(decode(&wire[..at], &limits, false), Ok(None)),
                "{at}"
            );
        }
        let answer = decode(wire, &limits, false).expect("good").expect("whole");
        assert_eq!(
            (answer.head.code, answer.head.reason.as_str()),
            (207, "Some  Words")
        );
        assert_eq!(
            (answer.head.body_bytes, answer.bytes),
            (Some(5), wire.len())
        );
        assert!(answer.keep_alive && !answer.head.is_bodiless);
        let head = decode(wire, &limits, true).expect("good").expect("whole");
        assert_eq!(
            (head.head.body_bytes, head.head.is_bodiless),
            (Some(5), true)
        );
        assert!(decode(b"SSH-2.0\r\n\r\n", &limits, false).is_err());
    }
}
