//! Writing what waits, and what follows when all of it has left.
//!
//! Never: seals; `secure.rs` does, and comes here with what the kernel said.

use std::io;

use super::{Conns, LINGER_MS, LIST_KEPT, NO_QUEUE, POOL, Slot, flag};
use crate::{Closed, Kernel};

/// Outcome of one round of writing.
#[derive(Default)]
pub(crate) struct Flushed {
    pub(crate) drained: Vec<(u32, u32)>,
    pub(crate) unread: Vec<u32>,
    /// Connections whose peers are gone, by what the kernel said. They are read, and fail then.
    pub(crate) broken: Vec<(u32, io::Error)>,
}

impl<S, K: Kernel> Conns<S, K> {
    /// Writes to every dirty connection once. Adds those whose queues became empty after having
    /// been blocked, with the frames they lost, and those whose input waits.
    pub(crate) fn flush(&mut self, flushed: &mut Flushed) {
        let mut dirty = std::mem::take(&mut self.dirty);
        // A connection that has written everything may have a last word (TLS), which waits if there
        // is no room.
        while !dirty.is_empty() {
            for index in dirty.drain(..) {
                if let Some(slot) = self.slots.get_mut(index)
                    && slot.has(flag::DIRTY)
                {
                    slot.flags &= !flag::DIRTY;
                    self.write(index, flushed);
                }
            }
            std::mem::swap(&mut dirty, &mut self.dirty);
        }
        // Both are empty; the one with memory serves the next turn, unless it is large.
        if self.dirty.capacity() < dirty.capacity() {
            self.dirty = dirty;
        }
        if self.dirty.capacity() > LIST_KEPT {
            self.dirty = Vec::new();
        }
        for index in std::mem::take(&mut self.resumed) {
            if let Some(slot) = self.slots.get_mut(index)
                && slot.flags & (flag::UNREAD | flag::LISTED | flag::PAUSED) == flag::UNREAD
            {
                slot.flags = slot.flags & !flag::UNREAD | flag::LISTED;
                flushed.unread.push(index);
            }
        }
    }

    /// Writes what waits for one connection, as far as the kernel takes it.
    pub(crate) fn write(&mut self, index: u32, flushed: &mut Flushed) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::CLOSED | flag::CONNECTING | flag::SECURE) {
            if !slot.has(flag::CLOSED | flag::CONNECTING) {
                self.write_secure(index, flushed);
            }
            return;
        }
        let Some(queue) = self.queues.get_mut(slot.out) else {
            if slot.has(flag::LEAVING) {
                self.written(index);
            }
            return;
        };
        let mut full = false;
        queue.lagged |= queue.blocked;
        while queue.may_leave() {
            self.stats.writes += 1;
            let result = queue.with_slices(|slices| match slices {
                [one] => self.kernel.send(&slot.socket, one),
                many => self.kernel.send_vectored(&slot.socket, many),
            });
            match result {
                Ok(sent) => {
                    self.stats.sent_bytes += sent as u64;
                    queue.sent(sent);
                    queue.moved_at = self.now.mono;
                    if slot.progress_gives_time() {
                        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The kernel tells once there is room: readiness is edge-triggered.
                    full = true;
                    break;
                }
                Err(error) => {
                    queue.blocked = true;
                    return flushed.broken.push((index, error));
                }
            }
        }
        self.wrote(index, full, flushed);
    }

    /// Notes the outcome of writing all that could leave; `full` says that the kernel took no more.
    #[inline]
    pub(super) fn wrote(&mut self, index: u32, full: bool, flushed: &mut Flushed) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(slot.out) else {
            return;
        };
        // Held frames may wait although the kernel has room.
        queue.blocked = full;
        queue.lagged |= full;
        let ask = full && !slot.has(flag::WATCHED);
        if slot.flags & (flag::UNREAD | flag::LISTED | flag::PAUSED) == flag::UNREAD
            && queue.bytes() <= self.limits.unread_above_bytes
        {
            slot.flags = slot.flags & !flag::UNREAD | flag::LISTED;
            flushed.unread.push(index);
        }
        if queue.is_empty() && !queue.is_held() {
            if queue.lagged || queue.dropped > 0 {
                flushed.drained.push((index, queue.dropped));
            }
            let out = std::mem::replace(&mut slot.out, NO_QUEUE);
            let leaving = slot.has(flag::LEAVING);
            self.recycle(out);
            if leaving {
                self.written(index);
            }
        }
        if ask {
            self.ask_for_room(index);
        }
    }

    pub(super) fn recycle(&mut self, queue: u32) {
        if let Some(mut queue) = self.queues.remove(queue)
            && self.pool.len() < POOL
        {
            queue.recycle();
            self.pool.push(queue);
        }
    }

    /// Everything has left: if the connection is to end, ends it, or shuts its sending side
    /// and waits for the peer.
    pub(super) fn written(&mut self, index: u32) {
        let slot = self.slots.get(index);
        let awaits_last_word = slot.is_some_and(Slot::awaits_last_word);
        // Either leaves first.
        if awaits_last_word || !self.say_all(index) {
            return;
        }
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::READ_END) {
            let why = slot.ended_by();
            self.close(index, why);
        } else if slot.has(flag::ENDING) {
            slot.flags = (slot.flags & !flag::ENDING) | flag::LINGERING;
            if !slot.has(flag::SLOW) {
                self.wheel.set(index, Some(self.now.mono + LINGER_MS));
            }
            if self.kernel.shutdown_write(&slot.socket).is_err() {
                self.close(index, Closed::ByApp);
            }
        }
    }
}
