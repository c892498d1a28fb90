use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Greeting of libzmq 4.3.4.
fn greeting(minor: u8) -> Vec<u8> {
    let mut out = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03".to_vec();
    out.push(minor);
    out.extend_from_slice(b"NULL");
    out.resize(64, 0);
    out
}

// These three were recorded from libzmq 4.3.4, behind the greeting.
const PUSH: &[u8] = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH\0\x02hi";
const XPUB: &[u8] =
    b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XPUB\x01\x04test\x02\0\0\0\0\0\0\x01,";
const REQ: &[u8] =
    b"\x04&\x05READY\x0bSocket-Type\0\0\0\x03REQ\x08Identity\0\0\0\0\x01\0\0\x1d25:6:method,\
      12:get-zmq-uris,}";

fn ready(role: &str) -> Vec<u8> {
    let mut out = vec![4, 22 + role.len() as u8];
    out.extend_from_slice(b"\x05READY\x0bSocket-Type\0\0\0");
    out.push(role.len() as u8);
    out.extend_from_slice(role.as_bytes());
    out
}

/// Feeds bytes in two pieces at every cut and one by one; all must say the same.
#[track_caller]
fn check(
    role: SocketRole,
    wire: &[u8],
    expect: Result<&[ZmtpMessage], ZmtpError>,
    expect_out: &[u8],
) {
    let feed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let mut peer = ZmtpPeer::new(
            role,
            PeerLimits {
                message_bytes_max: 1000,
                parts_max: 3,
            },
            &mut out,
        );
        assert_eq!(out, greeting(1));
        out.clear();
        let mut result = Ok(());
        for piece in pieces {
            let fed = peer.feed(piece, &mut out, &mut messages);
            result = result.and(fed);
        }
        (result.map(|()| messages), out)
    };
    let expect = (expect.map(<[ZmtpMessage]>::to_vec), expect_out.to_vec());
    for cut in 0..=wire.len() {
        assert_eq!(
            feed(&mut [&wire[..cut], &wire[cut..]].into_iter()),
            expect,
            "cut at {cut}"
        );
    }
    assert_eq!(feed(&mut wire.chunks(1)), expect, "one by one");
}

#[test]
fn sockets_of_libzmq() {
    let push = [&greeting(1), PUSH].concat();
    check(
        SocketRole::Pull,
        &push,
        Ok(&[vec![b"hi".to_vec()]]),
        &ready("PULL"),
    );
    let xpub = [&greeting(1), XPUB, &[b'x'; 300]].concat();
    let message = vec![b"test".to_vec(), vec![b'x'; 300]];
    check(SocketRole::Sub, &xpub, Ok(&[message]), &ready("SUB"));
    let req = [&greeting(1), REQ].concat();
    let message = vec![vec![], b"25:6:method,12:get-zmq-uris,}".to_vec()];
    check(
        SocketRole::Rep,
        &req,
        Ok(std::slice::from_ref(&message)),
        &ready("REP"),
    );
    let (envelope, body) = ZmtpPeer::split_request(message).unwrap();
    assert_eq!(
        (envelope, body),
        (
            vec![vec![]],
            vec![b"25:6:method,12:get-zmq-uris,}".to_vec()]
        )
    );
    assert_eq!(ZmtpPeer::split_request(vec![b"x".to_vec()]), None);
    let mut reply = Vec::new();
    encode_message(&[&b""[..], b"ok"], &mut reply);
    assert_eq!(reply, b"\x01\0\0\x02ok");
}

#[test]
fn subscriptions_by_version() {
    for (minor, expect) in [
        (0, &b"\0\x05\x01test\0\x05\0test"[..]),
        (1, b"\x04\x0e\x09SUBSCRIBEtest\x04\x0b\x06CANCELtest"),
    ] {
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let mut peer = ZmtpPeer::new(SocketRole::Sub, PeerLimits::default(), &mut out);
        out.clear();
        peer.subscribe(b"too early", &mut out);
        assert!(out.is_empty() && !peer.is_ready());
        peer.feed(
            &[greeting(minor), ready("PUB")].concat(),
            &mut out,
            &mut messages,
        )
        .unwrap();
        assert!(peer.is_ready());
        out.clear();
        peer.subscribe(b"test", &mut out);
        peer.unsubscribe(b"test", &mut out);
        assert_eq!(out, expect);
    }
}

