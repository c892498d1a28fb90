//! HTTP/2 in the client's role: streams of one shard on a connection to another.

use throng_engine::{Closed, ConnLimits, End, Overflow};
use throng_tls::ClientTls;
use throng_types::ConnId;

use crate::secure::{BOTH, speaking_http2};
use crate::support::{Event, LIMITS, Manner, Rig, accepted, rig};

const ASK: &str = "GET /a HTTP/1.1\r\nHost: here\r\n\r\n";
const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

/// Two shards, and a connection of HTTP/2 between them.
struct Pair {
    server: Rig,
    client: Rig,
    carrier: ConnId,
}

impl Pair {
    fn new(tls: Option<&ClientTls>) -> Self {
        let server = match tls {
            None => rig(Manner::Report, LIMITS),
            Some(_) => speaking_http2(Manner::Report, LIMITS),
        };
        let client = rig(Manner::Report, ConnLimits::default());
        let carrier = connect(&client, &server, tls);
        assert_eq!(client.find(connected), carrier);
        Self {
            server,
            client,
            carrier,
        }
    }

    /// Begins a stream and returns both ends of it, with what the server's session reads.
    fn ask(&self, request: &'static str) -> (ConnId, ConnId, String) {
        let carrier = self.carrier;
        let ours = self.client.ask(move |conns, _| {
            let begin = |_, _: &mut u64, fx: &mut throng_engine::Effects<'_>| {
                fx.out.extend_from_slice(request.as_bytes());
            };
            conns.open_stream(carrier, accepted(9), begin)
        });
        let (theirs, text) = self.server.find(bytes);
        (ours.expect("the server takes streams"), theirs, text)
    }
}

fn connect(client: &Rig, server: &Rig, tls: Option<&ClientTls>) -> ConnId {
    let (to, tls) = (server.addr, tls.cloned());
    let opened =
        client.ask(move |conns, _| conns.connect_carrier(None, to, accepted(1), tls.as_ref()));
    opened.unwrap()
}

fn connected(event: Event) -> Option<ConnId> {
    match event {
        Event::Connected(id) => Some(id),
        _ => None,
    }
}

fn bytes(event: Event) -> Option<(ConnId, String)> {
    match event {
        Event::Bytes(id, bytes) => Some((id, String::from_utf8(bytes).unwrap())),
        _ => None,
    }
}

/// Lets a session say something, and end if `end` says so.
fn say(rig: &Rig, id: ConnId, text: &'static str, end: Option<End>) {
    let is_there = rig.ask(move |conns, _| {
        conns.with(id, |_, fx| {
            fx.out.extend_from_slice(text.as_bytes());
            if let Some(end) = end {
                fx.end(end);
            }
        })
    });
    assert!(is_there, "{id:?} is there");
}

/// Reads what comes to a session until all of it is there.
fn read(rig: &Rig, id: ConnId, expect: &str) {
    let mut text = String::new();
    while text.len() < expect.len() {
        let (whose, more) = rig.find(bytes);
        assert_eq!(whose, id);
        text += &more;
    }
    assert_eq!(text, expect);
}

fn check(tls: Option<&ClientTls>) {
    let pair = Pair::new(tls);
    let (server, client) = (&pair.server, &pair.client);
    // Two streams at once, each with an answer of its own, however it ends.
    let (stream, theirs, head) = pair.ask(ASK);
    assert_eq!(head, "GET /a HTTP/1.1\r\nhost: here\r\n\r\n");
    let (short, other, _) =
        pair.ask("POST /b HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc");
    read(server, other, "abc");
    say(
        server,
        other,
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
        None,
    );
    read(
        client,
        short,
        "HTTP/1.1 404 \r\ncontent-length: 2\r\n\r\nno",
    );
    assert_eq!(client.closed(), (short, Closed::ByPeer));
    say(
        server,
        theirs,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        None,
    );
    read(client, stream, "HTTP/1.1 200 \r\n\r\nhi");
    server.deliver(theirs, vec![b"4\r\nmore\r\n".to_vec()], Overflow::Close);
    read(client, stream, "more");
    // A client that goes is gone for the server.
    say(client, stream, "", Some(End::Now));
    assert_eq!(client.closed(), (stream, Closed::ByApp));
    assert_eq!(server.find(gone(theirs)), Closed::ByPeer);
    // A WebSocket goes both ways, and ends when either side does.
    let (socket, theirs, _) = pair.ask(UPGRADE);
    say(
        server,
        theirs,
        "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\n\r\nfirst",
        None,
    );
    let accepts = "HTTP/1.1 101 \r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\nfirst";
    read(client, socket, accepts);
    say(client, socket, "back", None);
    read(server, theirs, "back");
    say(server, theirs, "bye", Some(End::Flush));
    read(client, socket, "bye");
    assert_eq!(client.closed(), (socket, Closed::ByPeer));
    // What ends the connection ends its streams.
    let (last, _, _) = pair.ask(ASK);
    let carrier = server.ask(|conns, _| conns.sessions().map(|(id, _)| id).min());
    say(server, carrier.expect("the carrier"), "", Some(End::Now));
    let (waits, carrier) = (last, pair.carrier);
    let refused = client.ask(move |conns, _| {
        let opened = conns.open_stream(carrier, accepted(9), |_, _, _| {});
        opened.is_err() || conns.id(waits.index()).is_some()
    });
    assert!(refused);
}

fn gone(whom: ConnId) -> impl FnMut(Event) -> Option<Closed> {
    move |event| match event {
        Event::Closed(id, _, why) if id == whom => Some(why),
        _ => None,
    }
}

#[test]
fn streams_ask_and_are_answered() {
    check(None);
}

#[test]
fn streams_ask_and_are_answered_by_tls() {
    check(Some(&BOTH.1.clone().with_http2()));
}

#[test]
fn a_server_without_http2_is_left() {
    let server = crate::support::secure_rig(Manner::Report, LIMITS, &BOTH.0);
    let client = rig(Manner::Report, ConnLimits::default());
    let carrier = connect(&client, &server, Some(&BOTH.1.clone().with_http2()));
    assert_eq!(client.closed().0, carrier);
}
