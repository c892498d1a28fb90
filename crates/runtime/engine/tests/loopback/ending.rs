//! The ways in which the app ends a connection.

use std::io::{Read, Write};
use std::net::Shutdown;

use throng_engine::{Closed, ConnLimits, Delivery, End, Overflow, Pieces};
use throng_types::Frame;

use crate::support::{Event, Manner, connect, pattern, rig};

#[test]
fn everything_leaves_before_the_end() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (mut client, id) = rig.client();
    let text = pattern(24 << 20);
    let reply = text.clone();
    rig.ask(move |conns, _| {
        conns.with(id, |_, fx| {
            fx.out.extend(reply);
            fx.end(End::Flush);
        })
    });
    // What the app says after it has ended the connection goes nowhere.
    rig.ask(move |conns, _| conns.with(id, |_, fx| fx.out.extend(b"too late")));
    rig.deliver(id, vec![b"too late".to_vec()], Overflow::Close);
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert!(back == text, "{} of {} bytes", back.len(), text.len());
    assert_eq!(rig.ask(|conns, _| conns.len()), 1, "it waits for the peer");
    drop(client);
    assert_eq!(rig.closed(), (id, Closed::ByApp));
}

#[test]
fn an_empty_flush_ends_too() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (mut client, id) = rig.client();
    rig.ask(move |conns, _| conns.with(id, |_, fx| fx.end(End::Flush)));
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    // What the peer still says is thrown away.
    client.write_all(&pattern(1 << 20)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rig.closed(), (id, Closed::ByApp));
}

#[test]
fn a_reply_reaches_a_peer_that_has_closed_its_half_already() {
    let rig = rig(Manner::ReplyAndEnd(End::Flush), ConnLimits::default());
    for _ in 0..20 {
        let held = rig.hold();
        let mut client = connect(rig.addr);
        client.write_all(b"request").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        drop(held);
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"request");
        assert_eq!(rig.closed().1, Closed::ByApp);
    }
}

#[test]
fn at_once_is_at_once() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (mut client, id) = rig.client();
    let text = pattern(24 << 20);
    rig.ask(move |conns, _| {
        conns.with(id, |_, fx| {
            fx.out.extend(text);
            fx.end(End::Flush);
            fx.end(End::Now);
        })
    });
    assert_eq!(rig.closed(), (id, Closed::ByApp));
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert_eq!(back.len(), 0, "nothing was written yet");
}

/// Its bytes and its end come between two writes of one turn, of which the second one fails.
#[test]
fn the_last_word_of_a_peer_is_heard_where_a_write_fails() {
    let rig = rig(Manner::Report, ConnLimits::default());
    let (mut client, id) = rig.client();
    rig.ask(move |conns, _| {
        client.write_all(b"last").unwrap();
        drop(client);
        let frame = Frame::new(b"in vain");
        let delivery = Delivery {
            frames: Pieces::Made(std::slice::from_ref(&frame)),
            joined: &frame,
            key: 1,
            overflow: Overflow::Close,
            gather: false,
        };
        conns.deliver(id.index(), &delivery);
        conns.with(id, |_, fx| fx.out.extend(b"in vain"))
    });
    assert_eq!(rig.next(), Event::Bytes(id, b"last".to_vec()));
    assert_eq!(rig.closed(), (id, Closed::ByPeer));
}
