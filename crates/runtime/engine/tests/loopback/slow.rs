//! Peers that do not read: each costs itself only, and by the rule it was given.

use std::io::Read;
use std::net::TcpStream;

use throng_engine::{Closed, Overflow};

use crate::support::{
    Event, LAST_WORD, LAST_WORD_BYTES, LIMITS, Manner, NEVER_MS, fill, gather, numbered, numbers,
    rig,
};

const FRAME: usize = LAST_WORD_BYTES;

fn read_numbers(client: &mut TcpStream, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut frame = vec![0; FRAME];
    while seen.last() != Some(&last) {
        client.read_exact(&mut frame).unwrap();
        seen.extend(numbers(&frame, FRAME));
    }
    seen
}

/// Whether a slow connection got whole frames without a gap, as many as the kernel had begun to
/// take, and then the last word.
#[track_caller]
pub(crate) fn assert_ends_in_order(numbers: &[u64], begun: u64) {
    let (last, frames) = numbers.split_last().unwrap();
    assert_eq!(*last, LAST_WORD);
    assert!(
        frames.iter().copied().eq(0..frames.len() as u64),
        "{frames:?}"
    );
    assert!(
        (begun - 1..=begun + 1).contains(&(frames.len() as u64)),
        "{begun}: {frames:?}"
    );
}

#[test]
fn a_full_queue_ends_its_connection_and_no_other() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut slow, slow_id) = rig.client();
    let (mut quick, quick_id) = rig.client();
    let first = rig.overrun(slow_id, &[slow_id, quick_id], 20, Overflow::Close);
    rig.find(|event| (event == Event::Slow(slow_id)).then_some(()));
    let seen = read_numbers(&mut quick, first + 19);
    assert_eq!(seen, (first..first + 20).collect::<Vec<_>>());
    assert!(rig.seen.lock().unwrap().queued_bytes_most <= LIMITS.queue_bytes_max);
    assert_eq!(rig.ask(|conns, _| conns.stats().slow), 1);
    // What had begun to leave arrives whole, then the last word and the end.
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert_ends_in_order(&numbers(&rest, FRAME), first);
    drop(slow);
    assert_eq!(rig.closed(), (slow_id, Closed::Slow));
}

/// Delivers until frames are dropped; returns what arrived and what was reported.
fn lag(overflow: Overflow) -> (Vec<u64>, u64, u32) {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = rig.client();
    let count = rig.overrun(id, &[id], 50, overflow) + 50;
    assert!(rig.seen.lock().unwrap().queued_bytes_most <= LIMITS.queue_bytes_max);
    let seen = read_numbers(&mut client, count - 1);
    let dropped = rig.drained(id);
    let stats = rig.ask(|conns, _| conns.stats());
    let counted = match overflow {
        Overflow::LatestOnly => stats.dropped_latest_only,
        _ => stats.dropped_oldest,
    };
    assert_eq!(counted, u64::from(dropped));
    assert_eq!(stats.dropped_oldest + stats.dropped_latest_only, counted);
    assert_eq!(stats.lagged, 1);
    (seen, count, dropped)
}

#[test]
fn the_oldest_frames_go_and_are_counted() {
    let (seen, count, dropped) = lag(Overflow::DropOldest);
    assert!(seen.is_sorted_by(|a, b| a < b));
    assert!(30 < dropped, "{dropped}");
    assert_eq!(seen.len() as u64 + u64::from(dropped), count);
    // The queue's worth of newest frames survives.
    let newest = (count - 6)..count;
    assert!(
        newest.into_iter().all(|number| seen.contains(&number)),
        "{seen:?}"
    );
}

#[test]
fn only_the_latest_waits() {
    let (seen, count, dropped) = lag(Overflow::LatestOnly);
    assert!(seen.is_sorted_by(|a, b| a < b));
    assert!(48 <= dropped, "{dropped}");
    assert_eq!(seen.len() as u64 + u64::from(dropped), count);
}

#[test]
fn a_queue_that_lost_nothing_says_so_when_it_is_empty_again() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = rig.client();
    let count = rig.ask(move |conns, _| fill(conns, id, FRAME));
    let seen = read_numbers(&mut client, count - 1);
    assert_eq!(seen, (0..count).collect::<Vec<_>>());
    assert_eq!(rig.drained(id), 0);
    rig.deliver(id, vec![numbered(count, FRAME)], Overflow::Close);
    assert_eq!(read_numbers(&mut client, count), [count]);
}

#[test]
fn frames_gather_behind_replies_in_order() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = rig.client();
    let writes = rig.ask(move |conns, _| {
        let before = conns.stats().writes;
        for number in 0..7 {
            gather(conns, id, &numbered(number, FRAME), number as u32);
        }
        conns.with(id, |_, fx| fx.out.extend(numbered(7, FRAME)));
        before
    });
    assert_eq!(read_numbers(&mut client, 7), (0..8).collect::<Vec<_>>());
    assert_eq!(rig.ask(|conns, _| conns.stats().writes), writes + 1);
}

#[test]
fn one_large_reply_is_sent_although_it_exceeds_the_bound_and_time_passes() {
    let rig = rig(Manner::Echo, LIMITS);
    let (mut client, id) = rig.client();
    let large = crate::support::pattern(24 << 20);
    let reply = large.clone();
    rig.ask(move |conns, _| conns.with(id, |_, fx| fx.out.extend(reply)));
    rig.set_deadline(id, Some(0));
    rig.find(|event| (event == Event::Timeout(id)).then_some(()));
    rig.set_deadline(id, Some(NEVER_MS));
    assert_eq!(rig.ask(|conns, _| conns.stats().slow), 0);
    let mut back = vec![0; large.len()];
    client.read_exact(&mut back).unwrap();
    assert!(back == large);
}

#[test]
fn replies_beyond_twice_the_bound_end_the_connection() {
    let rig = rig(Manner::Echo, LIMITS);
    let (client, id) = rig.client();
    // As many as the kernel takes, and then some.
    rig.until("it is slow", move |conns| {
        conns.with(id, |_, fx| fx.out.resize(64 << 10, 1));
        conns.stats().slow == 1
    });
    rig.find(|event| (event == Event::Slow(id)).then_some(()));
    drop(client);
    assert_eq!(rig.closed(), (id, Closed::Slow));
    let most = rig.seen.lock().unwrap().queued_bytes_most;
    let reply_and_last_word = (64 << 10) + LAST_WORD_BYTES;
    assert!(
        most <= 2 * LIMITS.queue_bytes_max + reply_and_last_word,
        "{most}"
    );
}
