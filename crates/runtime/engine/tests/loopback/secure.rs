//! TLS on real sockets: what waits, what is dropped, and how connections begin and end.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;

use throng_engine::{Closed, ConnLimits, Conns, End, Overflow};
use throng_testkit::Authority;
use throng_tls::{
    Authorities, Certificates, ClientTls, MinVersion, RecordLayer, ServerTls, Site, TlsLink, Trust,
};
use throng_types::ConnId;

use crate::slow::assert_ends_in_order;
use crate::support::{
    Event, LAST_WORD, LAST_WORD_BYTES, LIMITS, Manner, Rig, accepted, connect, gather, numbered,
    numbers, pattern, secure_rig,
};

const FRAME: usize = LAST_WORD_BYTES;
/// Bytes that sealing adds to one full record, and a little more.
const SEALING: usize = 64;

/// Server with a certificate, and a client that trusts it.
pub(crate) static BOTH: LazyLock<(ServerTls, ClientTls)> = LazyLock::new(|| {
    let authority = Authority::new("ours");
    let issued = authority.issue(&["localhost"]);
    let site = Site::read_certificate("", issued.certificate.as_bytes()).unwrap();
    let site = site.with_key(issued.key.as_bytes()).unwrap();
    let shown = Certificates::new(&[site]);
    let server = ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Rustls, None).unwrap();
    let trust = Trust::Of(Authorities::read(authority.pem().as_bytes()).unwrap());
    (server, ClientTls::new("localhost", &trust, true).unwrap())
});

fn rig(manner: Manner, limits: ConnLimits) -> Rig {
    secure_rig(manner, limits, &BOTH.0)
}

/// A shard that speaks HTTP/2 with clients that offer it.
pub(crate) fn speaking_http2(manner: Manner, limits: ConnLimits) -> Rig {
    secure_rig(manner, limits, &BOTH.0.clone().with_http2())
}

/// A client's end of TLS over a blocking socket.
struct Client {
    socket: TcpStream,
    link: TlsLink,
    plain: Vec<u8>,
    /// The server has said that nothing more comes.
    is_told: bool,
}

impl Client {
    /// Connects to a rig and performs the handshake.
    fn of(rig: &Rig) -> (Self, ConnId) {
        let (socket, id) = rig.client();
        let mut client = Self {
            socket,
            link: TlsLink::client(&BOTH.1).unwrap(),
            plain: Vec::new(),
            is_told: false,
        };
        let mut wire = Vec::new();
        client.link.start(&mut wire).unwrap();
        client.socket.write_all(&wire).unwrap();
        while client.link.shaken().is_none() {
            client.read(4096);
        }
        rig.find(|event| (event == Event::Tls("shaken".to_owned())).then_some(()));
        (client, id)
    }

    /// Reads some; false at the end.
    fn read(&mut self, most: usize) -> bool {
        let mut bytes = vec![0; most];
        let count = self.socket.read(&mut bytes).unwrap();
        let mut wire = Vec::new();
        let told = self
            .link
            .receive(&mut bytes[..count], &mut self.plain, &mut wire);
        self.is_told |= told.unwrap();
        if !wire.is_empty() {
            self.socket.write_all(&wire).unwrap();
        }
        count > 0
    }

    fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        while self.plain.len() < bytes {
            assert!(self.read(64 << 10), "the end came too early");
        }
        self.plain.drain(..bytes).collect()
    }

    fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        self.link.seal(bytes, &mut wire).unwrap();
        wire
    }

    fn send(&mut self, bytes: &[u8]) {
        let wire = self.seal(bytes);
        self.socket.write_all(&wire).unwrap();
    }
}

fn read_numbers(client: &mut Client, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        seen.extend(numbers(&client.exactly(FRAME), FRAME));
    }
    seen
}

#[test]
fn what_is_sent_comes_back_however_it_is_cut() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, _) = Client::of(&rig);
    for text in [&b"a"[..], b"hello", &pattern(100_000)] {
        let wire = client.seal(text);
        for piece in wire.chunks(wire.len().div_ceil(50)) {
            client.socket.write_all(piece).unwrap();
        }
        assert!(client.exactly(text.len()) == text);
    }
}

