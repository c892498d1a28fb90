//! Still turns, in which nothing comes from outside, and what follows them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use throng_engine::{ConnLimits, H2Limits, Running, SavedConn, ShardOptions};
use throng_http2::{Conn, encode_request};
use throng_types::{Load as _, ShardId};

use crate::support::{Event, Manner, Probe, listener};

/// A shard that takes turns when it is told to, its events, and its address.
fn shard(manner: Manner) -> (Running<Probe>, Receiver<Event>, SocketAddr) {
    let (fd, address) = listener();
    let options = ShardOptions {
        shard: ShardId(0),
        listeners: vec![fd],
        limits: ConnLimits::default(),
        started: Instant::now(),
    };
    let (builders, _mailboxes) = throng_engine::builders(vec![options]).unwrap();
    let builder = builders.into_iter().next().unwrap();
    let (probe, events) = Probe::new(manner, 1);
    (builder.with(probe).start(), events, address)
}

#[test]
fn the_time_goes_on_from_where_the_turn_read_it() {
    let (mut running, _events, _) = shard(Manner::Echo);
    let before = Instant::now();
    running.turn().unwrap();
    let conns = running.conns();
    let passed_us = conns.unix_us() - conns.now().unix_ms * 1000;
    // Both are whole microseconds.
    assert!(u128::from(passed_us) <= before.elapsed().as_micros() + 1);
    assert!(running.stats().last_turn_us <= passed_us);
}

/// Another process has the same listener by then, and such a connection is for that one.
#[test]
fn a_listener_that_is_closed_while_still_accepts_nothing_more() {
    for closes in [false, true] {
        let (mut running, _events, address) = shard(Manner::Echo);
        let mut client = TcpStream::connect(address).unwrap();
        // It has come, and is remembered.
        while running.still_turn().unwrap() {}
        assert_eq!(running.app().came, 0);
        let (_, conns) = running.parts_mut();
        if closes {
            conns.stop_listening(0);
        }
        running.resume();
        running.turn().unwrap();
        assert_eq!(running.app().came, u64::from(!closes));
        if closes {
            // With nobody else at the port the kernel refuses it.
            assert!(client.read(&mut [0]).is_err());
        }
    }
}

/// Its session is paused when they come, and goes on only in the midst of the hand-over.
#[test]
fn bytes_that_a_stream_has_not_taken_move_with_it() {
    let (mut old, events, address) = shard(Manner::Report);
    let mut client = TcpStream::connect(address).unwrap();
    let (mut block, mut out) = (Vec::new(), Vec::new());
    let mut conn = Conn::client(&H2Limits::USUAL, &mut out);
    encode_request("POST", "http", "test", "/", None, [], &mut block);
    let id = conn.open(1, &block, false, &mut out).unwrap();
    client.write_all(&out).unwrap();
    let stream = loop {
        old.turn().unwrap();
        if let Some(Event::Bytes(stream, _)) = events.try_iter().last() {
            break stream;
        }
    };
    { old.parts_mut().1 }.with(stream, |_, fx| fx.pause(true));
    let before = out.len();
    assert_eq!(conn.data(id, 4, false, &mut out), 4);
    out.extend_from_slice(b"data");
    client.write_all(&out[before..]).unwrap();
    while old.stats().read_bytes < out.len() as u64 {
        old.turn().unwrap();
    }
    assert_eq!(events.try_iter().count(), 0);
    { old.parts_mut().1 }.with(stream, |_, fx| fx.pause(false));
    while old.still_turn().unwrap() {}
    let (mut new, events, _) = shard(Manner::Report);
    let (conns, ours) = (old.parts_mut().1, new.parts_mut().1);
    let all = conns.movable();
    assert_eq!(all.len(), 2);
    for (_, id) in all {
        let mut saved = Vec::new();
        conns.save(id, &mut saved);
        let (socket, session) = conns.take_out(id).unwrap();
        let saved = SavedConn::load_whole(&saved).unwrap();
        assert_eq!(ours.adopt(saved, socket, 7, session), Some(id));
    }
    new.begin();
    new.turn().unwrap();
    let came = events.try_iter().last();
    assert_eq!(came, Some(Event::Bytes(stream, b"4\r\ndata\r\n".to_vec())));
}

/// Deadlines of connections that are adopted count from the clock, which began long ago.
#[test]
fn the_clock_goes_before_the_first_turn() {
    let (running, ..) = shard(Manner::Echo);
    assert!(running.conns().now().unix_ms > 0);
}
