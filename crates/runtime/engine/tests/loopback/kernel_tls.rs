//! TLS in the kernel: when it takes the keys, what it says of other records, and that nothing is
//! lost at the end. What holds for each maker of records is in `secure.rs`.
//!
//! Where the kernel has no TLS these tests say so and prove nothing; `tests/ktls/run` has one.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use throng_engine::{Closed, End};
use throng_tls::Link;
use throng_types::ConnId;

use crate::secure::{BOTH, Client, LIMITS, has_kernel_tls};
use crate::support::{Event, Manner, Rig, pattern, secure_rig};

fn rig(manner: Manner) -> Option<Rig> {
    has_kernel_tls().then(|| secure_rig(manner, LIMITS, &BOTH.0.kernel))
}

/// A client that has not sent its last flight: the client, its id, and the flight.
fn before_the_end(rig: &Rig) -> (Client, ConnId, Vec<u8>) {
    let (mut socket, id) = rig.client();
    let mut link = Link::client(&BOTH.1).unwrap();
    let mut wire = Vec::new();
    link.start(&mut wire).unwrap();
    socket.write_all(&wire).unwrap();
    wire.clear();
    let mut plain = Vec::new();
    while link.shaken().is_none() {
        let mut bytes = vec![0; 4096];
        let count = socket.read(&mut bytes).unwrap();
        link.receive(&mut bytes[..count], &mut plain, &mut wire)
            .unwrap();
    }
    let client = Client {
        socket,
        link,
        plain,
        is_told: false,
    };
    (client, id, wire)
}

/// What was sent before is in the socket, so the shard has read it when it comes to this.
fn settle(rig: &Rig) {
    rig.ask(|_, _| ());
}

/// Whatever the server has read when hands are shaken, the kernel goes on at a record's border.
#[test]
fn what_comes_with_the_handshake_is_heard_once() {
    let Some(rig) = rig(Manner::Echo) else { return };
    let said = [&b"first"[..], b"and second"];
    let mut cut = 0;
    loop {
        let (mut client, _, mut wire) = before_the_end(&rig);
        for text in said {
            client.link.seal(text, &mut wire).unwrap();
        }
        let Some((before, after)) = wire.split_at_checked(cut) else {
            break;
        };
        client.socket.write_all(before).unwrap();
        settle(&rig);
        client.socket.write_all(after).unwrap();
        assert_eq!(client.exactly(15), b"firstand second", "{cut}");
        client.send(b"third");
        assert_eq!(client.exactly(5), b"third", "{cut}");
        cut += 1;
    }
}

/// The kernel takes data although it has no room for all of it: that is not lost at the end.
#[test]
fn an_end_comes_behind_all_that_was_said() {
    for is_half_closed in [false, true] {
        let Some(rig) = rig(Manner::Echo) else { return };
        let (mut client, id) = Client::of(&rig);
        let large = pattern(6 << 20);
        let reply = large.clone();
        if is_half_closed {
            // The client has said all, and waits for what it gets.
            client.send(b"!");
            assert_eq!(client.exactly(1), b"!");
        }
        rig.ask(move |conns, _| {
            conns.with(id, |_, fx| {
                fx.out.extend(reply);
                if !is_half_closed {
                    fx.end(End::Flush);
                }
            })
        });
        if is_half_closed {
            client.socket.shutdown(Shutdown::Write).unwrap();
        }
        settle(&rig);
        while client.read(64 << 10) {}
        assert!(client.plain == large, "{} bytes", client.plain.len());
        assert!(client.is_told, "that this is all");
    }
}

/// A close_notify without the end of the stream ends the connection in order.
#[test]
fn a_close_notify_behind_data_is_heard() {
    let Some(rig) = rig(Manner::Report) else {
        return;
    };
    let (mut client, id) = Client::of(&rig);
    let mut wire = client.seal(b"goodbye");
    client.link.close(&mut wire);
    client.socket.write_all(&wire).unwrap();
    let heard = rig.find(|event| match event {
        Event::Bytes(_, bytes) => Some(bytes),
        _ => None,
    });
    assert_eq!(heard, b"goodbye");
    assert_eq!(rig.closed(), (id, Closed::ByPeer));
    while client.read(4096) {}
    assert!(client.is_told);
}

#[test]
fn half_a_record_is_heard_by_nobody() {
    let Some(rig) = rig(Manner::Report) else {
        return;
    };
    let (mut client, id) = Client::of(&rig);
    let wire = client.seal(b"a secret");
    client.socket.write_all(&wire[..wire.len() - 1]).unwrap();
    client.socket.shutdown(Shutdown::Write).unwrap();
    rig.find(|event| match event {
        Event::Bytes(..) => panic!("{event:?}"),
        Event::Closed(whom, ..) => (whom == id).then_some(()),
        _ => None,
    });
}
