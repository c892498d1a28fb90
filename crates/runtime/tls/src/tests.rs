//! Links with each other, whatever the network does to the bytes between them.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::TLS12;
use rustls::{ClientConfig, SupportedProtocolVersion};
use throng_testkit::{Authority, Issued};

use super::*;

mod moving;
mod opening;
mod records;

fn certificates(issued: &[(&str, &Issued)]) -> Certificates {
    let sites: Vec<Site> = issued
        .iter()
        .map(|(name, issued)| site(name, issued))
        .collect();
    Certificates::new(&sites)
}

fn site(name: &str, issued: &Issued) -> Site {
    let certificate = Site::read_certificate(name, issued.certificate.as_bytes()).unwrap();
    certificate.with_key(issued.key.as_bytes()).unwrap()
}

/// A server for `localhost`, and a client that believes it.
fn both() -> (ServerTls, ClientTls) {
    both_with(RecordLayer::Rustls)
}

fn both_with(records: RecordLayer) -> (ServerTls, ClientTls) {
    let authority = Authority::new("ours");
    let issued = authority.issue(&["localhost"]);
    let shown = certificates(&[("", &issued)]);
    let server = ServerTls::new(&shown, MinVersion::Tls12, records, None).unwrap();
    let trust = Trust::Of(Authorities::read(authority.pem().as_bytes()).unwrap());
    (server, ClientTls::new("localhost", &trust, true).unwrap())
}

fn only_tls12(client: &ClientTls) -> ClientTls {
    with_provider(client, aws_lc_rs::default_provider(), &TLS12)
}

/// The client with other suites and one version, that believes anybody.
fn with_provider(
    client: &ClientTls,
    provider: CryptoProvider,
    version: &'static SupportedProtocolVersion,
) -> ClientTls {
    let provider = Arc::new(provider);
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(client::Anybody(provider)))
        .with_no_client_auth();
    client.with_config(config)
}

/// One end: what it has read, what it has to send, and why it ended.
struct End {
    link: TlsLink,
    plain: Vec<u8>,
    wire: Vec<u8>,
    is_told: bool,
    fault: Option<TlsFault>,
}

impl End {
    fn new(link: TlsLink) -> Self {
        Self {
            link,
            plain: Vec::new(),
            wire: Vec::new(),
            is_told: false,
            fault: None,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        match self
            .link
            .receive(&mut bytes, &mut self.plain, &mut self.wire)
        {
            Ok(is_told) => self.is_told |= is_told,
            Err(fault) => self.fault = Some(fault),
        }
    }
}

fn ends(server: &ServerTls, client: &ClientTls) -> (End, End) {
    let mut client = End::new(TlsLink::client(client).unwrap());
    client.link.start(&mut client.wire).unwrap();
    (End::new(TlsLink::server(server).unwrap()), client)
}

/// Both ends after the handshake, or after it has failed.
fn connected(server: &ServerTls, client: &ClientTls) -> (End, End) {
    let (mut server, mut client) = ends(server, client);
    carry(&mut server, &mut client, 1000);
    (server, client)
}

/// Carries bytes to and fro, `most` at a time, until there are none.
fn carry(one: &mut End, other: &mut End, most: usize) {
    while !(one.wire.is_empty() && other.wire.is_empty()) {
        let (to_other, to_one) = (
            std::mem::take(&mut one.wire),
            std::mem::take(&mut other.wire),
        );
        to_other.chunks(most).for_each(|piece| other.take(piece));
        to_one.chunks(most).for_each(|piece| one.take(piece));
    }
}

#[test]
fn what_is_sealed_arrives_wherever_the_network_cuts() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        let client12 = only_tls12(&client);
        let long: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
        for (client, is_tls13) in [(&client, true), (&client12, false)] {
            for most in [1, 2, 3, 5, 7, 16, 100, 1000, 1_000_000] {
                let (mut server, mut client) = ends(&server, client);
                carry(&mut server, &mut client, most);
                for end in [&server, &client] {
                    assert!(end.fault.is_none(), "{:?}", end.fault);
                    assert_eq!(end.link.shaken().unwrap().is_tls13, is_tls13, "{most}");
                }
                for text in [&b"a request"[..], &long, b"", b"the end"] {
                    client.link.seal(text, &mut client.wire).unwrap();
                    server.link.seal(text, &mut server.wire).unwrap();
                }
                let expect = [&b"a request"[..], &long, b"the end"].concat();
                carry(&mut server, &mut client, most);
                assert!(server.plain == expect && client.plain == expect, "{most}");
                client.link.close(&mut client.wire);
                carry(&mut server, &mut client, most);
                assert!(server.is_told && !client.is_told);
                // It may still answer.
                server.link.seal(b"goodbye", &mut server.wire).unwrap();
                client.plain.clear();
                carry(&mut server, &mut client, most);
                assert_eq!(client.plain, b"goodbye");
                client.link.close(&mut client.wire);
                assert!(client.wire.is_empty());
                assert!(server.link.partial_bytes() == 0 && client.link.partial_bytes() == 0);
            }
        }
    }
}

