//! The table under a clock of its own, with sockets of the kernel's.

mod streams;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use throng_types::Millis;

use super::*;
use crate::End;

/// An idle connection's price, without its session: recorded, and not to grow unnoticed.
const SLOT_BYTES: usize = 20;

fn table() -> Conns<u32> {
    Conns::new(
        ShardId(3),
        ConnLimits::default(),
        Linux::new(std::time::Instant::now()).unwrap(),
    )
}

fn accepted(deadline: Option<Millis>) -> Accepted<u32> {
    Accepted {
        session: 5,
        tag: 7,
        deadline,
    }
}

pub(super) fn at(ms: u64) -> Now {
    Now {
        mono: Millis(ms),
        unix_ms: 0,
    }
}

fn delivery(frame: &Frame, gather: bool) -> Delivery<'_> {
    Delivery {
        frames: Pieces::Made(std::slice::from_ref(frame)),
        joined: frame,
        key: 1,
        overflow: Overflow::Close,
        gather,
    }
}

/// A connection to nothing: nobody writes to it.
fn mute(conns: &mut Conns<u32>, deadline: Option<Millis>) -> ConnId {
    let null = std::fs::File::open("/dev/null").unwrap();
    conns.insert(Some(null.into()), accepted(deadline), false)
}

/// A connection in the table and its peer.
fn connection(conns: &mut Conns<u32>, listener: &TcpListener) -> (TcpStream, ConnId) {
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // Only a failing test waits that long.
    let patience = Some(std::time::Duration::from_secs(20));
    peer.set_read_timeout(patience).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    let id = conns.insert(Some(ours.into()), accepted(None), false);
    conns.watch(id.index());
    (peer, id)
}

/// A table with one connection, whose peer the test is.
pub(super) fn alone() -> (Conns<u32>, TcpStream, ConnId) {
    let mut conns = table();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (peer, id) = connection(&mut conns, &listener);
    (conns, peer, id)
}

/// Takes the connections that have closed, with the reasons.
fn gone(conns: &mut Conns<u32>) -> Vec<(ConnId, Closed)> {
    std::iter::from_fn(|| conns.take_closed())
        .map(|(id, _, _, why)| (id, why))
        .collect()
}

#[test]
fn a_slot_is_small() {
    assert_eq!(Conns::<u32>::slot_bytes(), SLOT_BYTES + size_of::<u32>());
    assert!(Conns::<u64>::slot_bytes() <= 32);
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let mut conns = table();
    let frame = Frame::new(b"delivery");
    let delivery = delivery(&frame, true);
    let deadlines = (0..10_000).map(|n| Some(Millis(n * 1000)));
    let ids: Vec<ConnId> = deadlines.map(|at| mute(&mut conns, at)).collect();
    for id in &ids {
        conns.deliver(id.index(), &delivery);
        conns.act(id.index(), |_, _, fx| fx.out.extend([0; 8192]));
    }
    assert_eq!((conns.len(), conns.queues.len()), (10_000, 10_000));
    // A write to what is no socket fails, and that ends each of them.
    for (index, error) in flush(&mut conns).broken {
        conns.fail(index, &error);
    }
    assert_eq!(gone(&mut conns).len(), 10_000);
    assert!(conns.is_empty() && conns.queues.is_empty());
    assert_eq!((conns.slots.bound(), conns.queues.bound()), (0, 0));
    assert!(conns.pool.len() <= POOL);
    let kept = conns.pool.iter().map(Outbound::cost).sum::<usize>();
    let kept = kept + conns.pool.len() * size_of::<Outbound>();
    assert!(kept < 2 << 20, "{kept}");
    assert_eq!(conns.next_deadline(), None);
    let lists = [conns.dirty.capacity(), conns.closed.capacity()];
    assert!(lists.iter().all(|&kept| kept <= LIST_KEPT), "{lists:?}");
    assert!(conns.scratch.capacity() <= 64 << 10);
}

