//! A link goes on in another process, wherever the conversation stands, whatever made its
//! records.

use throng_types::{Load as _, Save as _};

use super::records::{only, suites};
use super::*;

/// The link as another process has it, and what was still to be sent by this one.
fn moved(link: &mut TlsLink) -> (TlsLink, Vec<u8>) {
    let mut wire = Vec::new();
    assert!(link.can_move());
    assert!(link.leave_rustls(&mut wire).expect("rustls gives its keys"));
    let bytes = link.saved();
    let moved = TlsLink::load_whole(&bytes).expect("what was saved");
    assert_eq!(moved.saved(), bytes);
    (moved, wire)
}

impl End {
    fn move_on(&mut self) {
        let (link, wire) = moved(&mut self.link);
        self.link = link;
        self.wire.extend(wire);
    }
}

const BOTH: [RecordLayer; 2] = [RecordLayer::Rustls, RecordLayer::Lean];

#[test]
fn a_link_goes_on_where_it_was() {
    for (records, suite) in BOTH.into_iter().flat_map(|r| suites().map(move |s| (r, s))) {
        let (tls, client) = both_with(records);
        let (mut server, mut client) = ends(&tls, &only(&client, suite));
        assert!(!server.link.can_move(), "hands are not shaken");
        carry(&mut server, &mut client, 1000);
        assert!(!client.link.can_move(), "it is a client's");
        let mut expect = Vec::new();
        for round in 0..60_u8 {
            // In the midst of a record of the client's, too.
            client.link.seal(&[round; 30], &mut client.wire).unwrap();
            let said = std::mem::take(&mut client.wire);
            let (before, after) = said.split_at(usize::from(round).min(said.len()));
            server.take(before);
            server.move_on();
            server.take(after);
            server.link.seal(&[round; 30], &mut server.wire).unwrap();
            carry(&mut server, &mut client, 1000);
            expect.extend([round; 30]);
        }
        assert!(
            server.plain == expect && client.plain == expect,
            "{suite:?}"
        );
    }
}

/// Records of the client that rustls has opened, and those it sealed itself, are counted, at each
/// place.
#[test]
fn a_link_leaves_rustls_wherever_its_client_is_cut() {
    let (tls, client) = both_with(RecordLayer::Rustls);
    for suite in suites() {
        let client = only(&client, suite);
        for cut in 0.. {
            let (mut server, mut client) = connected(&tls, &client);
            for text in [&b"first"[..], b"and second"] {
                client.link.seal(text, &mut client.wire).unwrap();
            }
            let said = std::mem::take(&mut client.wire);
            let Some((before, after)) = said.split_at_checked(cut) else {
                break;
            };
            server.take(before);
            server.link.seal(b"before", &mut server.wire).unwrap();
            server.move_on();
            server.take(after);
            server.link.seal(b"behind", &mut server.wire).unwrap();
            assert_eq!(server.plain, b"firstand second", "{suite:?} {cut}");
            client.link.close(&mut client.wire);
            carry(&mut server, &mut client, 1000);
            assert_eq!(client.plain, b"beforebehind", "{suite:?} {cut}");
            assert!(server.is_told && server.fault.is_none());
        }
    }
}

#[test]
fn keys_and_half_a_request_for_new_ones_move() {
    for (records, suite) in BOTH.into_iter().flat_map(|r| suites().map(move |s| (r, s))) {
        if suite.tls13().is_none() {
            continue;
        }
        let (tls, client) = both_with(records);
        let (mut server, mut client) = records::shaken(&tls, &only(&client, suite));
        for round in 0..20_u8 {
            let mut wire = Vec::new();
            let request = [24, 0, 0, 1, 1];
            let (before, after) = request.split_at(1 + usize::from(round % 4));
            client.forge(records::HANDSHAKE, before, &mut wire);
            server.take(&wire);
            // What rustls has seen of a message is still in there.
            let is_with_rustls = records == RecordLayer::Rustls && round == 0;
            assert_eq!(server.link.can_move(), !is_with_rustls);
            if !is_with_rustls {
                server.move_on();
            }
            wire.clear();
            client.forge(records::HANDSHAKE, after, &mut wire);
            client.forge_update();
            client.seal(&[round], &mut wire).unwrap();
            server.take(&wire);
            assert!(server.fault.is_none(), "{:?}", server.fault);
            server.move_on();
            server.link.seal(&[round, 0], &mut server.wire).unwrap();
            assert_eq!(records::hears(&mut client, &mut server), [round, 0]);
        }
    }
}

