//! First bytes of clients that speak another protocol than the port, and the answers.

use super::*;

const PROTOCOL_VERSION: u8 = 70;
const RECORD_OVERFLOW: u8 = 22;
const HANDSHAKE_FAILURE: u8 = 40;

/// A hello of this version without extensions, as clients from before TLS 1.2 send it.
fn hello(minor: u8) -> Vec<u8> {
    let suites = [0xc0, 0x13, 0, 0x2f];
    let body = [
        &[3, minor][..],
        &[7; 32],
        &[0, 0, suites.len() as u8],
        &suites,
        &[1, 0],
    ];
    let body = body.concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 1, 0, message.len() as u8][..], &message].concat()
}

/// Cuts the hello into records of so many bytes.
pub(super) fn in_records(hello: &[u8], bytes: usize) -> Vec<u8> {
    let pieces = hello[5..].chunks(bytes);
    let records = pieces.map(|piece| [&[22, 3, 1, 0, piece.len() as u8][..], piece].concat());
    records.collect::<Vec<_>>().concat()
}

/// Returns the server's output and the reason for its end, which must not depend on how the network
/// cuts the bytes.
#[track_caller]
fn told(server: &ServerTls, bytes: &[u8]) -> (Vec<u8>, String) {
    let mut all = [1, 2, 7, 1000].map(|most| {
        let mut end = End::new(TlsLink::server(server).unwrap());
        bytes.chunks(most).for_each(|piece| end.take(piece));
        let fault = end.fault.take().expect("an end");
        // It takes and gives nothing any more.
        let told = end.wire.len();
        end.take(bytes);
        assert!(end.fault.is_none() && end.wire.len() == told);
        (end.wire, fault.to_string())
    });
    let first = all[0].clone();
    assert!(all.iter_mut().all(|other| *other == first), "{all:?}");
    first
}

fn servers() -> impl Iterator<Item = ServerTls> {
    [RecordLayer::Rustls, RecordLayer::Lean]
        .into_iter()
        .map(|records| both_with(records).0)
}

#[test]
fn plain_http_is_told_to_use_tls() {
    for server in servers() {
        for request in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "OPTIONS * HTTP/1.0\r\n",
        ] {
            let (answer, why) = told(&server, request.as_bytes());
            let answer = String::from_utf8(answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
            let length = format!("\r\nContent-Length: {}\r\n", body.len());
            assert!(head.contains(&length), "{head}");
            assert_eq!(body, "This port speaks TLS: use https:// or wss://.\n");
            assert_eq!(why, "received plain HTTP on a TLS port");
        }
        let behind = server.behind(|bytes| Ok((bytes.len() >= 2).then_some(2)));
        let (answer, _) = told(&behind, b"<>GET / HTTP/1.1\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 400 "));
    }
}

/// RFC 5246 appendix E.1, RFC 8446 appendix D.
#[test]
fn hellos_from_before_tls_1_2_are_told_of_the_version() {
    for server in servers() {
        for minor in [0, 1, 2, 3] {
            let (what, why) = match minor {
                3 => (HANDSHAKE_FAILURE, "SignatureAlgorithmsExtensionRequired"),
                _ => (PROTOCOL_VERSION, "Tls12NotOffered"),
            };
            let hello = hello(minor);
            let cut = [1, 3, 1000].map(|bytes| in_records(&hello, bytes));
            for hello in cut {
                let (alert, fault) = told(&server, &hello);
                assert_eq!(alert, [21, 3, 3, 0, 2, 2, what], "{minor}");
                assert!(fault.contains(why), "{fault}");
            }
        }
    }
}

/// RFC 8446 section 5.1.
#[test]
fn a_record_that_is_too_long_is_told_so() {
    for server in servers() {
        let mut hello = hello(3);
        hello[3..5].copy_from_slice(&0x4801_u16.to_be_bytes());
        let (alert, fault) = told(&server, &hello);
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, RECORD_OVERFLOW]);
        assert!(fault.contains("MessageTooLarge"), "{fault}");
    }
}

#[test]
fn http_1_0_is_a_protocol_of_the_port() {
    let (server, client) = both();
    for (offers, chosen) in [
        (&["http/1.0"][..], Some("http/1.0")),
        (&["http/1.0", "http/1.1"], Some("http/1.1")),
        (&["h2", "http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let mut config = ClientConfig::clone(&client.config);
        config.alpn_protocols = offers.iter().map(|name| name.as_bytes().to_vec()).collect();
        let (one, other) = connected(&server, &client.with_config(config));
        assert!(one.link.shaken().is_some(), "{offers:?}: {:?}", one.fault);
        let common = other.link.common().unwrap();
        assert_eq!(
            common.alpn_protocol(),
            chosen.map(str::as_bytes),
            "{offers:?}"
        );
    }
}
