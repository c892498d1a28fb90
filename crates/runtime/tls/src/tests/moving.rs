//! A link goes on in another process, wherever the conversation stands.

use throng_types::Save as _;

use super::records::{only, suites};
use super::*;

/// The link as another process has it.
fn moved(link: &Link) -> Link {
    assert!(link.can_move());
    let bytes = link.saved();
    let moved = Link::load_whole(&bytes).expect("what was saved");
    assert_eq!(moved.saved(), bytes);
    moved
}

#[test]
fn a_link_goes_on_where_it_was() {
    let (tls, client) = both_with(Records::Lean);
    for suite in suites() {
        let (mut server, mut client) = ends(&tls, &only(&client, suite));
        assert!(!server.link.can_move(), "hands are not shaken");
        carry(&mut server, &mut client, 1000);
        assert!(!client.link.can_move(), "it is rustls'");
        let mut expect = Vec::new();
        for round in 0..60_u8 {
            // In the midst of a record of the client's, too.
            client.link.seal(&[round; 30], &mut client.wire).unwrap();
            let said = std::mem::take(&mut client.wire);
            let (before, after) = said.split_at(usize::from(round).min(said.len()));
            server.take(before);
            server.link = moved(&server.link);
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

#[test]
fn keys_and_half_a_request_for_new_ones_move() {
    let (tls, client) = both_with(Records::Lean);
    for suite in suites().filter(|suite| suite.tls13().is_some()) {
        let (mut server, mut client) = records::shaken(&tls, &only(&client, suite));
        for round in 0..20_u8 {
            let mut wire = Vec::new();
            let request = [24, 0, 0, 1, 1];
            let (before, after) = request.split_at(1 + usize::from(round % 4));
            client.forge(records::HANDSHAKE, before, &mut wire);
            server.take(&wire);
            server.link = moved(&server.link);
            wire.clear();
            client.forge(records::HANDSHAKE, after, &mut wire);
            client.forge_update();
            client.seal(&[round], &mut wire).unwrap();
            server.take(&wire);
            assert!(server.fault.is_none(), "{:?}", server.fault);
            server.link = moved(&server.link);
            server.link.seal(&[round, 0], &mut server.wire).unwrap();
            let mut heard = Vec::new();
            let mut answer = std::mem::take(&mut server.wire);
            let (_, result) = client.receive(&mut answer, &mut heard, &mut Vec::new());
            assert!(result.is_ok() && heard == [round, 0], "{round}");
        }
    }
}

#[test]
fn damaged_links_are_refused_or_harmless() {
    let (server, client) = both_with(Records::Lean);
    for client in [&client, &only_tls12(&client)] {
        let (mut server, mut client) = ends(&server, client);
        carry(&mut server, &mut client, 1000);
        client.link.seal(b"text", &mut client.wire).unwrap();
        server.take(&client.wire[..7]);
        let bytes = server.link.saved();
        for cut in 0..bytes.len() {
            assert!(Link::load_whole(&bytes[..cut]).is_none(), "{cut}");
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 2, 5, 31, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let Some(link) = Link::load_whole(&bytes) else {
                    continue;
                };
                let mut end = End::new(link);
                let _ = end.link.seal(b"text", &mut end.wire);
                end.take(&client.wire[7..]);
            }
        }
    }
}
