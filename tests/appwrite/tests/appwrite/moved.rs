//! A server hands its connections to a new process: its clients get every event once and in order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use throng_testkit::{RedisServer, Setup, Wire, until};

use crate::event::{Publisher, message};
use crate::steps::{hears, tells};

/// Upgrades in a row.
const UPGRADES: usize = 3;
/// Clients that receive the events meanwhile.
const CLIENTS: usize = 21;
/// Events that all clients together may still have to read.
const AHEAD: usize = 2000;

/// Publishes numbered files until stopped, and one without a number; returns how many. It is faster
/// than its readers, and waits for them when they are [`AHEAD`] behind together: a client far
/// behind would be closed as slow.
fn publish_until(url: &str, stop: &AtomicBool, heard: &AtomicUsize) -> usize {
    let mut publisher = Publisher::new(url);
    let mut publish = |name: &str| {
        let listeners = publisher.publish(&message(&format!("file {name}")));
        assert!(listeners > 0, "somebody listens all the time");
    };
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        if last * CLIENTS < heard.load(Ordering::Relaxed) + AHEAD {
            last += 1;
            publish(&last.to_string());
        } else {
            thread::yield_now();
        }
    }
    publish("end");
    last
}

/// Reads numbered files up to the one without a number; gives how many.
fn read_to_end(socket: &mut Wire, heard: &AtomicUsize) -> usize {
    let mut last = 0;
    loop {
        match &*hears(socket) {
            "end" => return last,
            name => assert_eq!(name, (last + 1).to_string()),
        }
        last += 1;
        heard.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nobody_notices_upgrades() {
    let redis = RedisServer::start();
    let config = format!(
        "[appwrite]\nredis = {:?}\nconnections_per_minute = 0\n[[appwrite.project]]\n\
         id = \"bench\"\n",
        redis.url()
    );
    let server = Setup::new(&config).shards(2).start();
    let open = |_| {
        let mut socket = server.websocket("/v1/realtime?project=bench&channels[]=files");
        assert_eq!(tells(&mut socket)["type"], "connected");
        socket
    };
    let mut sockets: Vec<Wire> = (0..CLIENTS).map(open).collect();
    let (url, stop) = (redis.url(), AtomicBool::new(false));
    until("a subscriber", || Publisher::new(&url).listeners() > 0);
    let heard = AtomicUsize::new(0);
    thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_until(&url, &stop, &heard));
        let readers = sockets.iter_mut();
        let readers = readers.map(|socket| scope.spawn(|| read_to_end(socket, &heard)));
        let readers: Vec<_> = readers.collect();
        // If one fails, the publisher must end for the test to end.
        let upgraded = catch_unwind(AssertUnwindSafe(|| {
            (0..UPGRADES).for_each(|_| server.upgrade_well());
        }));
        stop.store(true, Ordering::Relaxed);
        upgraded.unwrap_or_else(|failed| resume_unwind(failed));
        let last = publisher.join().expect("it published all the time");
        assert!(last > 0, "nothing was published during the upgrades");
        for (at, reader) in readers.into_iter().enumerate() {
            assert_eq!(reader.join().expect("every event"), last, "socket {at}");
        }
    });
    until("all connections", || {
        server.metric("throng_appwrite_connections") >= CLIENTS as u64
    });
    // They speak with the new process.
    for socket in &mut sockets {
        socket.say(r#"{"type":"ping"}"#);
        assert_eq!(tells(socket)["type"], "pong");
    }
}
