//! Connections that the app opens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use throng_engine::{Accepted, Closed, ConnLimits, Overflow};
use throng_types::ConnId;

use crate::support::{Event, Manner, PATIENCE, Rig, rig};

fn open(rig: &Rig, source: Option<SocketAddr>, target: SocketAddr) -> std::io::Result<ConnId> {
    rig.ask(move |conns, _| {
        let accepted = Accepted {
            session: 99,
            tag: 42,
            deadline: None,
        };
        conns.connect(source, target, accepted)
    })
}

fn connected(rig: &Rig) -> ConnId {
    rig.find(|event| match event {
        Event::Connected(id) => Some(id),
        _ => None,
    })
}

#[test]
fn an_outgoing_connection_talks_from_the_address_it_was_given() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let other = SocketAddr::from(([127, 0, 0, 2], 0));
    for source in [None, Some(other)] {
        open(&rig, source, target).unwrap();
        let (mut peer, from) = server.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let expect = source.map_or_else(|| target.ip(), |source| source.ip());
        assert_eq!(from.ip(), expect);
        let id = connected(&rig);
        peer.write_all(b"ping").unwrap();
        let mut back = [0; 4];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ping");
        drop(peer);
        let event = rig.find(|event| matches!(event, Event::Closed(..)).then_some(event));
        assert_eq!(event, Event::Closed(id, 42, Closed::ByPeer));
    }
}

#[test]
fn a_refused_connection_is_closed_without_having_been_connected() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    drop(server);
    open(&rig, None, target).unwrap();
    let Event::Closed(_, 42, why) = rig.next() else {
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