#[test]
fn an_ending_connection_has_time_as_long_as_it_makes_progress() {
    let (mut conns, mut peer, id) = alone();
    let total = 24 << 20;
    conns.set_now(at(1000));
    conns.act(id.index(), |_, _, fx| {
        fx.out.resize(total, 1);
        fx.end(End::Flush);
    });
    let mut now = 1000;
    let mut read = 0;
    let mut buffer = vec![0; 4 << 20];
    // Virtual seconds pass between the steps of a peer that reads.
    while 0 < conns.queued_bytes(id) {
        let before = conns.stats().sent_bytes;
        flush(&mut conns);
        let mut flushed = Flushed::default();
        while conns.stats().sent_bytes == before && 0 < conns.queued_bytes(id) {
            read += peer.read(&mut buffer).unwrap();
            conns.write(id.index(), &mut flushed);
        }
        now += LINGER_MS - 500;
        conns.set_now(at(now));
        assert!(conns.expired().is_empty());
        assert_eq!(gone(&mut conns), []);
    }
    // All has left: from here on the peer has as long to close.
    while read < total {
        read += peer.read(&mut buffer).unwrap();
    }
    assert_eq!(peer.read(&mut buffer).unwrap(), 0);
    conns.set_now(at(now + 2 * LINGER_MS));
    assert!(conns.expired().is_empty());
    assert_eq!(gone(&mut conns), [(id, Closed::ByApp)]);
}

#[test]
fn a_slow_connection_ends_in_time_whatever_it_reads() {
    let mut conns = table();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut reads, quick) = connection(&mut conns, &listener);
    let (mut drips, slow_id) = connection(&mut conns, &listener);
    conns.set_now(at(1000));
    for id in [quick, slow_id] {
        // A frame that begins to leave, and then more than may wait.
        deliver(&mut conns, id, &vec![1; 24 << 20]);
        for _ in 0..3 {
            deliver(&mut conns, id, &vec![2; 1 << 20]);
        }
        assert_eq!(conns.take_slow(), Some(id.index()));
        conns.act_slow(id.index(), |_, _, fx| fx.out.extend(b"slow"));
    }
    assert_eq!((conns.take_slow(), conns.stats().slow), (None, 2));
    let mut flushed = Flushed::default();
    let mut all = vec![0; 24 << 20];
    let mut got = 0;
    while got < all.len() {
        conns.write(quick.index(), &mut flushed);
        got += reads.read(&mut all[got..]).unwrap();
    }
    flush(&mut conns);
    assert_eq!(read(&mut reads, 4), "slow");
    assert_eq!(reads.read(&mut [0]).unwrap(), 0);
    // The other one takes some, which gives it no time.
    conns.set_now(at(1000 + write::SLOW_MS - 1));
    let before = conns.stats().sent_bytes;
    while conns.stats().sent_bytes == before {
        drips.read_exact(&mut all[..1 << 20]).unwrap();
        conns.write(slow_id.index(), &mut flushed);
    }
    assert!(conns.expired().is_empty());
    assert_eq!(gone(&mut conns), []);
    conns.set_now(at(1000 + write::SLOW_MS + 100));
    assert!(conns.expired().is_empty());
    let mut why = gone(&mut conns);
    why.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(why, [(quick, Closed::Slow), (slow_id, Closed::Slow)]);
}

#[test]
fn an_ending_connection_without_progress_goes() {
    let mut conns = table();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_idle, flushed) = connection(&mut conns, &listener);
    let (_deaf, stuck) = connection(&mut conns, &listener);
    let (_half, ended) = connection(&mut conns, &listener);
    conns.act(flushed.index(), |_, _, fx| fx.end(End::Flush));
    for id in [stuck, ended] {
        conns.act(id.index(), |_, _, fx| fx.out.resize(24 << 20, 1));
    }
    conns.act(stuck.index(), |_, _, fx| fx.end(End::Flush));
    conns.read_ended(ended.index());
    flush(&mut conns);
    assert_eq!(gone(&mut conns), []);
    // Actions of the app after the end are ignored.
    conns.act(stuck.index(), |_, _, fx| fx.set_deadline(None));
    conns.set_now(at(LINGER_MS + 100));
    assert!(conns.expired().is_empty());
    let mut why = gone(&mut conns);
    why.sort_unstable_by_key(|(id, _)| *id);
    let expect = [
        (flushed, Closed::ByApp),
        (stuck, Closed::ByApp),
        (ended, Closed::ByPeer),
    ];
    assert_eq!(why, expect);
}

/// The kernel tells of a close once, also while the connection waits for its turn to be read.
#[test]
fn a_close_that_was_told_is_read_up_to() {
    let mut conns = table();
    let index = mute(&mut conns, None).index();
    assert_eq!(conns.may_read(index), Some(false));
    assert!(conns.list(index));
    conns.note_close(index);
    assert_eq!(conns.may_read(index), None);
    assert!(conns.unlist(index));
    assert_eq!(conns.may_read(index), Some(true));
    conns.forget_close(index);
    assert_eq!(conns.may_read(index), Some(false));
}

