use proptest::prelude::*;

use super::*;

/// What HAProxy sends with `send-proxy` and `send-proxy-v2`, and what its document shows.
const V4: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x01\xdd\xd5\x1f\x40";
const V6: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\xdd\xd5\x1f\x40";
/// A health check of the proxy's own.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
/// With a type-length-value behind the addresses (PP2_TYPE_NOOP).
const WITH_TLV: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10\
    \xc0\x00\x02\x07\x0a\x00\x00\x01\xdd\xd5\x1f\x40\x04\x00\x01\x00";

fn good() -> Vec<(Vec<u8>, Option<&'static str>)> {
    let unix = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\xd8"[..], &[0x2f; 216]].concat();
    vec![
        (
            b"PROXY TCP4 192.0.2.7 10.0.0.1 56789 8000\r\n".to_vec(),
            Some("192.0.2.7:56789"),
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 56789 8000\r\n".to_vec(),
            Some("[2001:db8::7]:56789"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 whatever 1 2 3\r\n".to_vec(), None),
        (V4.to_vec(), Some("192.0.2.7:56789")),
        (V6.to_vec(), Some("[2001:db8::7]:56789")),
        (LOCAL.to_vec(), None),
        (WITH_TLV.to_vec(), Some("192.0.2.7:56789")),
        (unix, None),
    ]
}

#[test]
fn headers_tell_the_client_however_they_are_cut() {
    for (header, client) in good() {
        let client = client.map(|text| text.parse().unwrap());
        let length = header.len();
        for rest in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\0", b"PROXY "] {
            let wire = [&header[..], rest].concat();
            for cut in 0..=wire.len() {
                let expected = (cut >= length).then_some(Announced { client, length });
                assert_eq!(parse(&wire[..cut]), Ok(expected), "{wire:?} to {cut}");
            }
        }
    }
}

#[test]
fn what_is_no_header_is_refused_at_once_or_at_its_end() {
    let long = [b"PROXY UNKNOWN ", &[b'x'; 200][..], b"\r\n"].concat();
    let v2 = |rest: &[u8]| [BINARY_START, rest].concat();
    for (wire, fault) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), BadHeader::NoHeader),
        (b"PROXI".to_vec(), BadHeader::NoHeader),
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), BadHeader::NoHeader),
        (
            b"proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
            BadHeader::NoHeader,
        ),
        (long, BadHeader::TooLong),
        (
            b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (b"PROXY \r\n".to_vec(), BadHeader::Text),
        (b"PROXY TCP4\r\n".to_vec(), BadHeader::Text),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4  1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4 1.2.3.04 1.2.3.4 1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (b"PROXY TCP4 ::1 ::1 1 1\r\n".to_vec(), BadHeader::Text),
        (
            b"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (
            b"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n".to_vec(),
            BadHeader::Text,
        ),
        (b"PROXY TCP4 \xff 1.2.3.4 1 1\r\n".to_vec(), BadHeader::Text),
        (v2(b"\x11"), BadHeader::Version),
        (v2(b"\x31"), BadHeader::Version),
        (v2(b"\x22"), BadHeader::Binary),
        (v2(b"\x21\x11\x00\x0b"), BadHeader::Binary),
        (v2(b"\x21\x21\x00\x23"), BadHeader::Binary),
        (v2(b"\x21\x31\x00\xd7"), BadHeader::Binary),
        (v2(b"\x21\x41\x00\x0c"), BadHeader::Binary),
        (v2(b"\x21\x13\x00\x0c"), BadHeader::Binary),
        // Refused on declaration, before its bytes come.
        (v2(b"\x21\x11\xff\xff"), BadHeader::TooLong),
    ] {
        assert_eq!(parse(&wire), Err(fault), "{}", wire.escape_ascii());
        for cut in 0..wire.len() {
            let answer = parse(&wire[..cut]);
            assert!(
                answer == Ok(None) || answer == Err(fault),
                "{} to {cut}: {answer:?}",
                wire.escape_ascii()
            );
        }
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_no_cut_matters(
        start in prop_oneof![Just(TEXT_START), Just(BINARY_START), Just(V4), Just(&b""[..])],
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let wire = [start, &rest].concat();
        let whole = parse(&wire);
        for cut in 0..wire.len() {
            match parse(&wire[..cut]) {
                Ok(None) => {}
                early => prop_assert_eq!(early, whole),
            }
        }
        if let Ok(Some(announced)) = whole {
            prop_assert!(announced.length <= wire.len().min(HEADER_BYTES_MAX));
        }
    }
}
