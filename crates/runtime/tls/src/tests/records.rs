//! Our record layer beside rustls': whatever a client that has keys says, both take and refuse the
//! same.

use std::sync::{Arc, Mutex};

use rustls::{ClientConfig, KeyLog, SupportedCipherSuite};

use super::*;
use crate::lean::{Lean, Secret};

const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

#[derive(Clone, Debug)]
enum Act {
    /// Seals this, as a record of this kind.
    Say(u8, Vec<u8>),
    /// Asks for new keys with this last byte, and has them.
    Update(u8),
    /// Sends this as it is.
    Raw(Vec<u8>),
}

fn say(kind: u8, text: &[u8]) -> Act {
    Act::Say(kind, text.to_vec())
}

pub(super) fn only(client: &ClientTls, suite: SupportedCipherSuite) -> ClientTls {
    let provider = CryptoProvider {
        cipher_suites: vec![suite],
        ..aws_lc_rs::default_provider()
    };
    with_provider(client, provider, suite.version())
}

/// Those that an ECDSA certificate serves: three of each version.
pub(super) fn suites() -> impl Iterator<Item = SupportedCipherSuite> {
    aws_lc_rs::ALL_CIPHER_SUITES
        .iter()
        .filter(|suite| !format!("{:?}", suite.suite()).contains("RSA"))
        .copied()
}

/// The traffic secrets of a client's handshake.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<Vec<u8>>>);

impl Told {
    fn secrets(&self) -> Vec<Secret> {
        let told = self.0.lock().unwrap();
        told.iter().map(|secret| Secret::new(secret)).collect()
    }
}

impl KeyLog for Told {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label.ends_with("_TRAFFIC_SECRET_0") {
            self.0.lock().unwrap().push(secret.to_vec());
        }
    }
}

/// Both ends before the handshake; the client's keys can be taken out of it.
fn capturing(server: &ServerTls, client: &ClientTls, told: &Arc<Told>) -> (End, End) {
    let mut config = ClientConfig::clone(&client.config);
    config.enable_secret_extraction = true;
    config.key_log = told.clone();
    ends(server, &client.with_config(config))
}

/// A server and a client that has its keys, after the handshake.
pub(super) fn shaken(server: &ServerTls, client: &ClientTls) -> (End, Lean) {
    let told = Arc::new(Told::default());
    let (mut server, mut client) = capturing(server, client, &told);
    carry(&mut server, &mut client, 1000);
    (server, client.link.into_forger(&told.secrets()))
}

/// Reads a server's words as a client that has its keys.
pub(super) fn hears(client: &mut Lean, server: &mut End) -> Vec<u8> {
    let (mut heard, mut wire) = (Vec::new(), std::mem::take(&mut server.wire));
    let (_, result) = client.receive(&mut wire, &mut heard, &mut Vec::new());
    result.unwrap();
    heard
}

#[derive(Debug)]
struct Outcome {
    heard: Vec<u8>,
    /// The client said that nothing more comes.
    is_told: bool,
    why: Option<String>,
    /// Output of the server as the client reads it.
    hears: String,
}

fn outcome<'a>(
    server: &ServerTls,
    client: &ClientTls,
    acts: impl IntoIterator<Item = &'a Act>,
) -> Outcome {
    let (mut server, mut client) = shaken(server, client);
    let mut wire = Vec::new();
    for act in acts {
        match act {
            Act::Say(kind, text) => client.forge(*kind, text, &mut wire),
            Act::Update(last) => {
                client.forge(HANDSHAKE, &[24, 0, 0, 1, *last], &mut wire);
                client.forge_update();
            }
            Act::Raw(bytes) => wire.extend_from_slice(bytes),
        }
    }
    server.take(&wire);
    let mut heard = Vec::new();
    let (_, told) = client.receive(&mut server.wire.clone(), &mut heard, &mut Vec::new());
    let hears = format!("{:?}", told.map_err(|fault| fault.to_string()));
    Outcome {
        heard: server.plain,
        is_told: server.is_told,
        why: server.fault.map(|fault| fault.to_string()),
        hears,
    }
}