#[test]
fn a_slot_used_again_inherits_nothing() {
    let mut conns = table();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_peer, old) = connection(&mut conns, &listener);
    conns.act(old.index(), |_, _, fx| {
        fx.out.extend(b"never written");
        fx.set_deadline(Some(Millis(50)));
    });
    assert!(conns.list(old.index()));
    conns.close(old.index(), Closed::ByApp);
    assert_eq!(gone(&mut conns), [(old, Closed::ByApp)]);

    let (mut peer, new) = connection(&mut conns, &listener);
    assert_eq!(new.index(), old.index());
    assert!(!conns.unlist(new.index()), "a stale entry of the list");
    conns.act(new.index(), |_, _, fx| fx.out.extend(b"hello"));
    let stale_and_new = conns.dirty.clone();
    assert_eq!(stale_and_new, [new.index(); 2]);
    flush(&mut conns);
    assert_eq!(conns.stats().writes, 1);
    let mut seen = [0; 5];
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"hello");
    conns.set_now(at(10_000));
    assert!(conns.expired().is_empty());
    peer.write_all(b"x").unwrap();
    assert!(!conns.with(old, |_, _| {}) && conns.with(new, |_, _| {}));
}

fn deliver(conns: &mut Conns<u32>, id: ConnId, text: &[u8]) {
    conns.deliver(id.index(), &delivery(&Frame::new(text), false));
}

/// Only room that the kernel reports leads to another call, whatever is queued meanwhile.
#[test]
fn a_blocked_connection_costs_no_calls_while_more_is_queued() {
    let (mut conns, mut peer, id) = alone();
    let mut all = 0;
    while conns.queued_bytes(id) == 0 {
        deliver(&mut conns, id, &[b'x'; 64 << 10]);
        flush(&mut conns);
        all += 64 << 10;
    }
    let before = conns.stats().writes;
    for _ in 0..1000 {
        deliver(&mut conns, id, b"more");
        flush(&mut conns);
        all += b"more".len();
    }
    assert_eq!(conns.stats().writes, before);
    let (mut got, mut flushed) = (0, Flushed::default());
    let mut buffer = vec![0; 4 << 20];
    while got < all {
        got += peer.read(&mut buffer).unwrap();
        conns.write(id.index(), &mut flushed);
    }
    assert_eq!(conns.queued_bytes(id), 0);
}

fn flush(conns: &mut Conns<u32>) -> Flushed {
    let mut flushed = Flushed::default();
    conns.flush(&mut flushed);
    flushed
}

fn read(peer: &mut TcpStream, bytes: usize) -> String {
    let mut seen = vec![0; bytes];
    peer.read_exact(&mut seen).unwrap();
    String::from_utf8(seen).unwrap()
}

#[test]
fn held_deliveries_wait_for_the_first_words_and_for_nothing_else() {
    let (mut conns, mut peer, id) = alone();
    conns.act(id.index(), |_, _, fx| {
        fx.out.extend(b"head ");
        fx.hold(true);
    });
    // All of it leaves, and the hold goes on.
    flush(&mut conns);
    deliver(&mut conns, id, b"first ");
    flush(&mut conns);
    conns.act(id.index(), |_, _, fx| fx.out.extend(b"words "));
    flush(&mut conns);
    assert_eq!(read(&mut peer, 11), "head words ");
    assert_eq!(conns.queued_bytes(id), 6);
    conns.act(id.index(), |_, _, fx| {
        fx.out.extend(b"stand ");
        fx.hold(false);
    });
    flush(&mut conns);
    assert_eq!(read(&mut peer, 12), "stand first ");
    assert!(conns.queues.is_empty());
}

#[test]
fn own_bytes_leave_a_held_queue_that_was_blocked() {
    let (mut conns, mut peer, id) = alone();
    let large = 24 << 20;
    conns.act(id.index(), |_, _, fx| fx.hold(true));
    deliver(&mut conns, id, b"held");
    conns.act(id.index(), |_, _, fx| fx.out.resize(large, b'x'));
    flush(&mut conns);
    let mut read_bytes = 0;
    let mut buffer = vec![0; 4 << 20];
    let mut flushed = Flushed::default();
    while read_bytes < large {
        read_bytes += peer.read(&mut buffer).unwrap();
        conns.write(id.index(), &mut flushed);
    }
    conns.act(id.index(), |_, _, fx| fx.out.extend(b"own"));
    flush(&mut conns);
    assert_eq!(read(&mut peer, 3), "own");
    conns.act(id.index(), |_, _, fx| fx.hold(false));
    let flushed = flush(&mut conns);
    assert_eq!(read(&mut peer, 4), "held");
    assert_eq!(flushed.drained, [(id.index(), 0)]);
}

