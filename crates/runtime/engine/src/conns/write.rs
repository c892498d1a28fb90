//! Writing: deliveries at once where nothing waits, queues at the end of the turn, and what follows
//! when all of one has left.
//!
//! A connection whose queue was full ends. Frames that have begun to leave still do, so that the
//! peer sees whole ones; the queue behind is forgotten at once. Then comes the app's last word,
//! TLS's own, and the end. All of it has [`SLOW_MS`], whatever the peer reads meanwhile.
//!
//! Never: seals; `secure.rs` does, and comes here with what the kernel said.
//!
//! All queues of a shard have one bound together, [`super::ConnLimits::queued_bytes_max`].
//! Queue: `all outbound queues`.
//!
//! Counted is what they cost: bytes of one connection's own, TLS records and the lists as they are
//! allocated; a frame that many queues share counts once, a part of it for each. The sum is taken
//! only when it may have passed the bound, since a frame's part depends on who else holds it; and
//! not before a sixteenth of the bound has come, by so much it may be exceeded.
//!
//! Rule for "full": the queues that cost most and have stood still longest end, as slow ones do,
//! until an eighth of the bound is free. A connection that was about to end goes at once, and so
//! does one at whose head more waits than its peer should be given time for. Connections that are
//! [`super::Conns::prefer`]red come last.

use std::io;

use throng_types::{Actions, ConnId, Frame};

use super::carrier::CARRIER_BYTES;
use super::{Conns, Delivery, LINGER_MS, LIST_KEPT, NO_QUEUE, POOL, Pieces, Slot, flag};
use crate::outbound::{Outbound, Pushed, Sum};
use crate::{Closed, Effects, Interest, Kernel};

