//! A server hands its connections to a new process: its clients get every event once and in order,
//! and a client that has lost a right has lost it there too.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::socket::Socket;
use crate::stage::{Event, Stage};

const FILES: &str = "project=bench&channels[]=files";
const DOCUMENTS: &str = "project=bench&channels[]=documents";

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
    let client = redis::Client::open(url).expect("an address");
    let mut connection = client.get_connection().expect("a server");
    let mut publish = |name: &str| {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("realtime").arg(Event::file(name).message());
        let listeners: u64 = publish.query(&mut connection).expect("an answer");
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
fn read_to_end(socket: &mut Socket, heard: &AtomicUsize) -> usize {
    let mut last = 0;
    loop {
        match &*socket.event() {
            "end" => return last,
            name => assert_eq!(name, (last + 1).to_string()),
        }
        last += 1;
        heard.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nobody_notices_upgrades() {
    let stage = Stage::new("connections_per_minute = 0");
    let mut sockets: Vec<Socket> = (1..CLIENTS).map(|_| stage.open(FILES).0).collect();
    sockets.push(stage.open_as("ann", FILES));
    let (url, stop) = (stage.redis.url(), AtomicBool::new(false));
    let heard = AtomicUsize::new(0);
    thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_until(&url, &stop, &heard));
        let readers = sockets.iter_mut();
        let readers = readers.map(|socket| scope.spawn(|| read_to_end(socket, &heard)));
        let readers: Vec<_> = readers.collect();
        // If one fails, the publisher must end for the test to end.
        let upgraded = catch_unwind(AssertUnwindSafe(|| {
            (0..UPGRADES).for_each(|_| stage.server.upgrade_well());
        }));
        stop.store(true, Ordering::Relaxed);
        upgraded.unwrap_or_else(|failed| resume_unwind(failed));
        let last = publisher.join().expect("it published all the time");
        assert!(last > 0, "nothing was published during the upgrades");
        for (at, reader) in readers.into_iter().enumerate() {
            assert_eq!(reader.join().expect("every event"), last, "socket {at}");
        }
    });
    stage.until_metric("throng_appwrite_connections", CLIENTS as u64);
    // They speak with the new process.
    for socket in &mut sockets {
        socket.say(r#"{"type":"ping"}"#);
        assert_eq!(socket.frame()["type"], "pong");
    }
}

/// Publishes one event for a team and one for everybody; returns whether `ann` hears the first.
fn heard(stage: &Stage, ann: &mut Socket, round: u32, team: &str) -> bool {
    // No two events are the same, as Appwrite's are not.
    let [first, second] = [format!("{team}{round}"), format!("any-{team}{round}")];
    for event in [
        Event::document(&first, team, "open"),
        Event::document(&second, "any", "open"),
    ] {
        assert!(stage.redis.publish(&event.message()) > 0);
    }
    match ann.event() {
        event if event == first => {
            assert_eq!(ann.event(), second);
            true
        }
        event => {
            assert_eq!(event, second);
            false
        }
    }
}

#[test]
fn rights_that_are_lost_stay_lost() {
    let stage = Stage::new("");
    stage.accounts.join("ann", "T", &[]);
    stage.accounts.join("ann", "U", &[]);
    let mut ann = stage.open_as("ann", DOCUMENTS);
    assert!(heard(&stage, &mut ann, 0, "team:T"));
    assert!(heard(&stage, &mut ann, 0, "team:U"));
    // No event reports it: only a lookup shows it.
    stage.accounts.leave("ann", "T");
    assert!(heard(&stage, &mut ann, 1, "team:T"));
    stage.server.upgrade_well();
    // Signed-in users are looked up again, and events until then were hers.
    let gone = (2..10_000).find(|&round| !heard(&stage, &mut ann, round, "team:T"));
    let gone = gone.expect("an end of it");
    assert!(heard(&stage, &mut ann, 1, "team:U"));
    // This change comes with an event.
    stage.accounts.leave("ann", "U");
    let left = Event::membership_deleted("ann", "U", "team:U").message();
    assert!(stage.redis.publish(&left) > 0);
    assert!(!heard(&stage, &mut ann, 2, "team:U"));
    stage.server.upgrade_well();
    for team in ["team:T", "team:U"] {
        assert!(!heard(&stage, &mut ann, gone + 1, team));
    }
}

/// Appwrite's API is away: no user becomes a guest by that, and none keeps roles for good.
#[test]
fn roles_that_cannot_be_looked_up_end_the_connection() {
    let stage = Stage::new("api_grace = \"1s\"");
    stage.accounts.join("ann", "T", &[]);
    let mut ann = stage.open_as("ann", DOCUMENTS);
    let (mut guest, _) = stage.open(DOCUMENTS);
    stage.accounts.go_away(true);
    stage.server.upgrade_well();
    assert_eq!(ann.frame()["data"]["code"], 500);
    assert_eq!(ann.closed(), 1011);
    stage
        .redis
        .publish(&Event::document("A", "any", "open").message());
    assert_eq!(guest.event(), "A");
}
