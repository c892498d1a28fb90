use proptest::prelude::*;

use super::*;
use crate::{Limits, ResponseBody, parse_request, parse_response};

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
        "POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nX: 1\r\nContent-Length: 2\r\n\r\nhi",
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

#[test]
fn every_status_that_faults_use_has_a_phrase() {
    for status in [400, 413, 414, 431, 501, 505] {
        assert_ne!(reason_phrase(status), "Unknown");
    }
    assert_eq!(reason_phrase(799), "Unknown");
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
        let (response, length) = parse_response(&wire, &Limits::default(), false).unwrap().unwrap();
        prop_assert_eq!(response.body, ResponseBody::Length(body.len() as u64));
        prop_assert_eq!(response.headers().count(), headers.len() + 1 + usize::from(!keep_alive));
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
        match parse_request(&wire, &Limits::default()) {
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
