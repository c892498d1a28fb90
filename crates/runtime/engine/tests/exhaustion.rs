//! A process without descriptors: accepting pauses and comes back, and the loop does not spin.
//!
//! By itself in its process, because it takes all descriptors away.

use std::io::{Read, Write};
use std::net::TcpStream;

use throng_engine::ConnLimits;
use throng_sys::limits::{Nofile, nofile, set_nofile};

use support::{Event, Manner, connect, rig};

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "loopback/support.rs"]
mod support;

fn echoed(client: &mut TcpStream) {
    client.set_read_timeout(Some(support::PATIENCE)).unwrap();
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn accepting_pauses_without_descriptors_and_resumes_with_them() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (first, id) = rig.client();
    let mut first = vec![first];
    first.extend((1..10).map(|_| connect(rig.addr)));
    for client in &mut first {
        echoed(client);
    }
    // Sockets for the clients to come are made while there are descriptors; the server's side
    // finds none left.
    let waiting: Vec<socket2::Socket> = (0..5)
        .map(|_| {
            let kind = socket2::Type::STREAM;
            socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap()
        })
        .collect();
    let before = nofile();
    // Nothing above the lowest free number is allowed, so no new descriptor is.
    let probe = std::fs::File::open("/dev/null").unwrap();
    let lowest = std::os::fd::AsRawFd::as_raw_fd(&probe) as u64;
    drop(probe);
    set_nofile(Nofile {
        soft: lowest,
        hard: before.hard,
    })
    .unwrap();
    for client in &waiting {
        client.connect(&rig.addr.into()).unwrap();
    }
    let paused = |event| match event {
        Event::Paused(paused) => Some(paused),
        _ => None,
    };
    assert!(rig.find(paused));

    // Two attempts a second, and this question: far from a spin.
    let before_turns = rig.seen.lock().unwrap().stats.turns;
    rig.set_deadline(id, Some(1_200));
    assert_eq!(
        rig.next(),
        Event::Timeout(id),
        "and no second word of the pause"
    );
    let stats = rig.seen.lock().unwrap().stats;
    let turns = stats.turns - before_turns;
    assert!(turns < 20, "{turns} turns");
    assert_eq!(stats.accept_pauses, 1);
    // Connections that are in are served.
    for client in &mut first {
        echoed(client);
    }

    // Each connection that leaves frees two descriptors here, one of them the server's.
    let mut waiting: Vec<TcpStream> = waiting.into_iter().map(Into::into).collect();
    for client in &mut waiting {
        drop(first.pop());
        echoed(client);
    }
    set_nofile(before).unwrap();
    drop(first);
    assert!(!rig.find(paused));
    echoed(&mut connect(rig.addr));
}