#[test]
fn every_cut_of_a_handshake_is_the_same() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        let (mut one, mut other) = ends(&server, &client);
        let hello = other.wire.clone();
        for cut in 0..=hello.len() {
            let mut server = End::new(TlsLink::server(&server).unwrap());
            server.take(&hello[..cut]);
            assert_eq!(server.wire.is_empty(), cut < hello.len(), "{cut}");
            server.take(&hello[cut..]);
            assert!(server.fault.is_none() && !server.wire.is_empty(), "{cut}");
        }
        carry(&mut one, &mut other, 1_000_000);
        one.link.seal(b"0123456789", &mut one.wire).unwrap();
        let sealed = std::mem::take(&mut one.wire);
        other.take(&sealed[..sealed.len() - 1]);
        assert!(other.plain.is_empty());
        other.take(&sealed[sealed.len() - 1..]);
        assert_eq!(other.plain, b"0123456789");
    }
}

#[test]
fn a_hello_in_small_records_is_taken_wherever_the_network_cuts() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        for (piece_bytes, most) in [1, 7, 100]
            .into_iter()
            .flat_map(|p| [(p, 1), (p, 9), (p, 300)])
        {
            let (mut one, mut other) = ends(&server, &client);
            let wire = opening::in_records(&std::mem::take(&mut other.wire), piece_bytes);
            wire.chunks(most).for_each(|bytes| one.take(bytes));
            carry(&mut one, &mut other, most);
            for end in [&one, &other] {
                assert!(end.link.shaken().is_some(), "{:?}", end.fault);
            }
        }
    }
}

#[test]
fn a_client_that_comes_back_brings_its_ticket() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        for client in [&client, &only_tls12(&client)] {
            for is_resumed in [false, true, true] {
                let (one, _) = connected(&server, client);
                assert_eq!(one.link.shaken().unwrap().is_resumed, is_resumed);
            }
        }
        let patient = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
        for _ in 0..2 {
            let (one, _) = connected(&server, &patient);
            assert!(!one.link.shaken().unwrap().is_resumed);
        }
    }
}

/// Bytes that break the protocol end the connection with a reason, and mostly with an alert;
/// nothing is kept.
#[test]
fn garbage_is_refused() {
    let (server, client) = both();
    let (_, hello) = ends(&server, &client);
    let mut other_version = hello.wire.clone();
    other_version[1] = 9;
    let mut too_long = hello.wire.clone();
    too_long[3..5].copy_from_slice(&[0xff, 0xff]);
    for (bytes, why) in [
        (
            &b"get / HTTP/1.1\r\n\r\n"[..],
            "the bytes received are not TLS",
        ),
        (b"\x15\x03\x01\x00\x02\x02\x00", "received fatal alert"),
        (b"\x17\x03\x03\x00\x05hello", "received unexpected"),
        (b"\x16\x03\x01\x00\x00", "received corrupt message"),
        (&too_long, "received corrupt message"),
        (&other_version, "received corrupt message"),
    ] {
        for most in [1, 1000] {
            let mut server = End::new(TlsLink::server(&server).unwrap());
            for piece in bytes.chunks(most) {
                server.take(piece);
            }
            let fault = server
                .fault
                .map(|fault| fault.to_string())
                .unwrap_or_default();
            assert!(fault.contains(why), "{why}: {fault}");
            assert_eq!(server.link.partial_bytes(), 0);
            // It takes and gives nothing any more.
            server.wire.clear();
            server.fault = None;
            server.take(&hello.wire);
            assert!(server.fault.is_none() && server.wire.is_empty());
        }
    }
}

/// A handshake message that says that it is long, in as many records as one likes.
#[test]
fn what_waits_for_its_end_is_bounded() {
    let (server, _) = both();
    let mut server = End::new(TlsLink::server(&server).unwrap());
    let head = b"\x16\x03\x01\x00\x04\x01\x00\xff\xff";
    server.take(head);
    for _ in 0..40_000 {
        if server.fault.is_some() {
            break;
        }
        server.take(b"\x16\x03\x01\x00\x01x");
        assert!(server.link.partial_bytes() <= 72 << 10);
    }
    assert!(
        matches!(server.fault, Some(TlsFault::TooLong | TlsFault::Refused(_))),
        "{:?}",
        server.fault
    );
}

