//! Operations of the shard's loop on the table: inserts, reads, writes, removes.
//!
//! Never: decides what bytes mean; the app does, in [`Conns::act`].

use std::io;

use throng_types::{Actions, ConnId, End, Http2, Millis, Now};

use super::{Conns, LINGER_MS, LIST_KEPT, NO_QUEUE, Slot, flag};
use crate::outbound::Outbound;
use crate::{Accepted, Closed, Effects, Kernel};

impl<S, K: Kernel> Conns<S, K> {
    pub(crate) const fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    pub(crate) fn insert(
        &mut self,
        socket: Option<K::Socket>,
        accepted: Accepted<S>,
        connecting: bool,
    ) -> ConnId {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.slots.insert(Slot {
            socket,
            generation,
            out: NO_QUEUE,
            tag: accepted.tag,
            flags: if connecting {
                flag::CONNECTING
            } else {
                flag::FRESH
            },
            session: accepted.session,
        });
        self.wheel.set(index, accepted.deadline);
        ConnId::new(self.shard, index, generation)
    }

    #[inline]
    pub(crate) const fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Reads from a connection that is in the table.
    pub(crate) fn recv(&mut self, index: u32, buffer: &mut [u8]) -> io::Result<usize> {
        match self.slots.get(index).and_then(|slot| slot.socket.as_ref()) {
            Some(socket) => self.kernel.recv(socket, buffer),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns the error with which an outgoing connection failed, if it did.
    pub(crate) fn connect_error(&mut self, index: u32) -> Option<io::Error> {
        let socket = self.slots.get(index)?.socket.as_ref()?;
        self.kernel.take_error(socket).unwrap_or_else(Some)
    }

    /// Whether an outgoing connection has just been established (asked at its first writability).
    pub(crate) fn take_connecting(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return false;
        };
        let connecting = slot.has(flag::CONNECTING);
        slot.flags &= !flag::CONNECTING;
        connecting
    }

    pub(crate) fn is_connecting(&self, index: u32) -> bool {
        self.slots
            .get(index)
            .is_some_and(|slot| slot.has(flag::CONNECTING))
    }

    /// Returns whether to read up to the peer's close; `None` if no input may be taken now. Then
    /// it is remembered that some waits.
    pub(crate) fn may_read(&mut self, index: u32) -> Option<bool> {
        let slot = self.slots.get_mut(index)?;
        if slot.has(flag::CLOSED | flag::LISTED | flag::READ_END) {
            return None;
        }
        if slot.has(flag::PAUSED) && !slot.has(flag::LEAVING) {
            slot.flags |= flag::UNREAD;
            return None;
        }
        let waiting = self.queues.get(slot.out).map_or(0, Outbound::bytes);
        // What waits for a handshake cannot leave before it is read.
        let reads_on = slot.has(flag::LINGERING | flag::SHAKING);
        if waiting <= self.limits.unread_above_bytes || reads_on {
            return Some(slot.has(flag::CLOSE_TOLD));
        }
        slot.flags |= flag::UNREAD;
        None
    }

    /// Notes that the kernel has told of the peer's close, or may have.
    pub(crate) fn note_close(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.flags |= flag::CLOSE_TOLD;
        }
    }

