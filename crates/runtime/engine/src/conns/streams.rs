//! Streams: connections that have a part of another one, their carrier, in the place of a socket
//! (HTTP/2, RFC 9113).
//!
//! A stream is in the table as any connection, with a session, a deadline and a queue. Its session
//! speaks HTTP/1.1: the carrier's frames become the head and the body of a request, and what the
//! session answers waits in the stream's queue as it is. It becomes HEADERS and DATA when windows
//! and the carrier's queue have room. So queues hold, drop and count the same things as those of
//! sockets, and chunks, which only HTTP/1.1 needs, are taken off on the way.
//!
//! A payload is copied once, behind the head of its frame: most are small, and what waits in a
//! carrier's queue is bounded. What waits in a stream's queue is shared, as everywhere.
//!
//! Owns each carrier's state of HTTP/2 and each stream's place in it. Never: decides who speaks
//! HTTP/2; the app does, by a connection's first bytes ([`throng_types::Actions::http2`]).
//!
//! Invariants
//! - A carrier's queue takes nothing of streams while more than [`CARRIER_BYTES`] wait there, but
//!   for the frame that exceeds it. Streams that have more wait in turn.
//! - A stream ends with its answer: with END_STREAM if that is whole, with RST_STREAM if not.
//! - The carrier's own session never hears of bytes or deadlines; what ends it lets the streams
//!   end first.

use std::mem;
use std::net::IpAddr;

use throng_http1::{LAST_CHUNK, encode_chunk};
use throng_http2::{Code, Conn, FRAME_BYTES_MAX};
use throng_types::{ConnId, Save};

use super::carrier::{
    CARRIER_BYTES, Carrier, Heard, Moved, NOT_BEGUN, NewStream, Part, Ride, Stop, StreamNews, hear,
    is, unframe,
};
use super::{Conns, Delivery, Flushed, NO_QUEUE, flag};
use crate::outbound::Outbound;
use crate::{Accepted, Closed, Kernel};

/// Streams that go on at once when a carrier's queue has room again.
const AT_ONCE: usize = 256;

impl<S, K: Kernel> Conns<S, K> {
    // ---- carriers ----

    /// Speaks HTTP/2 on a connection from now on, for clients at an address.
    pub(super) fn begin_carrier(&mut self, index: u32, peer: IpAddr) {
        let mut out = mem::take(&mut self.streams.out);
        let conn = Conn::server(&self.limits.http2, &mut out);
        self.begin_carrier_of(index, conn, peer, out);
        self.set_carrier_deadline(index);
    }