fn acts(is_tls13: bool) -> Vec<Act> {
    let mut acts = vec![
        say(DATA, b"hello"),
        say(DATA, b""),
        say(DATA, &[7; 16384]),
        say(DATA, &[7; 16385]),
        say(ALERT, &[1, 0]),
        say(ALERT, &[2, 0]),
        say(ALERT, &[1, 90]),
        say(ALERT, &[2, 40]),
        say(ALERT, &[1]),
        say(ALERT, b""),
        say(20, &[1]),
        say(HANDSHAKE, &[20, 0, 0, 0]),
        Act::Raw(b"\x17\x03\x03\x00\x00".to_vec()),
        Act::Raw(b"\x17\x03\x03\x00\x05hello".to_vec()),
        Act::Raw([&b"\x17\x03\x03\x00\x30"[..], &[9; 48]].concat()),
        Act::Raw(b"\x17\x03\x03\xff\xff".to_vec()),
        Act::Raw(b"\x17\x09\x03\x00\x10".to_vec()),
        Act::Raw(b"\x63\x03\x03\x00\x10".to_vec()),
        Act::Raw(b"\x17\x03".to_vec()),
    ];
    if is_tls13 {
        acts.extend([
            // Padding, and nothing but padding.
            say(0, b"hello\x17\0\0\0"),
            say(0, b"\0\0\0\0"),
            say(24, b"heartbeat"),
            Act::Update(0),
            Act::Update(1),
            Act::Update(2),
            // A request for keys in pieces, the last of them left out.
            say(HANDSHAKE, &[24]),
            say(HANDSHAKE, &[24, 0, 0]),
            say(HANDSHAKE, &[24, 0, 0, 1, 0, 24]),
            say(HANDSHAKE, b""),
        ]);
    } else {
        acts.push(say(HANDSHAKE, &[0, 0, 0, 0]));
    }
    acts
}

/// Cases that our records refuse and rustls lets pass, or waits for the end of: an empty piece of a
/// handshake message, which nobody may send (RFC 8446 section 5.1), and a request for keys whose
/// length is wrong.
fn is_refused_earlier(acts: &[&Act]) -> bool {
    let pieces: Vec<&[u8]> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Say(HANDSHAKE, text) => Some(&text[..]),
            Act::Update(_) => Some(&[24, 0, 0, 1]),
            _ => None,
        })
        .collect();
    let message = pieces.concat();
    let is_request = message.first() == Some(&24);
    let head = &message[..message.len().min(4)];
    pieces.contains(&&b""[..]) || is_request && ![24, 0, 0, 1].starts_with(head)
}

#[test]
fn both_record_layers_take_and_refuse_the_same() {
    let (rustls, _) = both_with(RecordLayer::Rustls);
    let (lean, _) = both_with(RecordLayer::Lean);
    let client = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
    for client in [&client, &only_tls12(&client)] {
        let is_tls13 = shaken(&lean, client).1.shaken().is_tls13;
        let acts = acts(is_tls13);
        for first in &acts {
            for second in &acts {
                let said = [first, second];
                let ours = outcome(&lean, client, said);
                let theirs = outcome(&rustls, client, said);
                if is_tls13 && is_refused_earlier(&said) {
                    assert!(ours.why.is_some() || theirs.why.is_none(), "{said:?}");
                    continue;
                }
                assert_eq!(ours.heard, theirs.heard, "{said:?}");
                assert_eq!(ours.is_told, theirs.is_told, "{said:?}");
                assert_eq!(
                    ours.why.is_some(),
                    theirs.why.is_some(),
                    "{said:?}: {ours:?}; {theirs:?}"
                );
                // A client that is refused gets an alert, unless it sent one itself.
                let by_alert = |why: &String| why.starts_with("received fatal alert");
                if ours.why.as_ref().is_some_and(|why| !by_alert(why)) {
                    assert!(ours.hears.contains("fatal alert"), "{said:?}: {ours:?}");
                }
            }
        }
    }
}

/// Our layer, and our suites in rustls', against those of the library.
#[test]
fn each_suite_is_spoken_both_ways() {
    let mut count = 0;
    for records in [RecordLayer::Lean, RecordLayer::Rustls] {
        let (server, client) = both_with(records);
        for suite in suites() {
            count += 1;
            let (mut one, mut other) = connected(&server, &only(&client, suite));
            assert_eq!(
                one.link.lean().is_some(),
                records == RecordLayer::Lean,
                "{suite:?}"
            );
            let long = vec![3; 70_000];
            for text in [&b"one"[..], &long, b"three"] {
                one.link.seal(text, &mut one.wire).unwrap();
                other.link.seal(text, &mut other.wire).unwrap();
            }
            carry(&mut one, &mut other, 999);
            let expect = [b"one", &long[..], b"three"].concat();
            assert!(one.plain == expect && other.plain == expect, "{suite:?}");
        }
    }
    assert_eq!(count, 12);
}

