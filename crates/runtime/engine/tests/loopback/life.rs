//! How connections come, are timed, and end: those that peers open, and those that the app opens.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};

use throng_engine::{Closed, ConnLimits, End, Overflow};
use throng_types::ConnId;

use crate::support::{
    Event, Manner, NEVER_MS, PATIENCE, Rig, accepted, connect, deliver, pattern, rig,
};

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
        deliver(conns, id, vec![b"in vain".to_vec()], Overflow::Close);
        conns.with(id, |_, fx| fx.out.extend(b"in vain"))
    });
    assert_eq!(rig.next(), Event::Bytes(id, b"last".to_vec()));
    assert_eq!(rig.closed(), (id, Closed::ByPeer));
}

fn open(rig: &Rig, source: Option<SocketAddr>, target: SocketAddr) -> std::io::Result<ConnId> {
    rig.ask(move |conns, _| conns.connect(source, target, accepted(99)))
}

#[test]
fn an_outgoing_connection_talks_from_the_address_it_was_given() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let other = SocketAddr::from(([127, 0, 0, 2], 0));
    for source in [None, Some(other)] {
        let id = open(&rig, source, target).unwrap();
        let (mut peer, from) = server.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let expect = source.map_or_else(|| target.ip(), |source| source.ip());
        assert_eq!(from.ip(), expect);
        rig.find(|event| (event == Event::Connected(id)).then_some(()));
        peer.write_all(b"ping").unwrap();
        let mut back = [0; 4];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ping");
        drop(peer);
        let event = rig.find(|event| matches!(event, Event::Closed(..)).then_some(event));
        assert_eq!(event, Event::Closed(id, 7, Closed::ByPeer));
    }
}

#[test]
fn a_refused_connection_is_closed_without_having_been_connected() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    drop(server);
    open(&rig, None, target).unwrap();
    let Event::Closed(_, 7, why) = rig.next() else {
        panic!("closed first and only");
    };
    assert_eq!(why, Closed::Error(throng_sys::errno::ECONNREFUSED));
}

#[test]
fn what_was_queued_before_the_connection_stood_is_sent() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    // Nobody answers until room is made in the backlog: the connection stays half open.
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = throng_sys::socket::listen(any, 0).unwrap();
    let server = TcpListener::from(server);
    server.set_nonblocking(false).unwrap();
    let target = server.local_addr().unwrap();
    for _ in 0..3 {
        open(&rig, None, target).unwrap();
    }
    rig.until("all are in the table", |conns| conns.len() == 3);
    let ids: Vec<ConnId> = rig.ask(|conns, _| conns.sessions().map(|(id, _)| id).collect());
    for &id in &ids {
        rig.ask(move |conns, _| conns.with(id, |_, fx| fx.out.extend(b"own ")));
        rig.deliver(id, vec![b"shared".to_vec()], Overflow::Close);
    }
    for _ in &ids {
        let (mut peer, _) = server.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut seen = [0; 10];
        peer.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"own shared");
    }
}

#[test]
fn deadlines_come_in_order_and_can_be_moved_and_cleared() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let clients: Vec<_> = (0..4).map(|_| rig.client()).collect();
    let ids: Vec<_> = clients.iter().map(|(_, id)| *id).collect();
    let [moved, early, cleared, late] = ids[..] else {
        panic!("four clients");
    };
    // All in one turn, so that the order is the order of the deadlines.
    rig.ask(move |conns, _| {
        let deadlines = [
            (moved, Some(NEVER_MS)),
            (early, Some(50)),
            (cleared, Some(100)),
            (late, Some(400)),
            (cleared, None),
            (moved, Some(200)),
        ];
        for (id, ms) in deadlines {
            conns.with(id, |_, fx| {
                let deadline = ms.map(|ms| fx.now.mono + ms);
                fx.set_deadline(deadline);
            });
        }
    });
    for id in [early, moved, late] {
        assert_eq!(rig.next(), Event::Timeout(id));
    }
    // A deadline that has come is unset; a past one comes at once.
    rig.set_deadline(cleared, Some(0));
    assert_eq!(rig.next(), Event::Timeout(cleared));
    assert_eq!(rig.ask(|conns, _| conns.len()), 4);
}

#[test]
fn a_shard_without_work_sleeps() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (_client, id) = rig.client();
    rig.set_deadline(id, Some(300));
    let before = rig.seen.lock().unwrap().stats.turns;
    rig.find(|event| (event == Event::Timeout(id)).then_some(()));
    let after = rig.seen.lock().unwrap().stats.turns;
    // One for each move in the wheel, a few for the question itself.
    assert!(after - before < 10, "{} turns", after - before);
}