/// Milliseconds that a slow peer has for the rest and the last word. Bytes that the kernel holds
/// come before them.
pub(super) const SLOW_MS: u64 = 15_000;
/// Bytes that a queue may keep when it ends, so that its peer still gets the reason.
const REST_BYTES_MAX: usize = 64 << 10;
/// A queue that stands still for a second weighs twice what it costs.
const STILL_MS: u64 = 1_000;
/// A queue of which the kernel has taken nothing for this long, and that holds so much, is one of a
/// peer that does not read. Its connection stays behind in a hand-over.
pub(super) const UNMOVED_MS: u64 = 2_000;
pub(super) const UNMOVED_BYTES: usize = 256 << 10;

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
        if slot.has(flag::CLOSED | flag::CONNECTING | flag::SECURE | flag::STREAM) {
            if slot.has(flag::CLOSED | flag::CONNECTING) {
                return;
            }
            return match slot.has(flag::STREAM) {
                true => self.write_stream(index, flushed),
                false => self.write_secure(index, flushed),
            };
        }
        let Some(queue) = self.queues.get_mut(slot.out) else {
            if slot.has(flag::LEAVING) {
                self.written(index);
            }
            return;
        };
        let Some(socket) = &slot.socket else {
            return;
        };
        let mut full = false;
        queue.lagged |= queue.blocked;
        while queue.may_leave() {
            self.stats.writes += 1;
            let result = queue.with_slices(|slices| match slices {
                [one] => self.kernel.send(socket, one),
                many => self.kernel.send_vectored(socket, many),
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
        let ask = full && !slot.has(flag::WATCHED | flag::STREAM);
        let is_carrier = slot.has(flag::CARRIER);
        let has_room = is_carrier && queue.bytes() < CARRIER_BYTES;
        if slot.flags & (flag::UNREAD | flag::LISTED | flag::PAUSED) == flag::UNREAD
            && queue.bytes() <= self.limits.unread_above_bytes
        {
            slot.flags = slot.flags & !flag::UNREAD | flag::LISTED;
            flushed.unread.push(index);
        }
        if queue.is_empty() && !queue.is_held() {
            if (queue.lagged || queue.dropped > 0) && !is_carrier {
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
        if has_room {
            self.carrier_has_room(index);
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
        if slot.has(flag::READ_END) || slot.has(flag::STREAM) && slot.has(flag::ENDING) {
            let why = slot.ended_by();
            self.close(index, why);
        } else if slot.has(flag::ENDING) {
            slot.flags = (slot.flags & !flag::ENDING) | flag::LINGERING;
            if !slot.has(flag::SLOW) {
                self.wheel.set(index, Some(self.now.mono + LINGER_MS));
            }
            let socket = slot.socket.as_ref();
            if socket.is_some_and(|socket| self.kernel.shutdown_write(socket).is_err()) {
                self.close(index, Closed::ByApp);
            }
        }
    }

    /// Hands deliveries to the connection in a slot.
    ///
    /// If nothing waits for it, they are written at once from the shared bytes; what the
    /// kernel does not take, or what must gather, goes to the connection's queue.
    pub fn deliver(&mut self, index: u32, delivery: &Delivery<'_>) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::LEAVING | flag::SECURE | flag::STREAM) {
            if slot.has(flag::LEAVING) {
                return;
            }
            return match slot.has(flag::STREAM) {
                true => self.deliver_stream(index, delivery),
                false => self.deliver_secure(index, delivery),
            };
        }
        if slot.out == NO_QUEUE
            && !delivery.gather
            && let Some(socket) = &slot.socket
        {
            self.stats.writes += 1;
            match self.kernel.send(socket, delivery.joined) {
                Ok(sent) => {
                    self.stats.sent_bytes += sent as u64;
                    if sent < delivery.joined.len() {
                        self.queue_rest(index, delivery, sent);
                    } else {
                        self.stats.deliveries += delivery.frames.len() as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.queue_rest(index, delivery, 0);
                }
                Err(error) => self.fail(index, &error),
            }
            return;
        }
        self.queue_frames(index, delivery.frames.each(), delivery);
    }

    /// Queues what the kernel did not take of a delivery, from the frame that was cut.
    fn queue_rest(&mut self, index: u32, delivery: &Delivery<'_>, mut sent: usize) {
        let was_refused = sent == 0;
        let frames = delivery.frames.each();
        let mut whole = 0;
        while let Some(frame) = frames.get(whole).filter(|frame| frame.len() <= sent) {
            sent -= frame.len();
            whole += 1;
        }
        self.stats.deliveries += whole as u64;
        let mut rest = &frames[whole..];
        let queue = self.queue_mut(index);
        if let Some((cut, after)) = rest.split_first().filter(|_| sent > 0) {
            queue.push_begun(cut, sent);
            rest = after;
            self.sum.note_frame(cut);
        }
        let queue = self.queue_mut(index);
        queue.blocked = true;
        self.stats.deliveries += u64::from(sent > 0);
        if was_refused {
            self.ask_for_room(index);
        } else {
            // Asked once more, so that the kernel's word that it is full is certain.
            self.mark_dirty(index);
        }
        self.queue_frames(index, rest, delivery);
    }

    pub(super) fn queue_frames(&mut self, index: u32, frames: &[Frame], delivery: &Delivery<'_>) {
        let bytes_max = self.limits.queue_bytes_max;
        let queue = self.queue_mut(index);
        let (mut queued, mut dropped, mut full) = (0, 0, false);
        let kept_all = queue.dropped == 0;
        if let Pieces::Parts(parts) = delivery.frames {
            full = queue.push_parts(parts, bytes_max) == Pushed::Full;
            queued = if full { 0 } else { parts.len() as u64 };
        } else {
            for frame in frames {
                match queue.push_frame(frame, delivery.key, delivery.overflow, bytes_max) {
                    Pushed::Queued { dropped: gone } => {
                        queued += 1;
                        dropped += u64::from(gone);
                    }
                    Pushed::Full => {
                        full = true;
                        break;
                    }
                }
            }
        }
        let blocked = queue.blocked;
        self.stats.deliveries += queued;
        self.stats.forgot(delivery.overflow, dropped, kept_all);
        if !blocked {
            self.mark_dirty(index);
        }
        for frame in frames.iter().take(queued as usize) {
            self.sum.note_frame(frame);
        }
        if full {
            self.end_slow(index);
        }
        self.keep_bound();
    }

    /// Ends a connection because its queue is full. [`Conns::take_slow`] names it until the app has
    /// heard of it, in the same turn.
    pub(super) fn end_slow(&mut self, index: u32) {
        let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| !slot.has(flag::SLOW | flag::CLOSED))
        else {
            return;
        };
        slot.flags |= flag::SLOW;
        if let Some(queue) = self.queues.get_mut(slot.out) {
            queue.keep_begun();
        }
        // Nothing can be said yet.
        let is_mute = slot.has(flag::SHAKING | flag::CONNECTING);
        self.stats.slow += 1;
        self.slow.push(index);
        self.wheel.set(index, Some(self.now.mono + SLOW_MS));
        if is_mute {
            self.close(index, Closed::Slow);
        }
    }

    #[inline]
    pub(crate) const fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    /// The next connection whose queue was full and of which the app has not heard.
    pub(crate) fn take_slow(&mut self) -> Option<u32> {
        self.slow.pop()
    }

    /// Lets the app say its last word on a slow connection.
    pub(crate) fn act_slow(
        &mut self,
        index: u32,
        act: impl FnOnce(ConnId, &mut S, &mut Effects<'_>),
    ) {
        let mut last_word = Vec::new();
        self.act(index, |id, session, fx| {
            act(id, session, fx);
            std::mem::swap(fx.out, &mut last_word);
            fx.actions = Actions::default();
        });
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.flags |= flag::ENDING;
        if !slot.has(flag::CLOSED) {
            match last_word.is_empty() {
                true => self.cut_stream(index),
                false => self.queue_mut(index).push_own(&last_word),
            }
            self.mark_dirty(index);
        }
    }

    /// Begins to watch a connection. Whether it can be written to is asked for only once a
    /// write was refused: most never are, and each would announce itself as writable first.
    pub(crate) fn watch(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let interest = if slot.has(flag::CONNECTING) {
            slot.flags |= flag::WATCHED;
            Interest::InputAndRoom
        } else {
            Interest::Input
        };
        let socket = slot.socket.as_ref();
        let told = socket.map(|socket| self.kernel.watch(socket, index, interest));
        self.check(index, told.unwrap_or(Ok(())));
    }

    /// Asks the kernel to tell when a connection that was refused a write has room. The
    /// question stays in force, and is answered at once if room has come meanwhile.
    pub(super) fn ask_for_room(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if !slot.has(flag::WATCHED) {
            slot.flags |= flag::WATCHED;
            let socket = slot.socket.as_ref();
            let told = socket.map(|socket| self.kernel.watch_room(socket, index));
            self.check(index, told.unwrap_or(Ok(())));
        }
    }

    fn check(&mut self, index: u32, told: io::Result<()>) {
        if let Err(error) = told {
            self.close(index, Closed::Error(error.raw_os_error().unwrap_or(0)));
        }
    }

    /// Ends connections if all queues together may have passed their bound.
    #[inline]
    pub(super) fn keep_bound(&mut self) {
        if self.sum.is_due() {
            self.relieve();
        }
    }

    #[cold]
    fn relieve(&mut self) {
        let bound = self.limits.queued_bytes_max;
        // Twice at most: a queue that was given time for a last word has none in the second round.
        for _ in 0..2 {
            let mut cost: usize = self.queues.iter().map(|(_, queue)| queue.cost()).sum();
            self.sum = Sum {
                since: 0,
                since_max: bound.saturating_sub(cost).max(bound / 16),
            };
            if cost <= bound {
                return;
            }
            let now_ms = self.now.mono.0;
            let mut queues: Vec<_> = { self.queues.iter() }
                .filter_map(|(_, queue)| {
                    let slot = self.slots.get(queue.owner)?;
                    let still_ms = now_ms.saturating_sub(queue.moved_at.0);
                    let weight = queue.cost() as u64 * (STILL_MS + still_ms);
                    let rank = (!slot.has(flag::PREFERRED), weight);
                    Some((rank, queue.owner))
                })
                .collect();
            queues.sort_unstable_by(|one, other| other.cmp(one));
            for (_, index) in queues {
                if cost <= bound / 8 * 7 {
                    break;
                }
                cost -= self.end_crowding(index).min(cost);
            }
        }
    }

    /// Ends a connection because all queues together are too long; gives what that has freed.
    fn end_crowding(&mut self, index: u32) -> usize {
        let Some(slot) = self.slots.get(index) else {
            return 0;
        };
        let (out, was_leaving, was_slow) =
            (slot.out, slot.has(flag::LEAVING), slot.has(flag::SLOW));
        let cost = |conns: &Self| conns.queues.get(out).map_or(0, Outbound::cost);
        let before = cost(self);
        self.stats.crowded += u64::from(!was_slow);
        if !was_leaving {
            self.end_slow(index);
        }
        let rest = self.queues.get(out).map_or(0, Outbound::bytes);
        if was_leaving || rest > REST_BYTES_MAX {
            self.close(index, Closed::Slow);
            if let Some(queue) = self.queues.get_mut(out) {
                queue.recycle();
            }
        }
        before.saturating_sub(cost(self))
    }

    /// Whether a connection's peer reads, as far as its queue tells.
    pub(super) fn reads(&self, queue: u32) -> bool {
        self.queues.get(queue).is_none_or(|queue| {
            queue.bytes() < UNMOVED_BYTES || self.now.mono < queue.moved_at + UNMOVED_MS
        })
    }
}