#[test]
fn keys_follow_each_other_whoever_asks() {
    let (server, client) = both_with(RecordLayer::Lean);
    for suite in suites().filter(|suite| suite.tls13().is_some()) {
        let (mut server, mut client) = shaken(&server, &only(&client, suite));
        let mut expect = Vec::new();
        for round in 0..100_u8 {
            let mut wire = Vec::new();
            // The request in one record, or in two.
            let update = [24, 0, 0, 1, round & 1];
            let cut = usize::from(round % 5);
            for piece in [&update[..cut], &update[cut..]] {
                if !piece.is_empty() {
                    client.forge(HANDSHAKE, piece, &mut wire);
                }
            }
            client.forge_update();
            client.seal(&[round], &mut wire).unwrap();
            expect.push(round);
            server.take(&wire);
            assert!(server.fault.is_none(), "{:?}", server.fault);
            server.link.seal(&[round, 0], &mut server.wire).unwrap();
            assert_eq!(hears(&mut client, &mut server), [round, 0]);
        }
        assert_eq!(server.plain, expect);
    }
}

/// Before the handshake is done, rustls sees one record at a time if ours shall follow, and all at
/// once if not; it must come to the same end.
#[test]
fn a_hello_ends_alike_whatever_its_records_cuts_and_damage() {
    let servers = [RecordLayer::Rustls, RecordLayer::Lean].map(|records| both_with(records).0);
    let client = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
    let hello = ends(&servers[0], &client).1.wire[5..].to_vec();
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let mut good = 0;
    for round in 0..400 {
        let mut wire = Vec::new();
        let mut rest = &hello[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(1 + below(200)));
            wire.extend([22, 3, 1, 0, piece.len() as u8]);
            wire.extend(piece);
            rest = behind;
        }
        for _ in 0..below(3) {
            let at = below(wire.len());
            wire[at] = [0, 1, 2, 20, 23, 0xff][below(6)];
        }
        let cuts: Vec<usize> = (0..below(20)).map(|_| 1 + below(100)).collect();
        let ended = servers.each_ref().map(|server| {
            let mut end = End::new(TlsLink::server(server).unwrap());
            let mut rest = &wire[..];
            for cut in &cuts {
                let (piece, behind) = rest.split_at(rest.len().min(*cut));
                end.take(piece);
                rest = behind;
            }
            end.take(rest);
            let why = end.fault.map(|fault| fault.to_string());
            (why, end.wire.is_empty(), end.link.partial_bytes() == 0)
        });
        assert_eq!(ended[0], ended[1], "{round}");
        good += usize::from(ended[0].0.is_none() && !ended[0].1);
    }
    assert!((50..350).contains(&good), "{good}");
}

/// Records that follow the client's last handshake message in the same read are for our records
/// alone: with rustls, the keys that come next would be lost.
#[test]
fn keys_may_follow_each_other_at_once() {
    let (server, client) = both_with(RecordLayer::Lean);
    for suite in suites().filter(|suite| suite.tls13().is_some()) {
        for (request, most) in [0, 1]
            .into_iter()
            .flat_map(|r| [(r, 1), (r, 40), (r, 1000)])
        {
            let told = Arc::new(Told::default());
            let (mut server, mut client) = capturing(&server, &only(&client, suite), &told);
            server.take(&std::mem::take(&mut client.wire));
            client.take(&std::mem::take(&mut server.wire));
            let mut wire = std::mem::take(&mut client.wire);
            let mut client = client.link.into_forger(&told.secrets());
            for round in 0..3 {
                client.forge(HANDSHAKE, &[24, 0, 0, 1, request], &mut wire);
                client.forge_update();
                client.seal(&[round], &mut wire).unwrap();
            }
            wire.chunks(most).for_each(|piece| server.take(piece));
            wire.clear();
            client.forge(HANDSHAKE, &[24, 0, 0, 1, request], &mut wire);
            client.forge_update();
            client.seal(b"later", &mut wire).unwrap();
            server.take(&wire);
            assert_eq!(server.plain, b"\0\x01\x02later", "{:?}", server.fault);
        }
    }
}

