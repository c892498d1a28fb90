//! A process without descriptors: accepting pauses and comes back, and the loop does not spin.
//!
//! By itself in its process, because it takes all descriptors away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use throng_engine::{Accepted, App, Closed, ConnLimits, Conns, Effects, ShardOptions};
use throng_sys::limits::{Nofile, nofile, set_nofile};
use throng_sys::socket;
use throng_types::{ConnId, Now, ShardId};

/// Reached only by failing tests.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Paused(bool),
    Timeout,
}

struct Echo {
    events: Sender<Event>,
    deadline_ms: Option<u64>,
}

impl App for Echo {
    type Session = ();
    /// Asks for a deadline so many milliseconds from now.
    type Mail = u64;

    fn accept(&mut self, _listener: u8, _peer: SocketAddr, _now: Now) -> Option<Accepted<()>> {
        Some(Accepted {
            session: (),
            tag: 0,
            deadline: None,
        })
    }

    fn bytes(&mut self, _id: ConnId, (): &mut (), input: &mut [u8], fx: &mut Effects<'_>) {
        fx.out.extend_from_slice(input);
    }

    fn timeout(&mut self, _id: ConnId, (): &mut (), _fx: &mut Effects<'_>) {}

    fn closed(&mut self, _id: ConnId, (): (), _tag: u32, _why: Closed, _now: Now) {}

    fn mail(&mut self, _from: Option<usize>, ms: u64, _conns: &mut Conns<()>, now: Now) {
        self.deadline_ms = Some(now.mono.0 + ms);
    }

    fn take_mail(&mut self, _to: usize) -> Option<u64> {
        None
    }

    fn turn(&mut self, _conns: &mut Conns<()>, now: Now) -> bool {
        if self.deadline_ms.is_some_and(|at| at <= now.mono.0) {
            self.deadline_ms = None;
            self.events.send(Event::Timeout).unwrap();
        }
        false
    }

    fn deadline(&self) -> Option<throng_types::Millis> {
        self.deadline_ms.map(throng_types::Millis)
    }

    fn accept_paused(&mut self, paused: bool) {
        self.events.send(Event::Paused(paused)).unwrap();
    }
}

fn next(events: &Receiver<Event>) -> Event {
    events.recv_timeout(PATIENCE).expect("an event")
}

fn echoed(client: &mut TcpStream) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn accepting_pauses_without_descriptors_and_resumes_with_them() {
    let listener = socket::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 128).unwrap();
    let addr = socket::local_addr(listener.as_fd()).unwrap();
    let options = ShardOptions {
        shard: ShardId(0),
        listeners: vec![listener],
        limits: ConnLimits::default(),
        started: Instant::now(),
    };
    let (events, seen) = channel();
    let (mut shards, mailboxes) = throng_engine::builders(vec![options]).unwrap();
    let (turns, count) = channel();
    let shard = shards.remove(0).with(Echo {
        events,
        deadline_ms: None,
    });
    std::thread::spawn(move || {
        shard.run(|_, _, stats| {
            let _ = turns.send(stats);
        })
    });

    let mut first: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
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
        client.connect(&addr.into()).unwrap();
    }
    assert_eq!(next(&seen), Event::Paused(true));

    // Two attempts a second, and this question: far from a spin.
    while count.try_recv().is_ok() {}
    mailboxes[0].send(1_200).unwrap();
    assert_eq!(
        next(&seen),
        Event::Timeout,
        "and no second word of the pause"
    );
    let turns: Vec<_> = count.try_iter().collect();
    assert!(turns.len() < 20, "{} turns", turns.len());
    assert_eq!(turns.last().unwrap().accept_pauses, 1);
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
    assert_eq!(next(&seen), Event::Paused(false));
    echoed(&mut TcpStream::connect(addr).unwrap());
}
