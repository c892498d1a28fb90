//! Our record layer of TLS: a client with keys, and an attacker between who adds any bytes.
//!
//! Input: the steps, a byte each; then, behind the first NUL, the bytes that are sent and added.

use std::sync::LazyLock;

use throng_testkit::Authority;
use throng_tls::{
    Certificates, ClientTls, MinVersion, RecordLayer, ServerTls, Site, TlsLink, Trust,
};

use crate::pieces::parts;

/// Server with a certificate, and a client that accepts any certificate.
static BOTH: LazyLock<(ServerTls, ClientTls)> = LazyLock::new(|| {
    let issued = Authority::new("ours").issue(&["localhost"]);
    let site = Site::read_certificate("", issued.certificate.as_bytes()).expect("a certificate");
    let site = site.with_key(issued.key.as_bytes()).expect("its key");
    let shown = Certificates::new(&[site]);
    let server = ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Lean, None);
    let client = ClientTls::new("localhost", &Trust::Anybody, false);
    (server.expect("good"), client.expect("good"))
});

fn shaken() -> (TlsLink, TlsLink) {
    let mut server = TlsLink::server(&BOTH.0).expect("there is randomness");
    let mut client = TlsLink::client(&BOTH.1).expect("there is randomness");
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.start(&mut to_server).expect("nothing was heard");
    while !(to_server.is_empty() && to_client.is_empty()) {
        let mut plain = Vec::new();
        server
            .receive(&mut to_server, &mut plain, &mut to_client)
            .expect("a good hello");
        to_server.clear();
        client
            .receive(&mut to_client, &mut plain, &mut to_server)
            .expect("a good server");
        to_client.clear();
    }
    (server, client)
}

/// Checks that the server reads what the client sends, in order, and nothing from an attacker; and
/// that a refused connection is not read again.
pub(crate) fn tls_records(input: &[u8]) {
    let [steps, mut text] = parts::<2>(input);
    // Before hands are shaken, anything may come.
    let mut stranger = TlsLink::server(&BOTH.0).expect("there is randomness");
    let mut nothing = Vec::new();
    let first = stranger.receive(&mut text.to_vec(), &mut nothing, &mut Vec::new());
    let refused = first.is_err();
    let again = stranger.receive(&mut text.to_vec(), &mut nothing, &mut Vec::new());
    assert!(nothing.is_empty() && !(refused && again.is_err()));

    let (mut server, mut client) = shaken();
    let (mut said, mut heard, mut answers, mut read) = (vec![], vec![], vec![], vec![]);
    let (mut was_cut, mut has_failed, mut has_closed) = (false, false, false);
    for step in steps.iter().take(64) {
        let piece;
        (piece, text) = text.split_at(usize::from(step / 4).min(text.len()));
        let mut wire = Vec::new();
        match step % 4 {
            0 => {
                client.seal(piece, &mut wire).expect("keys are fresh");
                if !was_cut && !has_closed {
                    said.extend_from_slice(piece);
                }
            }
            1 => {
                let mut answer = Vec::new();
                server.seal(piece, &mut answer).expect("keys are fresh");
                if !has_failed {
                    answers.extend_from_slice(piece);
                    client
                        .receive(&mut answer, &mut read, &mut Vec::new())
                        .expect("nobody touched it");
                }
                continue;
            }
            2 => {
                client.close(&mut wire);
                has_closed = true;
            }
            _ => {
                was_cut |= !piece.is_empty();
                wire.extend_from_slice(piece);
            }
        }
        let before = heard.len();
        let cut = wire.len() / 2;
        let (head, tail) = wire.split_at_mut(cut);
        for part in [head, tail] {
            let result = server.receive(part, &mut heard, &mut Vec::new());
            assert!(!has_failed || heard.len() == before, "it was refused");
            has_failed |= result.is_err();
        }
    }
    assert!(said.starts_with(&heard), "the client did not say that");
    assert!(was_cut || heard == said, "not all was heard");
    assert_eq!(read, answers);
}