#[test]
fn a_request_for_keys_right_behind_the_handshake_is_answered() {
    let (server, client) = both_with(RecordLayer::Lean);
    let mut server = End::new(TlsLink::server(&server).unwrap());
    let mut client = AsLibrary::new(&client);
    client.to(&mut server);
    client.hear(&mut server);
    for round in 0..3 {
        client.connection.refresh_traffic_keys().unwrap();
        client.say(&[round]);
    }
    client.to(&mut server);
    assert_eq!(server.plain, [0, 1, 2], "{:?}", server.fault);
    server.link.seal(b"answer", &mut server.wire).unwrap();
    client.hear(&mut server);
    assert_eq!(client.heard, b"answer");
}

#[test]
fn a_client_may_renew_its_keys_32_times_between_data() {
    for records in [RecordLayer::Rustls, RecordLayer::Lean] {
        let (server, client) = both_with(records);
        // Whether or not it asks for new keys of the server's.
        for asks in [0, 1] {
            let mut acts = vec![Act::Update(asks); 32];
            let outcome = |acts: &[Act]| outcome(&server, &client, acts);
            let fault = |acts: &[Act]| outcome(acts).why.unwrap_or_default();
            assert_eq!(fault(&acts), "");
            acts.push(say(DATA, b"x"));
            acts.extend(vec![Act::Update(asks); 32]);
            assert_eq!(fault(&acts), "");
            acts.push(Act::Update(asks));
            acts.push(say(DATA, b"y"));
            let end = outcome(&acts);
            let why = end.why.unwrap_or_default();
            assert!(why.contains("TooManyKeyUpdateRequests"), "{why}");
            assert_eq!(end.heard, b"x", "nothing behind the 33rd");
        }
    }
}

/// RFC 8446 section 5.1, RFC 5246 section 6.2.3: by its length alone, before the rest has come.
#[test]
fn a_sealed_record_that_is_too_long_is_told_so() {
    let (server, client) = both_with(RecordLayer::Lean);
    let [most, more] = [0x4800_u16, 0x4801].map(|bytes| {
        let [high, low] = bytes.to_be_bytes();
        Act::Raw(vec![DATA, 3, 3, high, low])
    });
    for client in [&client, &only_tls12(&client)] {
        assert_eq!(outcome(&server, client, [&most]).why, None);
        let end = outcome(&server, client, [&more]);
        assert!(end.hears.contains("RecordOverflow"), "{}", end.hears);
    }
}

#[test]
fn empty_records_have_a_price() {
    let (rustls, _) = both_with(RecordLayer::Rustls);
    let (lean, _) = both_with(RecordLayer::Lean);
    let client = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
    for client in [&client, &only_tls12(&client)] {
        let fault = |server: &ServerTls, acts: &[Act]| {
            outcome(server, client, acts).why.unwrap_or_default()
        };
        let mut acts = vec![say(DATA, b""); 32];
        acts.push(say(DATA, b"x"));
        acts.extend(vec![say(DATA, b""); 32]);
        let one_more = [&acts[..], &[say(DATA, b"")]].concat();
        for server in [&rustls, &lean] {
            assert_eq!(fault(server, &acts), "");
            assert!(fault(server, &one_more).contains("TooManyEmptyFragments"));
        }
    }
    // Neither pays for the other.
    let turns = |count| {
        let pair = [say(DATA, b""), Act::Update(0)];
        outcome(&lean, &client, pair.iter().cycle().take(count)).why
    };
    assert!(turns(32).is_none() && turns(33).is_some());
}