/// rustls keeps its answer to a request for new keys back until it has something to say.
#[test]
fn new_keys_of_rustls_move_with_its_answer_or_without_one() {
    let (tls, client) = both_with(RecordLayer::Rustls);
    for suite in suites().filter(|suite| suite.tls13().is_some()) {
        for (requests, speaks) in [
            (&[0][..], false),
            (&[1], false),
            (&[1], true),
            (&[1, 0, 1, 1], false),
            (&[0, 1, 0, 1], true),
        ] {
            let (mut server, mut client) = records::shaken(&tls, &only(&client, suite));
            let mut wire = Vec::new();
            for last in requests {
                client.forge(records::HANDSHAKE, &[24, 0, 0, 1, *last], &mut wire);
                client.forge_update();
                server.take(&std::mem::take(&mut wire));
                if speaks {
                    server.link.seal(b"-", &mut server.wire).unwrap();
                }
            }
            server.move_on();
            client.forge(records::HANDSHAKE, &[24, 0, 0, 1, 1], &mut wire);
            client.forge_update();
            client.seal(b"hello", &mut wire).unwrap();
            server.take(&wire);
            assert_eq!(server.plain, b"hello", "{requests:?} {:?}", server.fault);
            server.link.seal(b"back", &mut server.wire).unwrap();
            let before = "-".repeat(if speaks { requests.len() } else { 0 });
            let heard = records::hears(&mut client, &mut server);
            assert_eq!(heard, (before + "back").as_bytes(), "{requests:?}");
        }
    }
}

/// A link that does not move after all goes on as it is, and may be asked to move again.
#[test]
fn a_link_that_left_rustls_needs_not_move() {
    let (tls, client) = both_with(RecordLayer::Rustls);
    for suite in suites() {
        let (mut server, mut client) = ends(&tls, &only(&client, suite));
        let mut wire = Vec::new();
        assert!(!server.link.leave_rustls(&mut wire).unwrap(), "too early");
        carry(&mut server, &mut client, 1000);
        assert!(!client.link.leave_rustls(&mut wire).unwrap(), "a client's");
        for _ in 0..2 {
            assert!(server.link.leave_rustls(&mut wire).unwrap());
            assert!(wire.is_empty() && server.link.lean().is_some());
            server.link.seal(b"on", &mut server.wire).unwrap();
            client.link.seal(b"and on", &mut client.wire).unwrap();
            carry(&mut server, &mut client, 3);
        }
        assert_eq!(server.plain, b"and onand on", "{suite:?}");
        assert_eq!(client.plain, b"onon", "{suite:?}");
    }
}

#[test]
fn damaged_links_are_refused_or_harmless() {
    let (server, client) = both_with(RecordLayer::Lean);
    for client in [&client, &only_tls12(&client)] {
        let (mut server, mut client) = connected(&server, client);
        client.link.seal(b"text", &mut client.wire).unwrap();
        server.take(&client.wire[..7]);
        let bytes = server.link.saved();
        for cut in 0..bytes.len() {
            assert!(TlsLink::load_whole(&bytes[..cut]).is_none(), "{cut}");
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 2, 5, 31, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let Some(link) = TlsLink::load_whole(&bytes) else {
                    continue;
                };
                let mut end = End::new(link);
                let _ = end.link.seal(b"text", &mut end.wire);
                end.take(&client.wire[7..]);
            }
        }
    }
}