#[test]
fn a_flipped_bit_is_no_message() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        let (mut one, mut other) = connected(&server, &client);
        other.link.seal(b"0123456789", &mut other.wire).unwrap();
        let place = other.wire.len() - 3;
        other.wire[place] ^= 1;
        carry(&mut one, &mut other, 1000);
        assert!(one.plain.is_empty() && matches!(one.fault, Some(TlsFault::Refused(_))));
        // The client gets the reason.
        assert!(
            other
                .fault
                .is_some_and(|fault| fault.to_string().contains("BadRecordMac"))
        );
    }
}

#[test]
fn each_name_gets_its_certificate() {
    let authority = Authority::new("ours");
    let issued = |name| authority.issue(&[name]);
    let (other, push, all) = (
        issued("other.example"),
        issued("push.example"),
        issued("*.all.example"),
    );
    let certificates = certificates(&[
        ("", &other),
        ("push.example", &push),
        ("*.all.example", &all),
    ]);
    let server =
        ServerTls::new(&certificates, MinVersion::Tls12, RecordLayer::Rustls, None).unwrap();
    let trust = Trust::Of(Authorities::read(authority.pem().as_bytes()).unwrap());
    let shakes = |name: &str| {
        let (one, other) = connected(&server, &ClientTls::new(name, &trust, false).unwrap());
        other.link.shaken().is_some() && one.link.shaken().is_some()
    };
    for (name, good) in [
        ("other.example", true),
        ("push.example", true),
        ("PUSH.example", true),
        ("one.all.example", true),
        ("one.two.all.example", false),
        ("all.example", false),
        ("127.0.0.1", false),
    ] {
        assert_eq!(shakes(name), good, "{name}");
    }
    // Certificates can be replaced; later connections see the new ones.
    certificates.replace(&[site("", &issued("new.example"))]);
    assert!(shakes("new.example") && !shakes("push.example"));
}

#[test]
fn a_stranger_with_a_known_name_is_a_stranger() {
    let ours = Authority::new("ours");
    let shown = certificates(&[("", &ours.issue(&["localhost"]))]);
    let server = ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Rustls, None).unwrap();
    for other in [
        Authority::new("theirs"),
        Authority::new("ours"),
        Authority::even("ours"),
    ] {
        let trust = Trust::Of(Authorities::read(other.pem().as_bytes()).unwrap());
        let client = ClientTls::new("localhost", &trust, true).unwrap();
        let fault = connected(&server, &client).1.fault.expect("a fault");
        let expected = "the peer's certificate is from an authority that is not trusted here";
        assert_eq!(fault.to_string(), expected);
    }
}

#[test]
fn a_port_may_ask_for_certificates_and_its_tickets_are_its_own() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let shown = certificates(&[("", &ours.issue(&["localhost"]))]);
    let asked = Authorities::read(theirs.pem().as_bytes()).unwrap();
    let open = ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Rustls, None).unwrap();
    let closed =
        ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Rustls, Some(&asked)).unwrap();
    let trust = Trust::Of(Authorities::read(ours.pem().as_bytes()).unwrap());
    let nobody = ClientTls::new("localhost", &trust, true).unwrap();
    for nobody in [&nobody, &only_tls12(&nobody)] {
        // It takes a ticket from the open port to the other.
        let (one, _) = connected(&open, nobody);
        assert!(one.link.shaken().is_some());
        let (one, _) = connected(&closed, nobody);
        let fault = one.fault.map(|fault| fault.to_string());
        assert!(fault.is_some_and(|fault| fault.contains("sent no certificate")));
        assert!(one.link.shaken().is_none());
    }
}

#[test]
fn an_older_version_can_be_refused() {
    let authority = Authority::new("ours");
    let shown = certificates(&[("", &authority.issue(&["localhost"]))]);
    let server = ServerTls::new(&shown, MinVersion::Tls13, RecordLayer::Rustls, None).unwrap();
    let client = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
    for (client, good) in [(&client, true), (&only_tls12(&client), false)] {
        let (one, other) = connected(&server, client);
        assert_eq!(
            one.link.shaken().is_some() && other.link.shaken().is_some(),
            good
        );
    }
}