#[test]
fn a_large_reply_passes_a_client_that_reads_late() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = Client::of(&rig);
    let large = pattern(12 << 20);
    let reply = large.clone();
    rig.ask(move |conns, _| conns.with(id, |_, fx| fx.out.extend(reply)));
    rig.until("the kernel takes no more", move |conns| {
        (1..12 << 20).contains(&conns.queued_bytes(id))
    });
    assert!(client.exactly(large.len()) == large);
    assert_eq!(rig.drained(id), 0);
}

#[test]
fn a_full_queue_ends_its_connection_and_no_other() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut slow, slow_id) = Client::of(&rig);
    let (mut quick, quick_id) = Client::of(&rig);
    let first = rig.overrun(slow_id, &[slow_id, quick_id], 20, Overflow::Close);
    rig.find(|event| (event == Event::Slow(slow_id)).then_some(()));
    let seen = read_numbers(&mut quick, first + 19);
    assert_eq!(seen, (first..first + 20).collect::<Vec<_>>());
    let most = rig.seen.lock().unwrap().queued_bytes_most;
    assert!(most <= LIMITS.queue_bytes_max + SEALING, "{most}");
    let mut got = Vec::new();
    while got.last() != Some(&LAST_WORD) {
        got.extend(numbers(&slow.exactly(FRAME), FRAME));
    }
    assert_ends_in_order(&got, first);
    while slow.read(64 << 10) {}
    assert!(slow.is_told && slow.plain.is_empty());
    drop(slow);
    assert_eq!(rig.closed(), (slow_id, Closed::Slow));
}

#[test]
fn what_is_dropped_was_not_sealed() {
    for overflow in [Overflow::DropOldest, Overflow::LatestOnly] {
        let rig = rig(Manner::Echo, LIMITS);
        let (mut client, id) = Client::of(&rig);
        let count = rig.overrun(id, &[id], 50, overflow) + 50;
        let most = rig.seen.lock().unwrap().queued_bytes_most;
        assert!(most <= LIMITS.queue_bytes_max + SEALING, "{most}");
        let seen = read_numbers(&mut client, count - 1);
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        let dropped = rig.drained(id);
        assert!(30 < dropped, "{overflow:?}: {dropped}");
        assert_eq!(seen.len() as u64 + u64::from(dropped), count);
    }
}

#[test]
fn frames_gather_in_records_behind_replies() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = Client::of(&rig);
    let deliver = move |rig: &Rig, bytes: usize| {
        rig.ask(move |conns, _| {
            let before = conns.stats().writes;
            for number in 0..8 {
                gather(conns, id, &numbered(number, bytes), number as u32);
            }
            before
        })
    };
    // 800 bytes are one record, 64 KiB are four.
    for (bytes, writes) in [(100, 1), (FRAME, 4)] {
        let before = deliver(&rig, bytes);
        let seen = numbers(&client.exactly(8 * bytes), bytes);
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
        assert_eq!(rig.ask(|conns, _| conns.stats().writes), before + writes);
    }
}

#[test]
fn an_end_is_said_before_it_comes() {
    let rig = rig(Manner::ReplyAndEnd(End::Flush), LIMITS);
    let (mut client, id) = Client::of(&rig);
    client.send(b"goodbye");
    while client.read(4096) {}
    assert!(client.is_told && client.plain == b"goodbye");
    drop(client);
    assert_eq!(rig.closed(), (id, Closed::ByApp));
}

/// A client that has said all that it will gets its answer, and the word that this is all.
#[test]
fn a_client_s_end_is_heard() {
    for is_said in [true, false] {
        let rig = rig(Manner::Echo, LIMITS);
        let (mut client, id) = Client::of(&rig);
        let mut wire = client.seal(b"and now goodbye");
        if is_said {
            client.link.close(&mut wire);
        }
        client.socket.write_all(&wire).unwrap();
        client.socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rig.closed(), (id, Closed::ByPeer));
        let mut rest = Vec::new();
        client.socket.read_to_end(&mut rest).unwrap();
        if !is_said {
            assert!(
                client
                    .link
                    .receive(&mut rest, &mut client.plain, &mut wire)
                    .is_ok()
            );
            assert_eq!(client.plain, b"and now goodbye");
        }
    }
}

