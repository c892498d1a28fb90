//! Client's role for sessions that speak HTTP/1.1: requests that they write as blocks of fields,
//! and answers as the heads that they read.

use throng_http1::{Request, Response};

use crate::head::encode_request;

/// Nonce of each WebSocket's handshake that becomes an extended CONNECT: HTTP/2 has none, so the
/// answer that is made up fits this one alone.
pub const UPGRADE_KEY: [u8; 16] = [0; 16];

/// Head by which HTTP/1.1 accepts a WebSocket with [`UPGRADE_KEY`], up to the fields that the
/// server has said.
const UPGRADED: &[u8] = b"HTTP/1.1 101 \r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n";

/// Begin of the head by which HTTP/2 accepts one.
const ACCEPTED: &[u8] = b"HTTP/1.1 200 \r\n";

/// Appends the block of a request that was written as one of HTTP/1.1. Returns true if it asks for
/// a WebSocket: it is an extended CONNECT (RFC 8441) then.
pub fn encode_asked(request: &Request<'_>, is_secure: bool, out: &mut Vec<u8>) -> bool {
    let connects = request.headers().has_token("upgrade", "websocket");
    let path = match request.target.starts_with('/') {
        true => request.target,
        false => request.path(),
    };
    let is_said = |name: &str| {
        name.eq_ignore_ascii_case("host")
            || connects && name.eq_ignore_ascii_case("sec-websocket-key")
    };
    let fields = request.headers().filter(|(name, _)| !is_said(name));
    encode_request(
        request.method,
        if is_secure { "https" } else { "http" },
        request.host(),
        path,
        connects.then_some("websocket"),
        fields,
        out,
    );
    connects
}

/// Appends the head of an answer as one of HTTP/1.1.
pub fn write_answer(response: &Response<'_>, out: &mut Vec<u8>) {
    let status = response.status.to_string();
    for part in [&b"HTTP/1.1 "[..], status.as_bytes(), b" \r\n"] {
        out.extend_from_slice(part);
    }
    for (name, value) in response.headers() {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Turns a head of [`write_answer`] that accepts a WebSocket into the 101 of HTTP/1.1; another
/// stays.
pub fn answer_upgrade(head: &mut Vec<u8>) {
    if head.starts_with(ACCEPTED) {
        head.splice(..ACCEPTED.len(), UPGRADED.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use throng_http1::{HttpLimits, encode_request as encode_http1, parse_request, parse_response};

    use super::*;
    use crate::{Conn, H2Event, H2Limits, Scratch};

    /// Request as a server reads it, and whether it is a WebSocket's.
    fn asked(text: &[u8]) -> (String, bool) {
        let (request, _) = parse_request(text, &HttpLimits::USUAL).unwrap().unwrap();
        let (mut block, mut wire, limits) = (Vec::new(), Vec::new(), H2Limits::USUAL);
        let connects = encode_asked(&request, true, &mut block);
        let mut client = Conn::client(&limits, &mut wire);
        client.open(7, &block, !connects, &mut wire).unwrap();
        let mut server = Conn::server(&limits, &mut Vec::new());
        let (mut input, mut scratch, mut out) = (&wire[..], Scratch::default(), Vec::new());
        let now = throng_types::Millis(0);
        while !input.is_empty() {
            let event = server.read(&mut input, now, &limits, &mut scratch, &mut out);
            if let Some(H2Event::Request { head, .. }) = event.unwrap() {
                return (String::from_utf8(head.to_vec()).unwrap(), connects);
            }
        }
        panic!("no request came");
    }

    #[test]
    fn requests_arrive_as_they_were_written() {
        let mut text = Vec::new();
        let headers = [("Accept", "text/event-stream"), ("Connection", "close")];
        encode_http1("GET", "/sse?channel=a", "h:1", &headers, None, &mut text);
        let expect =
            "GET /sse?channel=a HTTP/1.1\r\nhost: h:1\r\naccept: text/event-stream\r\n\r\n";
        assert_eq!(asked(&text), (expect.to_owned(), false));
        let text = b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        let expect = "GET /ws HTTP/1.1\r\nhost: h\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
            sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n";
        assert_eq!(asked(text), (expect.to_owned(), true));
    }

    #[test]
    fn a_websocket_is_accepted_as_http1_does() {
        let answer = |text: &str, connects| {
            let parsed = parse_response(text.as_bytes(), &HttpLimits::USUAL, false);
            let (response, _) = parsed.unwrap().unwrap();
            let mut out = Vec::new();
            write_answer(&response, &mut out);
            if connects {
                answer_upgrade(&mut out);
            }
            String::from_utf8(out).unwrap()
        };
        let upgraded = answer("HTTP/1.1 200 \r\nsec-websocket-protocol: x\r\n\r\n", true);
        let (response, _) = { parse_response(upgraded.as_bytes(), &HttpLimits::USUAL, false) }
            .unwrap()
            .unwrap();
        assert_eq!(response.status, 101);
        assert_eq!(response.header("sec-websocket-protocol"), Some("x"));
        assert_eq!(
            response.header("sec-websocket-accept"),
            Some("ICX+Yqv66kxgM0FcWaLWlFLwTAI=")
        );
        for (text, connects) in [
            ("HTTP/1.1 404 \r\na: b\r\n\r\n", true),
            ("HTTP/1.1 200 \r\n\r\n", false),
        ] {
            assert_eq!(answer(text, connects), text);
        }
    }
}
