//! Bytes in and out, and the ways in which a peer leaves.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;

use throng_engine::{Closed, ConnLimits, H2Limits};
use throng_http2::{Conn, encode_request};

use crate::support::{Event, LIMITS, Manner, connect, fill, pattern, rig};

/// Small bounds, so that little traffic reaches them.
const TIGHT: ConnLimits = ConnLimits {
    queue_bytes_max: 1 << 20,
    ..LIMITS
};

#[test]
fn bytes_come_back_however_they_are_cut() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let text = pattern(40);
    let mut clients: Vec<_> = (0..text.len()).map(|_| rig.client().0).collect();
    for (cut, client) in clients.iter_mut().enumerate() {
        client.write_all(&text[..cut]).unwrap();
    }
    for (cut, client) in clients.iter_mut().enumerate() {
        let mut back = vec![0; cut];
        client.read_exact(&mut back).unwrap();
        client.write_all(&text[cut..]).unwrap();
        back.resize(text.len(), 0);
        client.read_exact(&mut back[cut..]).unwrap();
        assert_eq!(back, text, "cut at {cut}");
    }
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from() {
    let rig = rig(Manner::Echo, TIGHT);
    let (mut client, id) = rig.client();
    let text = pattern(32 << 20);
    let (mut writer, sent) = (client.try_clone().unwrap(), text.clone());
    let writing = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    rig.until("the queue grows above the bound", move |conns| {
        TIGHT.unread_above_bytes < conns.queued_bytes(id)
    });
    let mut back = vec![0; text.len()];
    client.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == text, "all of it, in order");
    let most = rig.seen.lock().unwrap().queued_bytes_most;
    // One read of 64 KiB may begin just below the bound.
    assert!(most <= TIGHT.unread_above_bytes + (64 << 10), "{most}");
}

#[test]
fn what_was_sent_before_a_half_close_is_answered() {
    for bytes in [1, 1 << 20, 16 << 20] {
        let rig = rig(Manner::Echo, TIGHT);
        let (mut client, _) = rig.client();
        let text = pattern(bytes);
        let (mut writer, sent) = (client.try_clone().unwrap(), text.clone());
        let writing = std::thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        writing.join().unwrap();
        assert!(back == text, "{} of {bytes} bytes", back.len());
        assert_eq!(rig.closed().1, Closed::ByPeer);
    }
}

#[test]
fn an_end_behind_more_than_one_share_of_input_is_seen() {
    let (fd, addr) = crate::support::listener();
    // Connections inherit it: the kernel holds more than one turn reads.
    socket2::SockRef::from(&fd)
        .set_recv_buffer_size(4 << 20)
        .unwrap();
    let rig = crate::support::rigs(vec![(fd, addr)], Manner::Report, TIGHT).remove(0);
    for bytes in [300 << 10, 330 << 10, 1 << 20] {
        let (mut client, id) = rig.client();
        let text = pattern(bytes);
        let held = rig.hold();
        let (sent, mut writer) = (text.clone(), client.try_clone().unwrap());
        let writing = std::thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        if bytes < 1 << 20 {
            writing.join().unwrap();
            drop(held);
        } else {
            drop(held);
            writing.join().unwrap();
        }
        let mut got = Vec::new();
        loop {
            match rig.next() {
                Event::Bytes(from, bytes) => {
                    assert_eq!(from, id);
                    got.extend(bytes);
                }
                Event::Closed(gone, tag, why) => {
                    assert_eq!((gone, tag, why), (id, 7, Closed::ByPeer));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(got == text, "{} of {bytes} bytes", got.len());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_flood_from_one_peer_takes_its_share_of_a_turn_and_no_more() {
    let rig = rig(Manner::Report, ConnLimits::default());
    let (mut client, _) = rig.client();
    let text = pattern(48 << 20);
    let bytes = text.len();
    let writing = std::thread::spawn(move || client.write_all(&text).unwrap());
    let mut got = 0;
    while got < bytes {
        if let Event::Bytes(_, input) = rig.next() {
            got += input.len();
        }
    }
    writing.join().unwrap();
    let (_, most) = rig.ask(|_, app| app.reads);
    // What was left of the last turn, and what has come since.
    assert!(most <= 8, "{most} reads in one turn");
}

#[test]
fn a_reset_is_an_error_of_that_connection_alone() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    let (client, id) = rig.client();
    let (mut other, _) = rig.client();
    throng_sys::socket::set_linger_zero(client.as_fd()).unwrap();
    drop(client);
    let reset = Closed::Error(throng_sys::errno::ECONNRESET);
    assert_eq!(rig.closed(), (id, reset));
    other.write_all(b"still here").unwrap();
    let mut back = [0; 10];
    other.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still here");
}

#[test]
fn slots_are_used_again_and_old_ids_find_nobody() {
    let rig = rig(Manner::Echo, TIGHT);
    let (client, old) = rig.client();
    drop(client);
    rig.closed();
    let (_client, new) = rig.client();
    assert_eq!(old.index(), new.index());
    let found = rig.ask(move |conns, _| {
        fill(conns, new, 64 << 10);
        let queued = (conns.queued_bytes(old), 0 < conns.queued_bytes(new));
        (
            conns.session(old).is_some(),
            conns.with(old, |_, _| {}),
            queued,
        )
    });
    assert_eq!(found, (false, false, (0, true)));
}

#[test]
fn the_app_may_refuse() {
    let rig = rig(Manner::Echo, ConnLimits::default());
    rig.ask(|_, app| app.refuse = true);
    let mut client = connect(rig.addr);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(rig.ask(|conns, _| conns.len()), 0);
    rig.until("it is counted", {
        let seen = rig.seen.clone();
        move |_| seen.lock().unwrap().stats.refused == 1
    });
}

/// A crowd whose bytes take long keeps the shard from nothing else: a turn reads for so long, and
/// for less from connections of HTTP/2.
#[test]
fn a_turn_reads_for_some_time_and_no_longer() {
    let rig = rig(Manner::Busy, ConnLimits::default());
    let (mut hello, mut head, mut block) = (Vec::new(), Vec::new(), Vec::new());
    let mut http2 = Conn::client(&H2Limits::USUAL, &mut hello);
    encode_request("GET", "http", "test", "/", None, [], &mut block);
    http2.open(1, &block, true, &mut head).unwrap();
    for (hello, says, reads_max) in [(&hello[..], &head[..], 4), (b"", b"x", 8)] {
        let mut clients: Vec<_> = (0..64).map(|_| rig.client().0).collect();
        let streams = if hello.is_empty() { 0 } else { 64 };
        for client in &mut clients {
            client.write_all(hello).unwrap();
        }
        while rig.seen.lock().unwrap().stats.read_bytes < streams * hello.len() as u64 {
            std::thread::yield_now();
        }
        rig.ask(|_, app| app.reads.1 = 0);
        // All of them have sent something when the next turn begins.
        let held = rig.hold();
        for client in &mut clients {
            client.write_all(says).unwrap();
        }
        drop(held);
        // Everybody's turn comes.
        while rig.ask(|_, app| app.came) < 64 + streams {
            std::thread::yield_now();
        }
        for client in clients.iter_mut().filter(|_| streams == 0) {
            client.read_exact(&mut [0]).unwrap();
        }
        let (_, most) = rig.ask(|_, app| app.reads);
        assert!(most <= reads_max, "{most} reads in one turn");
    }
}