#[test]
fn hands_must_be_shaken_in_time() {
    let limits = ConnLimits {
        handshake_timeout_ms: 50,
        ..LIMITS
    };
    let rig = rig(Manner::Echo, limits);
    let mut silent = connect(rig.addr);
    let mut halfway = connect(rig.addr);
    let mut hello = Vec::new();
    TlsLink::client(&BOTH.1).unwrap().start(&mut hello).unwrap();
    halfway.write_all(&hello[..100]).unwrap();
    for client in [&mut silent, &mut halfway] {
        let mut rest = Vec::new();
        // Reset or closed: it is over.
        let _ = client.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    for _ in 0..2 {
        let told = rig.find(|event| match event {
            Event::Tls(what) => Some(what),
            _ => None,
        });
        assert_eq!(told, "refused: the handshake took too long");
    }
}

#[test]
fn nobody_hears_of_what_breaks_the_protocol() {
    let rig = rig(Manner::Report, LIMITS);
    let (mut good, good_id) = Client::of(&rig);
    let mut plain = connect(rig.addr);
    plain.write_all(b"get / HTTP/1.1\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&0x15), "an alert: {alert:?}");
    drop(plain);
    let (mut broken, broken_id) = Client::of(&rig);
    let mut wire = broken.seal(b"a secret");
    *wire.last_mut().unwrap() ^= 1;
    broken.socket.write_all(&wire).unwrap();
    let told = rig.find(|event| match event {
        Event::Bytes(..) => panic!("{event:?}"),
        Event::Tls(what) if what.starts_with("broken") => Some(what),
        _ => None,
    });
    assert!(told.contains("decrypt"), "{told}");
    // The client gets the reason too.
    let mut rest = Vec::new();
    broken.socket.read_to_end(&mut rest).unwrap();
    let fault = broken
        .link
        .receive(&mut rest, &mut Vec::new(), &mut Vec::new());
    assert!(fault.unwrap_err().to_string().contains("BadRecordMac"));
    drop(broken);
    assert_eq!(rig.closed(), (broken_id, Closed::ByApp));
    let early = connect(rig.addr);
    drop(early);
    rig.find(|event| matches!(event, Event::Tls(what) if what.contains("went away")).then_some(()));
    good.send(b"still here");
    let bytes = rig.find(|event| match event {
        Event::Bytes(id, bytes) => Some((id, bytes)),
        _ => None,
    });
    assert_eq!(bytes, (good_id, b"still here".to_vec()));
}

/// A connection of one rig to the other, when it is established.
fn connect_secure(client: &Rig, server: &Rig) -> ConnId {
    let target = server.addr;
    let connect = move |conns: &mut Conns<u64>, _: &mut _| {
        conns.connect_secure(None, target, accepted(1), &BOTH.1)
    };
    let id = client.ask(connect).unwrap();
    client.find(|event| (event == Event::Connected(id)).then_some(id))
}

#[test]
fn outgoing_connections_speak_tls_too() {
    let server = rig(Manner::Echo, LIMITS);
    let client = crate::support::rig(Manner::Report, LIMITS);
    let id = connect_secure(&client, &server);
    let large = pattern(200_000);
    let sent = large.clone();
    client.ask(move |conns, _| conns.with(id, |_, fx| fx.out.extend(sent)));
    let mut back = Vec::new();
    while back.len() < large.len() {
        back.extend(client.find(|event| match event {
            Event::Bytes(whom, bytes) => {
                assert_eq!(whom, id);
                Some(bytes)
            }
            _ => None,
        }));
    }
    assert!(back == large);
}

/// A client cannot know whether it has heard all of a server that ends without TLS's word for it.
#[test]
fn a_server_that_ends_without_a_word_is_told_of() {
    for (end, is_told) in [(End::Now, true), (End::Flush, false)] {
        let server = rig(Manner::Echo, LIMITS);
        let client = crate::support::rig(Manner::Report, LIMITS);
        connect_secure(&client, &server);
        server.find(|event| (event == Event::Tls("shaken".to_owned())).then_some(()));
        server.ask(move |conns, _| {
            let all: Vec<ConnId> = conns.sessions().map(|(id, _)| id).collect();
            all.iter().all(|id| conns.with(*id, |_, fx| fx.end(end)))
        });
        let mut told = Vec::new();
        let why = client.find(|event| match event {
            Event::Tls(what) => {
                told.push(what);
                None
            }
            Event::Closed(_, _, why) => Some(why),
            _ => None,
        });
        let truncated = told.contains(&"truncated".to_owned());
        assert_eq!((truncated, why), (is_told, Closed::ByPeer), "{told:?}");
    }
}