/// TLS 1.2: the first request gets a warning, the second one ends the connection.
#[test]
fn a_request_to_shake_hands_anew_is_refused_whatever_its_records() {
    let (rustls, _) = both_with(RecordLayer::Rustls);
    let (lean, _) = both_with(RecordLayer::Lean);
    let client = ClientTls::new("localhost", &Trust::Anybody, false).unwrap();
    let client = only_tls12(&client);
    let hello = ends(&lean, &client).1.wire[5..].to_vec();
    for server in [&rustls, &lean] {
        for piece_bytes in [1, 3, 4, 5, 100, hello.len()] {
            let request = hello.chunks(piece_bytes).map(|piece| say(HANDSHAKE, piece));
            let mut acts: Vec<Act> = request.collect();
            acts.push(say(DATA, b"x"));
            let told = outcome(server, &client, &acts);
            assert_eq!((&told.heard[..], told.why), (&b"x"[..], None));
            let told = outcome(server, &client, acts.iter().chain(&acts));
            assert!(told.heard == b"x" && told.why.is_some());
            // Nothing may come before its end.
            acts.swap_remove(acts.len() - 2);
            if piece_bytes < hello.len() {
                let told = outcome(server, &client, &acts);
                assert!(told.heard.is_empty() && told.why.is_some());
            }
        }
    }
    let fault = |act: &Act| outcome(&lean, &client, [act]).why.unwrap_or_default();
    let too_long = say(HANDSHAKE, &[1, 1, 0, 0]);
    assert!(fault(&too_long).contains("HandshakePayloadTooLarge"));
    assert!(!fault(&say(HANDSHAKE, b"")).is_empty());
}

#[test]
fn used_up_keys_are_replaced_or_end_the_connection() {
    let (server, client) = both_with(RecordLayer::Lean);
    for suite in suites() {
        let (mut server, mut client) = shaken(&server, &only(&client, suite));
        let has_limit = format!("{:?}", suite.suite()).contains("AES");
        if has_limit {
            server.link.lean().unwrap().use_up();
            client.use_up();
        }
        server.wire.clear();
        let sealed = server.link.seal(b"after", &mut server.wire);
        if has_limit && suite.tls13().is_none() {
            assert!(matches!(sealed, Err(TlsFault::Exhausted)), "{suite:?}");
            continue;
        }
        sealed.unwrap();
        let records = if has_limit { 2 } else { 1 };
        let heads = { server.wire.windows(3) }.filter(|at| at == b"\x17\x03\x03");
        assert_eq!(heads.count(), records);
        assert_eq!(hears(&mut client, &mut server), b"after", "{suite:?}");
    }
}

/// A client that is the library's own, records and all.
struct AsLibrary {
    connection: rustls::ClientConnection,
    heard: Vec<u8>,
}

impl AsLibrary {
    fn new(client: &ClientTls) -> Self {
        let config = Arc::new(ClientConfig::clone(&client.config));
        let name = client.name.clone();
        Self {
            connection: rustls::ClientConnection::new(config, name).unwrap(),
            heard: Vec::new(),
        }
    }

    fn say(&mut self, text: &[u8]) {
        std::io::Write::write_all(&mut self.connection.writer(), text).unwrap();
    }

    /// Sends all that it has to say, in one piece.
    fn to(&mut self, server: &mut End) {
        let mut wire = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut wire).unwrap();
        }
        server.take(&wire);
    }

    /// Takes all that the server has to say.
    fn hear(&mut self, server: &mut End) {
        let said = std::mem::take(&mut server.wire);
        let mut said = &said[..];
        while !said.is_empty() {
            self.connection.read_tls(&mut said).unwrap();
            self.connection.process_new_packets().unwrap();
            let _ = std::io::Read::read_to_end(&mut self.connection.reader(), &mut self.heard);
        }
    }

    /// Carries bytes until neither end has more to send.
    fn talk(&mut self, server: &mut End) {
        while self.connection.wants_write() || !server.wire.is_empty() {
            self.to(server);
            self.hear(server);
        }
    }
}

#[test]
fn rustls_asks_for_new_keys_and_gets_them() {
    let (server, client) = both_with(RecordLayer::Lean);
    let mut server = End::new(TlsLink::server(&server).unwrap());
    let mut client = AsLibrary::new(&client);
    client.talk(&mut server);
    assert!(server.link.lean().is_some());
    for round in 0..40_u8 {
        client.connection.refresh_traffic_keys().unwrap();
        client.say(&[round]);
        server.link.seal(&[round], &mut server.wire).unwrap();
        client.talk(&mut server);
    }
    let expect: Vec<u8> = (0..40).collect();
    assert!(
        server.plain == expect && client.heard == expect,
        "{:?}",
        server.fault
    );
}

#[test]
fn a_connection_of_ours_is_small() {
    assert!(size_of::<Lean>() <= 256, "{}", size_of::<Lean>());
    assert!(size_of::<TlsLink>() <= 64, "{}", size_of::<TlsLink>());
}
