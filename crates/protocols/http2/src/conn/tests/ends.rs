//! Both roles against each other, and against any bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::encode_request;

const LIMITS: H2Limits = H2Limits {
    http: HttpLimits {
        head_bytes_max: 16 * 1024,
        headers_max: 64,
        body_bytes_max: 1 << 20,
    },
    streams_max: 3,
    stream_window: 900,
    connection_window: 65_535,
};

/// Counts of one stream on one side.
#[derive(Default)]
struct Body {
    /// Bytes that its owner has and no window let through.
    waits: usize,
    /// No more will come; the end itself has gone.
    ends: bool,
    ended: bool,
    sent: usize,
    received: usize,
    has_end: bool,
    taken: usize,
}

struct Side {
    limits: H2Limits,
    conn: Conn,
    scratch: Scratch,
    out: Vec<u8>,
    bodies: BTreeMap<u32, Body>,
    /// Data of all streams is counted, so that a byte in a wrong place shows.
    gone: Vec<u32>,
}

/// Byte of a body at an offset.
const fn byte_at(id: u32, at: usize) -> u8 {
    (at as u8).wrapping_mul(7).wrapping_add(id as u8)
}

impl Side {
    fn new(limits: H2Limits, begin: fn(&H2Limits, &mut Vec<u8>) -> Conn) -> Self {
        let mut out = Vec::new();
        Self {
            limits,
            conn: begin(&limits, &mut out),
            out,
            scratch: Scratch::default(),
            bodies: BTreeMap::new(),
            gone: Vec::new(),
        }
    }

    fn read(&mut self, mut input: &[u8]) {
        while !input.is_empty() {
            let (scratch, out) = (&mut self.scratch, &mut self.out);
            let event = self
                .conn
                .read(&mut input, Millis(0), &self.limits, scratch, out);
            match event.expect("both keep the rules") {
                None | Some(H2Event::Writable | H2Event::GoAway { .. }) => {}
                Some(H2Event::Request { id, ends, .. }) => {
                    let body = self.bodies.entry(id).or_default();
                    body.has_end = ends;
                    self.conn.set_tag(id, id + 1);
                }
                Some(H2Event::Response { id, tag, ends, .. }) => {
                    assert_eq!(tag, id + 1);
                    self.bodies.get_mut(&id).expect("it was opened").has_end = ends;
                }
                Some(H2Event::Data {
                    id,
                    tag,
                    data,
                    ends,
                }) => {
                    assert_eq!(tag, id + 1);
                    let body = self.bodies.get_mut(&id).expect("it lives");
                    assert!(!body.has_end);
                    for &byte in data {
                        assert_eq!(byte, byte_at(id, body.received));
                        body.received += 1;
                    }
                    body.has_end = ends;
                }
                Some(H2Event::Trailers { .. }) => panic!("nobody sends trailers"),
                Some(H2Event::Reset { id, .. }) => {
                    self.bodies.remove(&id);
                    self.gone.push(id);
                }
            }
        }
    }

    /// Sends what windows let through.
    fn write(&mut self, id: u32) {
        let Some(body) = self.bodies.get_mut(&id) else {
            return;
        };
        if body.ended || (body.waits == 0 && !body.ends) {
            return;
        }
        let bytes = self.conn.data(id, body.waits, body.ends, &mut self.out);
        let sent = body.sent..body.sent + bytes;
        self.out.extend(sent.map(|at| byte_at(id, at)));
        body.sent += bytes;
        body.waits -= bytes;
        body.ended = body.ends && body.waits == 0;
    }

    fn write_all(&mut self) {
        while let Some((id, tag)) = self.conn.next_writable() {
            assert_eq!(tag, id + 1);
            self.write(id);
        }
    }

    fn take(&mut self, id: u32) {
        if let Some(body) = self.bodies.get_mut(&id) {
            let bytes = body.received - body.taken;
            body.taken = body.received;
            self.conn.took(id, bytes, &mut self.out);
        }
    }

    fn nth(&self, n: u8) -> Option<u32> {
        let count = self.bodies.len().max(1);
        self.bodies.keys().nth(usize::from(n) % count).copied()
    }
}

/// Carries an order of a property out; `n` chooses among streams and sizes.
fn act(order: u8, n: u8, sides: &mut [Side; 2]) {
    let [client, server] = sides;
    let mut block = Vec::new();
    match order {
        0 => {
            encode_request("POST", "http", "h", "/", None, [], &mut block);
            let tag = client.conn.next + 1;
            let id = client.conn.open(tag, &block, false, &mut client.out);
            if let Some(id) = id {
                client.bodies.insert(id, Body::default());
            }
        }
        1 => {
            if let Some(id) = server.nth(n)
                && server.bodies[&id].sent == 0
                && server.bodies[&id].waits == 0
            {
                encode_response(200, [], &mut block);
                server.conn.head(id, &block, false, &mut server.out);
                server.bodies.get_mut(&id).expect("it lives").waits = 1;
                server.write(id);
            }
        }
        2 | 3 => {
            let side = &mut sides[usize::from(order - 2)];
            let is_server = order == 3;
            let found = side.nth(n);
            let ready = found.filter(|id| !is_server || side.bodies[id].sent > 0);
            if let Some(id) = ready
                && let Some(body) = side.bodies.get_mut(&id)
                && !body.ends
            {
                body.waits += usize::from(n) * usize::from(n);
                body.ends = n.is_multiple_of(5);
                side.write(id);
            }
        }
        4 | 5 => {
            let side = &mut sides[usize::from(order - 4)];
            if let Some(id) = side.nth(n) {
                side.take(id);
            }
        }
        6 | 7 if n.is_multiple_of(4) => {
            let side = &mut sides[usize::from(order - 6)];
            if let Some(id) = side.nth(n / 4) {
                side.conn.release(id, &mut side.out);
                side.bodies.remove(&id);
                side.gone.push(id);
            }
        }
        8 => carry(sides, 0, usize::from(n) * 9),
        9 => carry(sides, 1, usize::from(n) * 9),
        _ => sides.iter_mut().for_each(Side::write_all),
    }
}