    /// Notes that nothing is left to read: if a close comes, the kernel tells of it.
    pub(crate) fn forget_close(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.flags &= !flag::CLOSE_TOLD;
        }
    }

    /// Marks a connection as listed for the next turn; false if it is already.
    pub(crate) fn list(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return false;
        };
        let new = !slot.has(flag::LISTED);
        slot.flags |= flag::LISTED;
        new
    }

    /// Takes the mark away; false if there was none, because the one that was listed has gone.
    pub(crate) fn unlist(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return false;
        };
        let listed = slot.has(flag::LISTED);
        slot.flags &= !flag::LISTED;
        listed
    }

    /// Whether the connection's input is thrown away because it is on its way out.
    pub(crate) fn is_ending(&self, index: u32) -> bool {
        self.slots
            .get(index)
            .is_some_and(|slot| slot.has(flag::LEAVING))
    }

    /// The peer has shut its sending side. What waits for it leaves first: it may have said all
    /// that it had to say and wait for the answer.
    pub(crate) fn read_ended(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.flags |= flag::READ_END;
        let Some(queue) = self.queues.get_mut(slot.out) else {
            self.say_all(index);
            let slot = self.slots.get(index);
            let why = slot.map_or(Closed::ByPeer, Slot::ended_by);
            return self.close(index, why);
        };
        queue.forget_held();
        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
        self.mark_dirty(index);
    }

    /// Runs the app on a connection and carries out its actions.
    pub(crate) fn act(&mut self, index: u32, act: impl FnOnce(ConnId, &mut S, &mut Effects<'_>)) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let id = ConnId::new(self.shard, index, slot.generation);
        let mut out = std::mem::take(&mut self.scratch);
        let mut fx = Effects::new(&mut out, self.now);
        fx.tag = slot.tag;
        fx.is_tls = slot.has(flag::SECURE | flag::OVER_TLS);
        fx.http2 = match slot.flags & (flag::STREAM | flag::AGREED) {
            0 => Http2::None,
            flag::AGREED => Http2::Agreed,
            _ => Http2::Stream,
        };
        slot.flags &= !flag::FRESH;
        act(id, &mut slot.session, &mut fx);
        let Actions {
            deadline,
            end,
            hold,
            forget_held,
            pause,
            http2,
        } = fx.actions;
        match pause {
            Some(true) => slot.flags |= flag::PAUSED,
            Some(false) if slot.has(flag::PAUSED) => {
                slot.flags &= !flag::PAUSED;
                self.resumed.push(index);
            }
            _ => {}
        }
        if slot.has(flag::LEAVING) {
            // Too late for everything but haste.
            if end == Some(End::Now) {
                self.close(index, Closed::ByApp);
            }
        } else if slot.has(flag::CARRIER) {
            if end.is_some() {
                self.drain_carrier(index);
            }
        } else if let Some(peer) = http2.filter(|_| !slot.has(flag::STREAM)) {
            std::mem::swap(&mut self.streams.first, &mut out);
            self.begin_carrier(index, peer);
        } else {
            if let Some(deadline) = deadline {
                self.wheel.set(index, deadline);
            }
            if !out.is_empty() {
                self.queue_own(index, &out, end.is_some());
            }
            if forget_held && let Some(queue) = self.held(index) {
                queue.forget_held();
                // The queue that was too long to read on may be gone.
                self.mark_dirty(index);
            }
            if let Some(hold) = hold {
                self.hold(index, hold);
            }
            match end {
                None => {}
                Some(End::Now) => self.close(index, Closed::ByApp),
                Some(End::Flush) => self.end_after_flush(index),
            }
        }
        out.clear();
        // One large reply must not keep its memory for good.
        out.shrink_to(64 << 10);
        self.scratch = out;
    }

    /// Queues a session's own bytes. They have no bound of their own, since a reply may be of
    /// any size; but a peer that has not taken twice the bound gets no more, except the `last` word
    /// of a session that ends: it will say no other.
    fn queue_own(&mut self, index: u32, bytes: &[u8], last: bool) {
        let bytes_max = 2 * self.limits.queue_bytes_max;
        let mut queue = self.queue_mut(index);
        if bytes_max < queue.bytes() {
            self.end_slow(index);
            if !last {
                return;
            }
            queue = self.queue_mut(index);
        }
        queue.push_own(bytes);
        if !queue.blocked {
            self.mark_dirty(index);
        }
        self.sum.note(bytes.len());
        self.keep_bound();
    }

    fn hold(&mut self, index: u32, hold: bool) {
        if hold || self.held(index).is_some() {
            self.queue_mut(index).hold(hold);
            self.mark_dirty(index);
        }
    }

    /// A connection's queue, if deliveries are held back in it.
    fn held(&mut self, index: u32) -> Option<&mut Outbound> {
        let slot = self.slots.get(index)?;
        let queue = self.queues.get_mut(slot.out)?;
        queue.is_held().then_some(queue)
    }

    pub(super) fn end_after_flush(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            if slot.has(flag::SHAKING) {
                // Nothing can be said yet.
                return self.close(index, Closed::ByApp);
            }
            slot.flags |= flag::ENDING;
            if let Some(queue) = self.queues.get_mut(slot.out) {
                queue.forget_held();
            }
        }
        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
        self.mark_dirty(index);
    }

    /// Calls the app for each deadline that has come; a lingering connection's ends it.
    pub(crate) fn expired(&mut self) -> Vec<u32> {
        let mut due = Vec::new();
        self.wheel.expire(self.now.mono, |index| due.push(index));
        due.retain(|&index| {
            let ending = self.is_ending(index);
            if ending && let Some(why) = self.slots.get(index).map(Slot::ended_by) {
                self.close(index, why);
            }
            let is_carrier = !ending && self.is_carrier(index);
            if is_carrier {
                self.carrier_is_late(index);
            }
            !ending && !is_carrier && !self.shook_too_long(index)
        });
        due
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.wheel.next_deadline()
    }

    /// Takes the connections that failed or ended out of the table.
    pub(crate) fn take_closed(&mut self) -> Option<(ConnId, S, u32, Closed)> {
        loop {
            let Some((index, why)) = self.closed.pop() else {
                if self.closed.capacity() > LIST_KEPT {
                    self.closed = Vec::new();
                }
                return None;
            };
            self.wheel.set(index, None);
            self.leaves(index, why);
            if self.is_carrier(index) {
                self.close_streams(index, why);
                self.streams.carriers.take(index);
            }
            let Some(slot) = self.slots.remove(index) else {
                continue;
            };
            if slot.out != NO_QUEUE {
                self.recycle(slot.out);
            }
            match slot.socket {
                Some(socket) => self.kernel.close(socket),
                None => self.leave_carrier(index, slot.out != NO_QUEUE, why),
            }
            if slot.flags & flag::SECURE != 0 {
                self.secured.links.take(index);
            }
            let id = ConnId::new(self.shard, index, slot.generation);
            return Some((id, slot.session, slot.tag, why));
        }
    }
}