/// A SUB socket of either version says which topics it wants.
#[test]
fn subscriptions_of_a_peer() {
    let (wanted, not) = (b"\x01sub ".to_vec(), b"\x00sub ".to_vec());
    for said in [
        &b"\0\x05\x01sub \0\x05\0sub "[..],
        b"\x04\x0e\x09SUBSCRIBEsub \x04\x0b\x06CANCELsub ",
    ] {
        let wire = [&greeting(1)[..], &ready("SUB"), said].concat();
        let messages = [vec![wanted.clone()], vec![not.clone()]];
        check(SocketRole::Pub, &wire, Ok(&messages), &ready("PUB"));
    }
    let read = |part: &[u8]| {
        let message = vec![part.to_vec()];
        ZmtpPeer::subscription_of(&message).map(|(is_wanted, topic)| (is_wanted, topic.to_vec()))
    };
    assert_eq!(read(b"\x01a"), Some((true, b"a".to_vec())));
    assert_eq!(read(b"\x00"), Some((false, Vec::new())));
    assert_eq!((read(b""), read(b"\x02a")), (None, None));
    assert_eq!(ZmtpPeer::subscription_of(&vec![vec![1], vec![]]), None);
}

#[test]
fn commands_in_between() {
    let wire = [
        &greeting(1)[..],
        &ready("PUSH"),
        b"\x04\x09\x04PING\0\x0act\x01\x01a\x04\x06\x05LATER\0\x01b",
    ]
    .concat();
    let out = [&ready("PULL")[..], b"\x04\x07\x04PONGct"].concat();
    check(
        SocketRole::Pull,
        &wire,
        Ok(&[vec![b"a".to_vec(), b"b".to_vec()]]),
        &out,
    );
}

#[test]
fn faults() {
    use ZmtpError as E;
    let mut curve = greeting(0);
    curve[12..17].copy_from_slice(b"CURVE");
    for (wire, fault) in [
        (&b"GET / HTTP/1.1\r\n"[..], E::NotZmtp),
        (b"\xff\0\0\0\0\0\0\0\x01\0", E::NotZmtp),
        (b"\xff\0\0\0\0\0\0\0\x01\x7f\x01", E::OldVersion(2)),
        (&curve, E::Mechanism("CURVE".into())),
    ] {
        check(SocketRole::Pull, wire, Err(fault), b"");
    }
    let pull = |wire: &[&[u8]], fault: ZmtpError, more: &[u8]| {
        let wire = [&greeting(1)[..], &wire.concat()].concat();
        let out = [&ready("PULL")[..], more].concat();
        check(SocketRole::Pull, &wire, Err(fault), &out);
    };
    pull(&[b"\0\x01a"], E::Handshake, b"");
    pull(&[b"\x04\x02\x01X"], E::Handshake, b"");
    pull(&[b"\x04\x09\x05READY\x09ab"], E::Handshake, b"");
    pull(&[b"\x04\x09\x05ERROR\x02no"], E::Refused("no".into()), b"");
    let refusal = b"\x04\x1a\x05ERROR\x13Invalid socket type";
    let dealer = E::SocketType("DEALER".into());
    pull(&[&ready("DEALER")], dealer, refusal);
    let open = |rest: &[u8], fault| pull(&[&ready("PUSH"), rest], fault, b"");
    open(b"\x08\0", E::BadFlags);
    open(b"\x05\0", E::BadFlags);
    // Refused on the declaration, with none of the body there.
    open(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff", E::TooLarge);
    open(b"\x02\0\0\0\0\0\0\x03\xe9", E::TooLarge);
    // The limit is on the message, not on the part.
    let parts = [b"\x01\xff", &[0; 255][..], b"\x02\0\0\0\0\0\0\x02\xea"].concat();
    open(&parts, E::TooLarge);
    open(b"\x01\0\x01\0\x01\0\0\0", E::TooManyParts);
    open(b"\x04\x02\x05a", E::Command);
}

proptest! {
    #[test]
    fn messages_read_back(
        sent in vec(vec(vec(any::<u8>(), 0..400), 1..4), 0..6),
        cuts in vec(1_usize..500, 1..30),
    ) {
        let mut wire = [greeting(1), ready("PUSH")].concat();
        for message in &sent {
            encode_message(message, &mut wire);
        }
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let mut peer = ZmtpPeer::new(SocketRole::Pull, PeerLimits::default(), &mut out);
        let (mut rest, mut cuts) = (&wire[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            peer.feed(piece, &mut out, &mut messages).unwrap();
            rest = after;
        }
        prop_assert_eq!(messages, sent);
    }

    #[test]
    fn nothing_panics(bytes in vec(any::<u8>(), 0..60), is_ready in any::<bool>()) {
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let mut peer = ZmtpPeer::new(SocketRole::Pull, PeerLimits::default(), &mut out);
        let begin = if is_ready { ready("PUSH") } else { Vec::new() };
        let _ = peer.feed(&[greeting(1), begin, bytes].concat(), &mut out, &mut messages);
    }
}