    #[inline]
    pub(crate) fn is_carrier(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.has(flag::CARRIER))
    }

    /// Whether HTTP/2 has just begun on a connection.
    #[inline]
    pub(crate) const fn has_begun_http2(&self) -> bool {
        !self.streams.first.is_empty()
    }

    /// Takes the bytes that it begins with.
    pub(crate) fn take_first(&mut self) -> Vec<u8> {
        mem::take(&mut self.streams.first)
    }

    /// Queues what a carrier says, and keeps the buffer.
    pub(super) fn say(&mut self, carrier: u32, mut out: Vec<u8>) {
        let gone = flag::CLOSED | flag::ENDING | flag::LINGERING;
        if !out.is_empty() && self.slots.get(carrier).is_some_and(|slot| !slot.has(gone)) {
            let queue = self.queue_mut(carrier);
            queue.push_own(&out);
            if !queue.blocked {
                self.mark_dirty(carrier);
            }
            self.sum.note(out.len());
            self.keep_bound();
        }
        out.clear();
        out.shrink_to(64 << 10);
        self.streams.out = out;
    }

    /// Lets a carrier act, and queues what it says.
    pub(super) fn with_carrier<R>(
        &mut self,
        carrier: u32,
        act: impl FnOnce(&mut Carrier, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let mut out = mem::take(&mut self.streams.out);
        let result = { self.streams.carriers.get(carrier) }.map(|it| act(it, &mut out));
        self.say(carrier, out);
        result
    }

    pub(crate) fn set_carrier_deadline(&mut self, index: u32) {
        let now = self.now.mono;
        let slot = self
            .slots
            .get(index)
            .filter(|slot| !slot.has(flag::LEAVING));
        if slot.is_some()
            && let Some(carrier) = self.streams.carriers.get(index)
        {
            let whole_at = { carrier.whole_at }.unwrap_or(now + self.limits.frame_timeout_ms);
            carrier.whole_at = carrier.conn.is_mid_head().then_some(whole_at);
            let idle_at = now + self.limits.idle_timeout_ms;
            let idle = (carrier.conn.streams() == 0).then_some(idle_at);
            self.wheel.set(index, carrier.whole_at.or(idle));
        }
    }

    /// Ends a carrier whose deadline has come: it has no streams, or its peer does not go on.
    pub(super) fn carrier_is_late(&mut self, index: u32) {
        if self.is_connecting(index) {
            return self.close(index, Closed::ByApp);
        }
        self.with_carrier(index, |carrier, out| match carrier.whole_at {
            Some(_) => carrier.conn.close(Code::ENHANCE_YOUR_CALM, "too slow", out),
            None => carrier.conn.close(Code::NO_ERROR, "", out),
        });
        self.end_carrier(index);
    }

    /// Asks a carrier's peer to open no more streams. The carrier ends with its last one.
    pub(super) fn drain_carrier(&mut self, index: u32) {
        let is_done = self.with_carrier(index, |carrier, out| {
            carrier.conn.drain(out);
            carrier.conn.is_done()
        });
        if is_done == Some(true) {
            self.end_after_flush(index);
        }
    }

    /// Ends a carrier and all its streams, once what it has said has left.
    fn end_carrier(&mut self, index: u32) {
        self.close_streams(index, Closed::ByPeer);
        self.end_after_flush(index);
    }

    /// Closes the streams of a carrier that ends.
    pub(super) fn close_streams(&mut self, carrier: u32, why: Closed) {
        let Some(it) = self.streams.carriers.peek(carrier) else {
            return;
        };
        // Requests of ours that wait for room have no stream yet.
        let unasked = it.waiting.iter().map(|&stream| (NOT_BEGUN, stream));
        let tags: Vec<(u32, u32)> = it.conn.tags().chain(unasked).collect();
        for (id, tag) in tags {
            let ride = self.streams.rides.peek(tag);
            if ride.is_some_and(|ride| (ride.carrier, ride.id) == (carrier, id)) {
                self.close(tag, why);
            }
        }
    }

    /// Lets streams go on that waited for room in their carrier's queue: some of them, and others
    /// when that is written.
    pub(super) fn carrier_has_room(&mut self, index: u32) {
        for _ in 0..AT_ONCE {
            let carrier = self.streams.carriers.get(index);
            let Some(stream) = carrier.and_then(|it| it.waiting.pop_front()) else {
                break;
            };
            if let Some(ride) = self
                .streams
                .rides
                .get(stream)
                .filter(|it| it.carrier == index)
            {
                ride.flags &= !is::WAITING;
                self.mark_dirty(stream);
            }
        }
    }

    // ---- input ----

    /// Takes one step of what was read from a carrier, with bytes for a session in `bytes`. To be
    /// called until `input` is empty and nothing is told.
    pub(crate) fn read_frames(
        &mut self,
        index: u32,
        input: &mut &[u8],
        bytes: &mut Vec<u8>,
    ) -> StreamNews {
        let (limits, now) = (self.limits.http2, self.now.mono);
        let mut scratch = mem::take(&mut self.streams.scratch);
        let heard = self.with_carrier(index, |carrier, out| {
            let conn = &mut carrier.conn;
            let is_new = conn.is_client() && !conn.is_settled();
            let step = conn.read(input, now, &limits, &mut scratch, out);
            let heard = step.map(|event| event.map_or(Heard::Nothing, |event| hear(event, bytes)));
            // What comes next has its own time.
            if !conn.is_mid_head() {
                carrier.whole_at = None;
            }
            match heard {
                Ok(Heard::Nothing) if is_new && conn.is_settled() => Ok(Heard::Settled),
                heard => heard,
            }
        });
        self.streams.scratch = scratch;
        match heard {
            Some(Ok(Heard::Nothing)) => StreamNews::Nothing,
            Some(Ok(Heard::Settled)) => StreamNews::Settled,
            Some(Ok(Heard::Begins(stream))) => StreamNews::Begins(stream),
            Some(Ok(Heard::Answer { tag, ends })) => self.answer_came(index, (tag, ends), bytes),
            Some(Ok(Heard::Gone(stream))) => StreamNews::Gone(stream),
            Some(Ok(Heard::Bytes { tag, ends })) => {
                let came = bytes.len();
                let Some(ride) = { self.streams.rides.get(tag) }.filter(|it| it.carrier == index)
                else {
                    return StreamNews::Nothing;
                };
                if ride.has(is::CHUNKED) {
                    let data = mem::take(bytes);
                    encode_chunk(&data, bytes);
                    if ends {
                        bytes.extend_from_slice(LAST_CHUNK);
                    }
                }
                ride.flags |= if ends { is::HEARD } else { 0 };
                StreamNews::Bytes { stream: tag, came }
            }
            Some(Ok(Heard::Writable)) => {
                while let Some(carrier) = self.streams.carriers.get(index)
                    && let Some((_, tag)) = carrier.conn.next_writable()
                {
                    self.mark_dirty(tag);
                }
                StreamNews::Nothing
            }
            Some(Ok(Heard::GoAway { last })) => {
                self.close_unserved(index, last);
                let carrier = self.streams.carriers.peek(index);
                if carrier.is_some_and(|carrier| carrier.conn.is_done()) {
                    self.end_after_flush(index);
                }
                StreamNews::Nothing
            }
            Some(Err(_)) => {
                self.stats.http2_faults += 1;
                self.end_carrier(index);
                StreamNews::Broken
            }
            None => StreamNews::Broken,
        }
    }

    /// Refuses a stream that the app does not accept.
    pub(crate) fn refuse_stream(&mut self, carrier: u32, stream: &NewStream) {
        self.with_carrier(carrier, |it, out| {
            it.conn.reset(stream.id, Code::REFUSED_STREAM, out);
        });
    }

    /// Puts a stream into the table.
    pub(crate) fn insert_stream(
        &mut self,
        carrier: u32,
        stream: &NewStream,
        accepted: Accepted<S>,
    ) -> ConnId {
        let id = self.insert(None, accepted, false);
        let over = self.slots.get(carrier).map_or(0, |slot| {
            let secure = if slot.has(flag::SECURE) {
                flag::OVER_TLS
            } else {
                0
            };
            secure | slot.flags & flag::PREFERRED
        });
        if let Some(slot) = self.slots.get_mut(id.index()) {
            slot.flags |= flag::STREAM | over;
        }
        let ride = Ride {
            carrier,
            id: stream.id,
            part: match stream.flags & is::OURS {
                0 => Part::Head,
                _ => Part::Ask,
            },
            flags: stream.flags,
        };
        self.streams.rides.insert(id.index(), ride);
        if let Some(carrier) = self.streams.carriers.get(carrier) {
            carrier.conn.set_tag(stream.id, id.index());
        }
        id
    }

    #[inline]
    pub(crate) fn is_stream(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.has(flag::STREAM))
    }

    /// Whether the stream's session takes bytes now. If it does not, they are kept for it; if it
    /// will take none any more, they are gone.
    pub(crate) fn takes_bytes(&mut self, index: u32, came: usize, bytes: &[u8]) -> bool {
        if self.is_ending(index) {
            self.took(index, came);
            return false;
        }
        let is_held = self.streams.held.contains_key(&index);
        let takes = !is_held && self.may_read(index).is_some();
        if !takes {
            let held = self.streams.held.entry(index).or_default();
            held.came += came;
            held.bytes.extend_from_slice(bytes);
        }
        takes
    }

    /// Takes the bytes that a stream's session did not take before; none if it still does not.
    pub(crate) fn take_held(&mut self, index: u32) -> Option<(Vec<u8>, usize)> {
        self.may_read(index)?;
        let held = self.streams.held.remove(&index)?;
        Some((held.bytes, held.came))
    }

    /// The session has taken what came: its peer may send as much again. Ends a tunnel whose peer
    /// has said all.
    pub(crate) fn took(&mut self, index: u32, came: usize) {
        let Some(ride) = self.streams.rides.peek(index) else {
            return;
        };
        let (carrier, id) = (ride.carrier, ride.id);
        let has_ended = ride.flags & (is::TUNNEL | is::OURS) != 0 && ride.has(is::HEARD);
        if came > 0 {
            self.with_carrier(carrier, |it, out| it.conn.took(id, came, out));
        }
        if has_ended && !self.is_ending(index) {
            self.read_ended(index);
        }
    }

    pub(super) fn stream_peer(&self, index: u32) -> Option<IpAddr> {
        let ride = self.streams.rides.peek(index)?;
        Some(self.streams.carriers.peek(ride.carrier)?.peer)
    }

    // ---- output ----

    /// Counts the bytes that a carrier's queue takes from streams now.
    fn carrier_room(&self, carrier: u32) -> usize {
        let slot = self.slots.get(carrier);
        let queue = slot.and_then(|slot| self.queues.get(slot.out));
        CARRIER_BYTES.saturating_sub(queue.map_or(0, Outbound::bytes))
    }

    /// Hands deliveries to a stream, as [`Conns::deliver`] does: straight into the carrier's queue
    /// if nothing waits for the stream and nothing is to gather.
    #[inline(never)]
    pub(super) fn deliver_stream(&mut self, index: u32, delivery: &Delivery<'_>) {
        let slot = self.slots.get(index);
        let is_free = !delivery.gather && slot.is_some_and(|slot| slot.out == NO_QUEUE);
        if !(is_free && self.send_at_once(index, delivery.joined)) {
            return self.queue_frames(index, delivery.frames.each(), delivery);
        }
        self.stats.deliveries += delivery.frames.len() as u64;
    }

    /// Puts a piece of a body into the carrier's queue; false if it has to wait.
    fn send_at_once(&mut self, index: u32, bytes: &[u8]) -> bool {
        let Some(ride) = self
            .streams
            .rides
            .get(index)
            .filter(|ride| !ride.has(is::WAITING))
        else {
            return false;
        };
        let (carrier, id) = (ride.carrier, ride.id);
        let Part::Body(_) = &ride.part else {
            return false;
        };
        let room = self
            .streams
            .carriers
            .peek(carrier)
            .map_or(0, |it| it.conn.room(id));
        if bytes.len() > room.min(FRAME_BYTES_MAX) || self.carrier_room(carrier) < bytes.len() {
            return false;
        }
        let mut payload = mem::take(&mut self.streams.payload);
        let Some(ride) = self.streams.rides.get(index) else {
            return false;
        };
        let Part::Body(body) = &mut ride.part else {
            return false;
        };
        payload.clear();
        let is_read = unframe(body, bytes, &mut payload).is_some();
        if is_read {
            self.with_carrier(carrier, |it, out| {
                it.conn.data(id, payload.len(), false, out);
                out.extend_from_slice(&payload);
            });
        }
        self.streams.payload = payload;
        is_read
    }

    /// Moves one frame of what waits for a stream into its carrier's queue.
    #[inline(never)]
    pub(super) fn write_stream(&mut self, index: u32, flushed: &mut Flushed) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let (out, is_leaving) = (slot.out, slot.has(flag::LEAVING));
        let is_secure = slot.has(flag::OVER_TLS);
        let Some(queue) = self.queues.get_mut(out) else {
            if is_leaving {
                self.written(index);
            }
            return;
        };
        queue.lagged |= queue.blocked;
        let Some(carrier) = self.streams.rides.peek(index).map(|ride| ride.carrier) else {
            return;
        };
        if self.carrier_room(carrier) == 0 {
            return self.wait_for_carrier(index, carrier, flushed);
        }
        let Some(queue) = self.queues.get_mut(out) else {
            return;
        };
        let before = queue.bytes();
        let mut queue = mem::take(queue);
        let mut payload = mem::take(&mut self.streams.payload);
        let mut said = mem::take(&mut self.streams.out);
        let stop = match (
            self.streams.rides.get(index),
            self.streams.carriers.get(carrier),
        ) {
            (Some(ride), Some(it)) => {
                let conn = &mut it.conn;
                ride.pull(
                    (index, is_secure),
                    &mut queue,
                    conn,
                    &mut payload,
                    &mut said,
                )
            }
            _ => Stop::Broken,
        };
        self.say(carrier, said);
        payload.clear();
        payload.shrink_to(64 << 10);
        self.streams.payload = payload;
        if queue.bytes() < before {
            queue.moved_at = self.now.mono;
            let slot = self.slots.get(index);
            if slot.is_some_and(super::Slot::progress_gives_time) {
                self.wheel
                    .set(index, Some(self.now.mono + super::LINGER_MS));
            }
        }
        if let Some(place) = self.queues.get_mut(out) {
            *place = queue;
        }
        match stop {
            Stop::Broken => self.close(index, Closed::ByApp),
            Stop::Ended => {
                self.wrote(index, false, flushed);
                self.close(index, Closed::ByApp);
            }
            Stop::Turn => {
                self.wrote(index, false, flushed);
                self.mark_dirty(index);
            }
            Stop::Empty => self.wrote(index, false, flushed),
            Stop::Window => self.wrote(index, true, flushed),
        }
    }

    fn wait_for_carrier(&mut self, index: u32, carrier: u32, flushed: &mut Flushed) {
        if let Some(ride) = self.streams.rides.get(index)
            && !ride.has(is::WAITING)
            && let Some(carrier) = self.streams.carriers.get(carrier)
        {
            ride.flags |= is::WAITING;
            carrier.waiting.push_back(index);
        }
        self.wrote(index, true, flushed);
    }

    // ---- in a hand-over ----

    /// Appends what a [`Moved`] is loaded from.
    pub(super) fn save_http2(&self, index: u32, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(index) else {
            return;
        };
        if let Some(carrier) = self.streams.carriers.peek(index) {
            (1_u8, carrier).save(out);
        } else if let Some(ride) = self.streams.rides.peek(index) {
            let held = self.streams.held.get(&index);
            (2_u8, slot.has(flag::OVER_TLS), ride, held).save(out);
        } else {
            0_u8.save(out);
        }
    }

    /// Takes a connection's state of HTTP/2 out of the table, without a word to its peer.
    pub(super) fn forget_http2(&mut self, index: u32) {
        self.streams.carriers.take(index);
        self.streams.rides.take(index);
        self.streams.held.remove(&index);
    }

    pub(super) fn restore_http2(&mut self, index: u32, moved: Moved) {
        match moved {
            Moved::Neither => {}
            Moved::Carrier(carrier) => self.streams.carriers.insert(index, carrier),
            Moved::Stream { mut ride, held, .. } => {
                ride.flags &= !is::WAITING;
                self.streams.rides.insert(index, ride);
                if let Some(held) = held {
                    self.streams.held.insert(index, held);
                }
            }
        }
    }

    /// Closes streams whose carriers have stayed behind, and ends for the peers those that have.
    pub(super) fn close_orphans(&mut self) {
        let all: Vec<u32> = self.slots.iter().map(|(index, _)| index).collect();
        for index in all {
            if let Some(ride) = self.streams.rides.peek(index) {
                if self.streams.carriers.peek(ride.carrier).is_none() {
                    self.close(index, Closed::ByPeer);
                }
            } else if let Some(carrier) = self.streams.carriers.peek(index) {
                let tags: Vec<(u32, u32)> = carrier.conn.tags().collect();
                for (id, tag) in tags {
                    let ride = self.streams.rides.peek(tag);
                    if ride.is_none_or(|ride| (ride.carrier, ride.id) != (index, id)) {
                        self.with_carrier(index, |it, out| it.conn.release(id, out));
                    }
                }
                self.set_carrier_deadline(index);
            }
        }
    }

    // ---- the end ----

    /// Notes that a stream ends without what it was too slow for, and without a word of that.
    pub(super) fn cut_stream(&mut self, index: u32) {
        if let Some(ride) = self.streams.rides.get(index) {
            ride.flags |= is::CUT;
        }
    }

    /// Takes a stream from its carrier, which tells the peer if it does not know.
    pub(super) fn leave_carrier(&mut self, index: u32, has_queue: bool, why: Closed) {
        self.streams.held.remove(&index);
        let Some(ride) = self.streams.rides.take(index) else {
            return;
        };
        let is_orderly = !has_queue && !ride.has(is::CUT) && !matches!(why, Closed::Error(_));
        let is_done = self.with_carrier(ride.carrier, |carrier, out| {
            if ride.has(is::WAITING) {
                carrier.waiting.retain(|&stream| stream != index);
            }
            if ride.has(is::OURS) && !ride.has(is::TUNNEL) {
                carrier.conn.reset(ride.id, Code::CANCEL, out);
            } else if let Part::Body(body) = &ride.part {
                match is_orderly && body.may_end_here() {
                    true => {
                        carrier.conn.data(ride.id, 0, true, out);
                    }
                    false => carrier.conn.reset(ride.id, Code::INTERNAL_ERROR, out),
                }
            }
            carrier.conn.release(ride.id, out);
            carrier.conn.is_done()
        });
        if is_done == Some(true) && !self.is_ending(ride.carrier) {
            self.end_after_flush(ride.carrier);
        }
        self.set_carrier_deadline(ride.carrier);
    }
}