#[test]
fn a_held_connection_can_end_and_leaves_no_hold_behind() {
    let mut conns = table();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for by_peer in [false, true] {
        let (mut peer, id) = connection(&mut conns, &listener);
        conns.act(id.index(), |_, _, fx| fx.hold(true));
        deliver(&mut conns, id, b"never");
        conns.act(id.index(), |_, _, fx| fx.out.extend(b"bye"));
        if by_peer {
            conns.read_ended(id.index());
        } else {
            conns.act(id.index(), |_, _, fx| fx.end(End::Flush));
        }
        flush(&mut conns);
        if !by_peer {
            conns.read_ended(id.index());
        }
        let why = if by_peer {
            Closed::ByPeer
        } else {
            Closed::ByApp
        };
        assert_eq!(gone(&mut conns), [(id, why)]);
        let mut seen = String::new();
        peer.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "bye");
    }
    // One that fails while it is held.
    let (_peer, id) = connection(&mut conns, &listener);
    conns.act(id.index(), |_, _, fx| fx.hold(true));
    deliver(&mut conns, id, b"never");
    conns.close(id.index(), Closed::ByApp);
    gone(&mut conns);
    // The next one has its queue.
    let (mut peer, id) = connection(&mut conns, &listener);
    conns.act(id.index(), |_, _, fx| fx.out.extend(b"own "));
    deliver(&mut conns, id, b"frame");
    flush(&mut conns);
    assert_eq!(read(&mut peer, 9), "own frame");
}

#[test]
fn held_deliveries_can_be_forgotten_and_the_connection_goes_on() {
    let (mut conns, mut peer, id) = alone();
    conns.act(id.index(), |_, _, fx| fx.hold(true));
    deliver(&mut conns, id, b"first ");
    // What is held before and after the last words never leaves.
    conns.act(id.index(), |_, _, fx| {
        fx.out.extend(b"end ");
        fx.actions.forget_held = true;
        fx.hold(true);
    });
    deliver(&mut conns, id, b"second ");
    flush(&mut conns);
    assert_eq!(conns.queued_bytes(id), 7);
    conns.act(id.index(), |_, _, fx| fx.actions.forget_held = true);
    flush(&mut conns);
    // Nothing waits, so a connection that stopped reading for it reads on.
    assert!(conns.queues.is_empty());
    deliver(&mut conns, id, b"third");
    flush(&mut conns);
    assert_eq!(read(&mut peer, 9), "end third");
}

const BOUND: usize = 1 << 20;
const PIECE: usize = 100_000;

/// Connections to nothing: nobody writes in these tests.
struct Crowd {
    conns: Conns<u32>,
    ids: Vec<ConnId>,
}

impl Crowd {
    fn new(count: usize) -> Self {
        let mut conns = table();
        conns.set_limits(ConnLimits {
            queued_bytes_max: BOUND,
            ..ConnLimits::default()
        });
        let ids = (0..count).map(|_| mute(&mut conns, None)).collect();
        Self { conns, ids }
    }

    fn at(&mut self, ms: u64) {
        self.conns.set_now(at(ms));
    }

    fn reply(&mut self, who: usize, bytes: usize) {
        let act = |_, _: &mut u32, fx: &mut Effects<'_>| fx.out.resize(bytes, 1);
        self.conns.act(self.ids[who].index(), act);
    }

    fn deliver(&mut self, who: usize, frame: &Frame) {
        let delivery = delivery(frame, true);
        self.conns.deliver(self.ids[who].index(), &delivery);
    }

    fn held(&self) -> usize {
        { self.conns.queues.iter() }
            .map(|(_, queue)| queue.cost())
            .sum()
    }

    /// The places of those that ended, and of those that are gone.
    fn ended(&mut self) -> (Vec<usize>, Vec<usize>) {
        let place = |index: u32| self.ids.iter().position(|id| id.index() == index);
        let slow = std::iter::from_fn(|| self.conns.take_slow());
        let mut slow: Vec<usize> = slow.filter_map(place).collect();
        slow.sort_unstable();
        let closed = self.conns.closed.iter();
        let mut closed: Vec<usize> = closed.filter_map(|(index, _)| place(*index)).collect();
        closed.sort_unstable();
        (slow, closed)
    }
}