#[test]
fn certificates_are_looked_at() {
    let authority = Authority::new("ours");
    let good = authority.issue(&["push.example"]);
    let now_s = 1_900_000_000;
    let findings = |name: &str, pem: &str, key: &str| {
        let certificate =
            Site::read_certificate(name, pem.as_bytes()).map_err(|e| e.to_string())?;
        let site = certificate
            .with_key(key.as_bytes())
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(site.findings(now_s))
    };
    let stranger = Authority::new("theirs");
    let behind = |authority: &Authority| format!("{}{}", good.certificate, authority.pem());
    let other = Finding::OtherName("chat.example".to_owned());
    for (name, pem, found) in [
        ("push.example", &good.certificate, vec![]),
        ("", &behind(&authority), vec![]),
        ("chat.example", &good.certificate, vec![other]),
        ("", &behind(&stranger), vec![Finding::Order(1)]),
    ] {
        assert_eq!(findings(name, pem, &good.key), Ok(found), "{name}");
    }
    // As docs/OPERATING.md says: within 14 days.
    let site = Site::read_certificate("", good.certificate.as_bytes()).unwrap();
    let site = site.with_key(good.key.as_bytes()).unwrap();
    let ends_s = site.validity().not_after;
    for (left_s, found) in [
        (14 * 86_400, vec![]),
        (14 * 86_400 - 1, vec![Finding::Soon(13)]),
        (0, vec![Finding::Soon(0)]),
    ] {
        assert_eq!(site.findings(ends_s - left_s), found, "{left_s}");
    }
    let late = authority.issue_until(&["push.example"], 2030);
    assert!(matches!(
        findings("", &late.certificate, &late.key).unwrap()[..],
        [Finding::Expired(76)]
    ));
    let (certificate, key) = (good.certificate.as_str(), good.key.as_str());
    let turned = format!("{}{certificate}", authority.pem());
    for (pem, key, why) in [
        ("", key, "no certificate in it"),
        (key, key, "no certificate in it"),
        (certificate, "", "no private key in it"),
        (certificate, &late.key, "does not belong"),
        (&turned, key, "belongs to a later certificate"),
    ] {
        let error = findings("", pem, key).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// A preface of one test: `<…>`, of 16 bytes at most.
fn angles(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    match bytes.iter().position(|byte| *byte == b'>') {
        _ if bytes.first().is_some_and(|first| *first != b'<') => Err("no angle"),
        Some(at) if at < 16 => Ok(Some(at + 1)),
        None if bytes.len() < 16 => Ok(None),
        _ => Err("too long"),
    }
}

#[test]
fn what_stands_before_tls_is_said_first_wherever_the_network_cuts() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        let server = server.behind(angles);
        for client in [client.clone(), only_tls12(&client)] {
            for most in [1, 2, 5, 6, 7, 100, usize::MAX] {
                let (mut here, mut there) = ends(&server, &client);
                there.wire.splice(..0, *b"<head>");
                let mut is_early = false;
                while !(here.wire.is_empty() && there.wire.is_empty()) {
                    let to_here = std::mem::take(&mut there.wire);
                    for piece in to_here.chunks(most) {
                        here.take(piece);
                        is_early |= here.link.shaken().is_none() && !here.plain.is_empty();
                    }
                    let to_there = std::mem::take(&mut here.wire);
                    to_there.chunks(most).for_each(|piece| there.take(piece));
                }
                assert!(!is_early, "said before hands were shaken");
                assert!(here.fault.is_none(), "{:?}", here.fault);
                assert_eq!(here.plain, b"<head>", "{most}");
                there.link.seal(b"hello", &mut there.wire).unwrap();
                here.link.seal(b"welcome", &mut here.wire).unwrap();
                carry(&mut here, &mut there, most);
                assert_eq!(here.plain, b"<head>hello", "{most}");
                assert_eq!(there.plain, b"welcome", "{most}");
            }
        }
    }
}

/// A client whose last word of the handshake and first data come in one piece.
#[test]
fn the_preface_goes_before_data_that_came_with_the_handshake() {
    let (server, client) = both();
    let (mut here, mut there) = ends(&server.behind(angles), &client);
    there.wire.splice(..0, *b"<>");
    here.take(&std::mem::take(&mut there.wire));
    there.take(&std::mem::take(&mut here.wire));
    there.link.seal(b"at once", &mut there.wire).unwrap();
    here.take(&std::mem::take(&mut there.wire));
    assert_eq!(here.plain, b"<>at once");
}

#[test]
fn a_wrong_preface_ends_the_connection() {
    let (server, client) = both();
    let server = server.behind(angles);
    let hello = ends(&server, &client).1.wire;
    for (begins, expected) in [
        (hello.as_slice(), "no angle"),
        (b"x<head>", "no angle"),
        (b"<0123456789abcdef>", "too long"),
    ] {
        for most in [1, usize::MAX] {
            let (mut here, _) = ends(&server, &client);
            begins.chunks(most).for_each(|piece| here.take(piece));
            hello.chunks(most).for_each(|piece| here.take(piece));
            let fault = here.fault.expect("a fault").to_string();
            assert_eq!(fault, expected);
            // Nothing is said, and nothing is taken any more.
            assert!(here.wire.is_empty() && here.plain.is_empty());
            assert_eq!(here.link.partial_bytes(), 0);
        }
    }
    // A port without a preface takes none.
    let (mut here, mut there) = ends(&both().0, &client);
    there.wire.splice(..0, *b"<head>");
    carry(&mut here, &mut there, usize::MAX);
    assert!(here.fault.is_some());
}
