//! Mail between shards and from outside, and the end of a loop.

use std::io::{Read, Write};

use throng_engine::ConnLimits;

use crate::support::{Event, Mail, Manner, Rig, connect, listener, rig, rigs};

fn exchange(shards: usize, letters: u64) {
    let listeners = (0..shards).map(|_| listener()).collect();
    let rigs = rigs(listeners, Manner::Echo, ConnLimits::default());
    for (from, rig) in rigs.iter().enumerate() {
        rig.ask(move |_, app| {
            for to in (0..app.letters.len()).filter(|&to| to != from) {
                app.letters[to] = (0..letters).collect();
            }
        });
    }
    for rig in &rigs {
        let mut next = vec![0; shards];
        let mut left = (shards as u64 - 1) * letters;
        while 0 < left {
            if let Event::Mail(Some(from), number) = rig.next() {
                assert_eq!(number, next[from], "in order from shard {from}");
                next[from] += 1;
                left -= 1;
            }
        }
    }
}

#[test]
fn two_shards_exchange_more_than_a_ring_holds() {
    exchange(2, 50_000);
}

#[test]
fn four_shards_exchange_more_than_a_ring_holds() {
    exchange(4, 20_000);
}

#[test]
fn mail_that_an_app_does_not_want_waits_without_a_spin() {
    let mut both = rigs(
        vec![listener(), listener()],
        Manner::Echo,
        ConnLimits::default(),
    );
    let (second, first) = (both.pop().unwrap(), both.pop().unwrap());
    second.ask(|_, app| app.wants_mail = false);
    first.ask(|_, app| app.letters[1] = (0..10_000).collect());
    first.until("the ring is full", |_| true);
    let full = |rig: &Rig| rig.ask(|_, app| app.letters[1].len());
    while full(&first) != 10_000 - 4096 {
        std::thread::yield_now();
    }
    let (client, id) = second.client();
    let before = second.seen.lock().unwrap().stats.turns;
    second.set_deadline(id, Some(200));
    second.find(|event| (event == Event::Timeout(id)).then_some(()));
    let turns = second.seen.lock().unwrap().stats.turns - before;
    assert!(turns < 1000, "{turns} turns in the time of a few hundred");
    second.ask(|_, app| app.wants_mail = true);
    let mut next = 0;
    while next < 10_000 {
        if let Event::Mail(Some(0), number) = second.next() {
            assert_eq!(number, next);
            next += 1;
        }
    }
    drop(client);
}

#[test]
fn mail_for_a_shard_that_has_ended_is_thrown_away() {
    let mut both = rigs(
        vec![listener(), listener()],
        Manner::Echo,
        ConnLimits::default(),
    );
    let (second, first) = (both.pop().unwrap(), both.pop().unwrap());
    second.finish();
    first.ask(|_, app| app.letters[1] = (0..10_000).collect());
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while first.ask(|_, app| !app.letters[1].is_empty()) {
        assert!(std::time::Instant::now() < deadline, "it waits for nobody");
    }
}

#[test]
fn a_full_door_gives_the_mail_back_and_what_went_in_arrives() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let held = rig.hold();
    let mut sent = 0;
    let back = loop {
        match rig.mailbox.send(Mail::Number(sent)) {
            Ok(()) => sent += 1,
            Err(Mail::Number(number)) => break number,
            Err(Mail::Job(_)) => panic!("a number was sent"),
        }
    };
    assert_eq!(back, sent);
    drop(held);
    for number in 0..sent {
        assert_eq!(rig.next(), Event::Mail(None, number));
    }
}

#[test]
fn a_finished_app_comes_back_and_its_door_is_shut() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (mut client, _) = rig.client();
    let mailbox = rig.mailbox.clone();
    let app = rig.finish();
    assert!(app.finished);
    assert!(matches!(
        mailbox.send(Mail::Number(5)),
        Err(Mail::Number(5))
    ));
    assert_eq!(
        client.read(&mut [0]).unwrap(),
        0,
        "its connections are closed"
    );
}

#[test]
fn shards_share_a_port() {
    let (fd, addr) = listener();
    let second = (throng_sys::socket::listen(addr, 1024).unwrap(), addr);
    let rigs = rigs(
        vec![(fd, addr), second],
        Manner::Echo,
        ConnLimits::default(),
    );
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    let mut clients = Vec::new();
    // The kernel chooses by a hash of the addresses, so enough clients reach both.
    while rigs.iter().any(|rig| rig.ask(|conns, _| conns.is_empty())) {
        assert!(std::time::Instant::now() < deadline, "both get connections");
        let mut client = connect(addr);
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        clients.push(client);
    }
    let held: usize = rigs.iter().map(|rig| rig.ask(|conns, _| conns.len())).sum();
    assert_eq!(held, clients.len());
}