#[test]
fn all_queues_together_have_a_bound() {
    let mut crowd = Crowd::new(100);
    for who in 0..100 {
        crowd.at(who as u64);
        crowd.reply(who, PIECE);
        assert!(crowd.held() <= BOUND + BOUND / 16 + 2 * PIECE, "{who}");
    }
    let (slow, closed) = crowd.ended();
    // So much at the head is not waited for.
    assert_eq!(slow, closed);
    assert!((88..96).contains(&closed.len()), "{closed:?}");
    assert_eq!(crowd.conns.stats().crowded, closed.len() as u64);
    assert_eq!(crowd.conns.stats().slow, closed.len() as u64);
    // One that stood longest went before one that came last.
    assert!(closed.contains(&0) && !closed.contains(&99), "{closed:?}");
}

#[test]
fn a_shorter_queue_and_one_that_moves_stay() {
    let mut crowd = Crowd::new(12);
    crowd.at(1_000);
    for who in 0..9 {
        crowd.reply(who, PIECE);
    }
    // The last one has most, and the kernel takes of it; the one before has little.
    crowd.reply(10, PIECE / 10);
    crowd.reply(11, 2 * PIECE / 3);
    crowd.at(20_000);
    let out = crowd
        .conns
        .slots
        .get(crowd.ids[11].index())
        .expect("it is there");
    let queue = crowd.conns.queues.get_mut(out.out).expect("bytes wait");
    queue.moved_at = Millis(20_000);
    crowd.reply(11, 2 * PIECE / 3);
    crowd.reply(9, PIECE);
    let (slow, closed) = crowd.ended();
    assert_eq!(slow, closed);
    assert!(
        !closed.is_empty() && closed.iter().all(|who| *who < 9),
        "{closed:?}"
    );
}

#[test]
fn what_queues_share_counts_once() {
    let mut crowd = Crowd::new(100);
    crowd.at(1_000);
    for _ in 0..5 {
        let shared = Frame::new(&[1; PIECE]);
        for who in 0..80 {
            crowd.deliver(who, &shared);
        }
    }
    assert_eq!(crowd.ended(), (vec![], vec![]));
    let mut told = Vec::new();
    for who in 80..100 {
        // The first frame is short, and leaves time for a last word.
        crowd.deliver(who, &Frame::new(&[1; 100]));
        crowd.deliver(who, &Frame::new(&[1; PIECE]));
        let (slow, closed) = crowd.ended();
        assert!(closed.is_empty(), "{closed:?}");
        told.extend(slow);
    }
    assert!(
        !told.is_empty() && told.iter().all(|who| *who >= 80),
        "{told:?}"
    );
    assert!(crowd.held() <= BOUND + BOUND / 16 + PIECE);
    // A last word is behind what had begun, and nothing else.
    let index = crowd.ids[told[0]].index();
    crowd
        .conns
        .act_slow(index, |_, _, fx| fx.out.extend(b"slow"));
    assert_eq!(crowd.conns.queued_bytes(crowd.ids[told[0]]), 100 + 4);
}

#[test]
fn preferred_connections_end_last() {
    let mut crowd = Crowd::new(30);
    crowd.at(1_000);
    let first = crowd.ids[0];
    crowd.conns.prefer(first);
    crowd.reply(0, 5 * PIECE);
    crowd.at(50_000);
    for who in 1..30 {
        crowd.reply(who, PIECE);
    }
    let (_, closed) = crowd.ended();
    assert!(!closed.is_empty() && !closed.contains(&0), "{closed:?}");
    // Alone it has no more than all.
    crowd.at(51_000);
    for _ in 0..20 {
        crowd.reply(0, PIECE);
    }
    assert!(crowd.ended().1.contains(&0));
    assert!(crowd.held() <= BOUND);
}

#[test]
fn a_connection_whose_peer_does_not_read_stays_behind() {
    let mut crowd = Crowd::new(3);
    crowd.at(1_000);
    crowd.reply(0, write::UNMOVED_BYTES);
    crowd.reply(1, write::UNMOVED_BYTES - 1);
    for (ms, count) in [
        (1_000 + write::UNMOVED_MS - 1, 3),
        (1_000 + write::UNMOVED_MS, 2),
    ] {
        crowd.at(ms);
        assert_eq!(crowd.conns.movable().len(), count);
    }
}