/// Brings bytes of one side to the other.
fn carry(sides: &mut [Side; 2], from: usize, bytes: usize) {
    let bytes = bytes.min(sides[from].out.len());
    let wire: Vec<u8> = sides[from].out.drain(..bytes).collect();
    sides[1 - from].read(&wire);
}

proptest! {
    #[test]
    fn two_ends_agree(
        orders in prop::collection::vec((0_u8..11, any::<u8>()), 0..160),
        stream_window in prop::sample::select(vec![900, 60_000]),
    ) {
        let limits = H2Limits { stream_window, ..LIMITS };
        let mut sides = [Side::new(limits, Conn::client), Side::new(limits, Conn::server)];
        carry(&mut sides, 1, usize::MAX);
        for (order, n) in orders {
            act(order, n, &mut sides);
            if n.is_multiple_of(16) {
                for side in &mut sides {
                    let saved = side.conn.saved();
                    side.conn = Conn::load_whole(&saved).expect("what was saved");
                }
            }
        }
        // Everything arrives once all is taken and carried, however many windows it takes.
        let mut moved = true;
        while moved {
            moved = false;
            for at in [0, 1] {
                sides[at].write_all();
                let ids: Vec<u32> = sides[at].bodies.keys().copied().collect();
                for id in ids {
                    sides[at].take(id);
                }
                moved |= !sides[at].out.is_empty();
                carry(&mut sides, at, usize::MAX);
            }
        }
        let [client, server] = &sides;
        for (from, to) in [(client, server), (server, client)] {
            prop_assert!(from.out.is_empty());
            prop_assert_eq!(from.conn.send, to.conn.recv as i32);
            for (id, body) in &from.bodies {
                prop_assert_eq!(body.waits, 0, "of {}", id);
                if let Some(other) = to.bodies.get(id) {
                    prop_assert_eq!(body.sent, other.received);
                    prop_assert_eq!(body.ended, other.has_end);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_the_same_in_any_cut(
        parts in prop::collection::vec(prop::sample::select(vec![
            "get 1 / end", "get 3 /", "post 5 / | content-length 3", "data 5 abc",
            "data 5 padded a", "data 3 end", "headers 3 end | a b", "headers 7 more | :method GET",
            "continuation 7 | a b", "settings 4=5", "settings ack", "window 0 9", "window 3 9",
            "reset 1 8", "ping x", "goaway 0 0", "priority 1 3", "data 9 x",
            "bytes \\x00\\x00\\x02\\x30\\x00\\x00\\x00\\x00\\x00ab",
        ]), 0..12),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in 1_usize..40,
    ) {
        let mut wire = wire_of("hello");
        wire.extend(parts.iter().flat_map(|part| wire_of(part)));
        for (at, byte) in noise {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        let read = |cut, saves| {
            let mut room = Room::new(cut, saves);
            room.feed(&wire);
            (room.events, room.out)
        };
        let whole = read(usize::MAX, false);
        prop_assert_eq!(&read(cut, false), &whole);
        prop_assert_eq!(&read(cut, true), &whole);
    }
    #[test]
    fn saved_bytes_that_are_wrong_do_no_harm(
        cut in any::<prop::sample::Index>(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        client in any::<bool>(),
    ) {
        let steps: &[&str] = if client {
            &["client", "open 7 end /", "open 8 /", "send 3 100000", "> headers 1 | :status 200"]
        } else {
            &["server", "> post 1 /", "> get 3 / end", "send 3 99999", "> data 1 abc"]
        };
        let mut room = Room::new(usize::MAX, false);
        steps.iter().for_each(|step| room.step(step));
        let more = ["data 1 padded abc", "headers 5 more | a b", "continuation 5 | c d"];
        let more = [&more[..], &["data 1 end x", "reset 3 8", "settings 4=9", "window 0 9"]];
        let more: Vec<u8> = more.concat().iter().flat_map(|frame| wire_of(frame)).collect();
        let (begin, rest) = more.split_at(cut.index(more.len()));
        room.feed(begin);
        let mut saved = room.conn.saved();
        for (at, byte) in wrong {
            let at = at.index(saved.len());
            saved[at] = byte;
        }
        if let Some(conn) = Conn::load_whole(&saved) {
            room.conn = conn;
            room.feed(rest);
            for id in [1, 3] {
                room.conn.took(id, 5, &mut room.out);
                room.conn.data(id, 5, true, &mut room.out);
                room.conn.release(id, &mut room.out);
            }
        }
    }
}
