//! The connection table: slots, deadlines and queues, and the writes that empty them.
//!
//! Owns every connection's descriptor and session. Never: accepts, reads, decides.
//!
//! An idle connection is a slot and a deadline, and nothing else. A queue exists only
//! while bytes wait, and comes from a pool.
//!
//! Invariants
//! - A slot's `out` names a queue exactly while that queue has items.
//! - A slot that is marked dirty is in `dirty` once; an entry without the mark is stale.
//!   The shard's list of input to come follows the same rule.
//! - A queue that is blocked is not written to until the kernel says that there is room.
//! - A connection that failed during a turn stays in its slot, marked and listed in
//!   `doomed`, until the turn is over: nothing disappears under the app's hands.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use throng_sys::socket;
use throng_types::{ConnId, Frame, Millis, Now, ShardId, Slots};

use crate::outbound::{Outbound, Pushed};
use crate::{Accepted, Closed, Effects, Ending, Overflow, Wheel};

const NO_QUEUE: u32 = u32::MAX;
/// Queues kept for reuse.
const POOL: usize = 64;
/// Entries for which a list keeps its memory from one turn to the next.
const LIST_KEPT: usize = 4096;
/// How long an ending connection may go without progress: the kernel takes bytes, or the peer
/// closes. In milliseconds.
const LINGER_MS: u64 = 5_000;

/// Bits of a slot's state.
mod flag {
    /// In the list of connections to write to at the end of the turn.
    pub(super) const DIRTY: u8 = 1;
    /// End it when its queue is empty.
    pub(super) const ENDING: u8 = 2;
    /// Its sending side is shut; it waits for the peer.
    pub(super) const LINGERING: u8 = 4;
    /// Listed in `doomed`.
    pub(super) const DOOMED: u8 = 8;
    /// An outgoing connection that is not established yet.
    pub(super) const CONNECTING: u8 = 16;
    /// Input waits until the queue is shorter.
    pub(super) const UNREAD: u8 = 32;
    /// In the shard's list of connections to read from in the next turn.
    pub(super) const LISTED: u8 = 64;
    /// The peer has shut its sending side; what waits for it still leaves.
    pub(super) const READ_END: u8 = 128;
    /// Nothing new is taken for it or from it.
    pub(super) const LEAVING: u8 = ENDING | LINGERING | DOOMED | READ_END;
}

pub(crate) struct Slot<S> {
    fd: OwnedFd,
    generation: u32,
    out: u32,
    tag: u32,
    flags: u8,
    session: S,
}

impl<S> Slot<S> {
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Who ended it: whoever began.
    const fn ended_by(&self) -> Closed {
        let by_peer = self.has(flag::READ_END) && !self.has(flag::ENDING | flag::LINGERING);
        if by_peer {
            Closed::ByPeer
        } else {
            Closed::ByApp
        }
    }
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct ConnLimits {
    /// Bytes of deliveries that may wait for one connection.
    pub queue_bytes_max: usize,
    /// While more bytes than this wait for a connection, nothing is read from it.
    pub unread_above_bytes: usize,
}

impl Default for ConnLimits {
    fn default() -> Self {
        Self {
            queue_bytes_max: 1 << 20,
            unread_above_bytes: 256 << 10,
        }
    }
}

/// What the table has done, for metrics. Only ever rises.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnStats {
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Frames handed over by [`Conns::deliver`] and not refused.
    pub deliveries: u64,
    /// Frames forgotten because a queue was full or a newer one replaced them.
    pub dropped: u64,
    /// Connections ended because their queue was full.
    pub slow: u64,
}

/// Frames for one connection: each by itself, and all of them in one piece.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// The frames, in order.
    pub frames: &'a [Frame],
    /// The same bytes; the same frame when there is only one.
    pub joined: &'a Frame,
    /// Frames with one key replace each other under [`Overflow::LatestOnly`].
    pub key: u32,
    /// What to do when the queue is full.
    pub overflow: Overflow,
    /// Queue even if the connection could be written to now: more will follow in this turn.
    pub gather: bool,
}

/// See the module's head.
pub struct Conns<S> {
    shard: ShardId,
    limits: ConnLimits,
    slots: Slots<Slot<S>>,
    generation: u32,
    queues: Slots<Outbound>,
    pool: Vec<Outbound>,
    wheel: Wheel,
    dirty: Vec<u32>,
    doomed: Vec<(u32, Closed)>,
    opening: Vec<(OwnedFd, Accepted<S>)>,
    scratch: Vec<u8>,
    now: Now,
    stats: ConnStats,
}

impl<S> Conns<S> {
    pub(crate) fn new(shard: ShardId, limits: ConnLimits) -> Self {
        Self {
            shard,
            limits,
            slots: Slots::default(),
            generation: 0,
            queues: Slots::default(),
            pool: Vec::new(),
            wheel: Wheel::default(),
            dirty: Vec::new(),
            doomed: Vec::new(),
            opening: Vec::new(),
            scratch: Vec::new(),
            now: Now::default(),
            stats: ConnStats::default(),
        }
    }

    /// Connections in the table.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no connection.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What the table has done.
    #[must_use]
    pub const fn stats(&self) -> ConnStats {
        self.stats
    }

    /// Bytes that one idle connection occupies in the table, without what its session owns elsewhere.
    #[must_use]
    pub const fn slot_bytes() -> usize {
        size_of::<Slot<S>>()
    }

    /// The id of the connection in a slot.
    #[must_use]
    pub fn id(&self, index: u32) -> Option<ConnId> {
        let slot = self.slots.get(index)?;
        Some(ConnId::new(self.shard, index, slot.generation))
    }

    /// The sessions of all connections.
    pub fn sessions(&self) -> impl Iterator<Item = (ConnId, &S)> {
        self.slots.iter().map(|(index, slot)| {
            (
                ConnId::new(self.shard, index, slot.generation),
                &slot.session,
            )
        })
    }

    /// The session of a connection that is still there.
    #[must_use]
    pub fn session(&self, id: ConnId) -> Option<&S> {
        let slot = self.slots.get(id.index())?;
        (id == ConnId::new(self.shard, id.index(), slot.generation)).then_some(&slot.session)
    }

    /// Bytes that wait for a connection.
    #[must_use]
    pub fn queued_bytes(&self, id: ConnId) -> usize {
        let slot = self.slots.get(id.index());
        slot.filter(|slot| id == ConnId::new(self.shard, id.index(), slot.generation))
            .and_then(|slot| self.queues.get(slot.out))
            .map_or(0, Outbound::bytes)
    }

    /// Lets a session act outside its own events; false if the connection has gone.
    pub fn with(&mut self, id: ConnId, act: impl FnOnce(&mut S, &mut Effects<'_>)) -> bool {
        if self.session(id).is_none() {
            return false;
        }
        self.act(id.index(), |_, session, fx| act(session, fx));
        true
    }

    /// Opens an outgoing connection; [`crate::App::connected`] or [`crate::App::closed`] follows.
    ///
    /// # Errors
    /// What the kernel says at once, for example no free port (`EADDRNOTAVAIL`) or descriptor (`EMFILE`).
    pub fn connect(
        &mut self,
        source: Option<std::net::SocketAddr>,
        target: std::net::SocketAddr,
        accepted: Accepted<S>,
    ) -> io::Result<()> {
        let fd = socket::connect(source, target)?;
        self.opening.push((fd, accepted));
        Ok(())
    }

    /// Hands deliveries to the connection in a slot.
    ///
    /// If nothing waits for it, they are written at once from the shared bytes; what the
    /// kernel does not take, or what must gather, goes to the connection's queue.
    pub fn deliver(&mut self, index: u32, delivery: &Delivery<'_>) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::LEAVING) {
            return;
        }
        if slot.out == NO_QUEUE && !delivery.gather {
            self.stats.writes += 1;
            match socket::send(slot.fd.as_fd(), delivery.joined) {
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
        self.queue_frames(index, delivery.frames, delivery);
    }

    /// Queues what the kernel did not take of a delivery, from the frame that was cut.
    fn queue_rest(&mut self, index: u32, delivery: &Delivery<'_>, mut sent: usize) {
        let mut whole = 0;
        while let Some(frame) = delivery
            .frames
            .get(whole)
            .filter(|frame| frame.len() <= sent)
        {
            sent -= frame.len();
            whole += 1;
        }
        self.stats.deliveries += whole as u64;
        let mut rest = &delivery.frames[whole..];
        let queue = self.queue_mut(index);
        if let Some((cut, after)) = rest.split_first().filter(|_| sent > 0) {
            queue.push_begun(cut, sent);
            rest = after;
        }
        queue.blocked = true;
        self.stats.deliveries += u64::from(sent > 0);
        if sent > 0 {
            // Asked once more, so that the kernel's word that it is full is certain.
            self.mark_dirty(index);
        }
        self.queue_frames(index, rest, delivery);
    }

    fn queue_frames(&mut self, index: u32, frames: &[Frame], delivery: &Delivery<'_>) {
        let bytes_max = self.limits.queue_bytes_max;
        let queue = self.queue_mut(index);
        let (mut queued, mut dropped, mut full) = (0, 0, false);
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
        let blocked = queue.blocked;
        self.stats.deliveries += queued;
        self.stats.dropped += dropped;
        if !blocked {
            self.mark_dirty(index);
        }
        if full {
            self.stats.slow += 1;
            self.doom(index, Closed::Slow);
        }
    }

    /// The connection's queue, from the pool if it has none. The slot exists.
    fn queue_mut(&mut self, index: u32) -> &mut Outbound {
        let slot = self
            .slots
            .get_mut(index)
            .expect("the caller has looked it up");
        if slot.out == NO_QUEUE {
            slot.out = self.queues.insert(self.pool.pop().unwrap_or_default());
        }
        self.queues
            .get_mut(slot.out)
            .expect("a slot's queue exists")
    }

    fn mark_dirty(&mut self, index: u32) {
        if let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| !slot.has(flag::DIRTY))
        {
            slot.flags |= flag::DIRTY;
            self.dirty.push(index);
        }
    }

    /// Marks a connection as failed; it leaves its slot at the end of the turn.
    pub(crate) fn doom(&mut self, index: u32, why: Closed) {
        if let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| !slot.has(flag::DOOMED))
        {
            slot.flags |= flag::DOOMED;
            self.doomed.push((index, why));
        }
    }

    /// Marks a connection as failed by an error of the kernel's. It is not the news if the
    /// peer had ended its side, or everything had left and only its end was awaited.
    pub(crate) fn fail(&mut self, index: u32, error: &io::Error) {
        let expected = |slot: &Slot<S>| {
            slot.has(flag::LINGERING) || slot.has(flag::READ_END) && !slot.has(flag::ENDING)
        };
        let why = match self.slots.get(index) {
            Some(slot) if expected(slot) => slot.ended_by(),
            _ => Closed::Error(error.raw_os_error().unwrap_or(0)),
        };
        self.doom(index, why);
    }

    // ---- for the shard's loop ----

    pub(crate) const fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    pub(crate) fn insert(
        &mut self,
        fd: OwnedFd,
        accepted: Accepted<S>,
        connecting: bool,
    ) -> ConnId {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.slots.insert(Slot {
            fd,
            generation,
            out: NO_QUEUE,
            tag: accepted.tag,
            flags: if connecting { flag::CONNECTING } else { 0 },
            session: accepted.session,
        });
        self.wheel.set(index, accepted.deadline);
        ConnId::new(self.shard, index, generation)
    }

    pub(crate) fn take_opening(&mut self) -> Vec<(OwnedFd, Accepted<S>)> {
        std::mem::take(&mut self.opening)
    }

    pub(crate) fn fd(&self, index: u32) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.slots.get(index).map(|slot| slot.fd.as_fd())
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

    /// Whether input may be taken now. If not, it is remembered that some waits.
    pub(crate) fn may_read(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return false;
        };
        if slot.has(flag::DOOMED | flag::LISTED | flag::READ_END) {
            return false;
        }
        let waiting = self.queues.get(slot.out).map_or(0, Outbound::bytes);
        if waiting <= self.limits.unread_above_bytes || slot.has(flag::LINGERING) {
            return true;
        }
        slot.flags |= flag::UNREAD;
        false
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
        if slot.out == NO_QUEUE {
            let why = slot.ended_by();
            return self.doom(index, why);
        }
        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
        self.mark_dirty(index);
    }

    /// Runs the app on a connection and carries out what it wants done.
    pub(crate) fn act(&mut self, index: u32, act: impl FnOnce(ConnId, &mut S, &mut Effects<'_>)) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let id = ConnId::new(self.shard, index, slot.generation);
        let mut out = std::mem::take(&mut self.scratch);
        let mut fx = Effects::new(&mut out, self.now);
        act(id, &mut slot.session, &mut fx);
        let (deadline, ending) = (fx.deadline, fx.ending);
        if slot.has(flag::LEAVING) {
            // Too late for everything but haste.
            if ending == Some(Ending::Now) {
                self.doom(index, Closed::ByApp);
            }
        } else {
            if let Some(deadline) = deadline {
                self.wheel.set(index, deadline);
            }
            if !out.is_empty() {
                self.queue_own(index, &out);
            }
            match ending {
                None => {}
                Some(Ending::Now) => self.doom(index, Closed::ByApp),
                Some(Ending::Flush) => self.end_after_flush(index),
            }
        }
        out.clear();
        // One large reply must not keep its memory for good.
        out.shrink_to(64 << 10);
        self.scratch = out;
    }

    /// Queues a session's own bytes. They have no bound of their own, since a reply may be of
    /// any size; but who has not taken twice the bound gets no more.
    fn queue_own(&mut self, index: u32, bytes: &[u8]) {
        let bytes_max = 2 * self.limits.queue_bytes_max;
        let queue = self.queue_mut(index);
        if bytes_max < queue.bytes() {
            self.stats.slow += 1;
            return self.doom(index, Closed::Slow);
        }
        queue.push_own(bytes);
        if !queue.blocked {
            self.mark_dirty(index);
        }
    }

    fn end_after_flush(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.flags |= flag::ENDING;
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
                self.doom(index, why);
            }
            !ending
        });
        due
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.wheel.next_deadline()
    }

    /// Writes to every dirty connection once. Returns those whose queues became empty
    /// after having been blocked, with the frames they lost, and those whose input waits.
    pub(crate) fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(slot) = self.slots.get_mut(index)
                && slot.has(flag::DIRTY)
            {
                slot.flags &= !flag::DIRTY;
                self.write(index, &mut flushed);
            }
        }
        if dirty.capacity() <= LIST_KEPT {
            self.dirty = dirty;
        }
        flushed
    }

    /// Writes what waits for one connection, as far as the kernel takes it.
    pub(crate) fn write(&mut self, index: u32, flushed: &mut Flushed) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::DOOMED | flag::CONNECTING) {
            return;
        }
        let Some(queue) = self.queues.get_mut(slot.out) else {
            return self.written(index);
        };
        while !queue.is_empty() {
            self.stats.writes += 1;
            let result = queue.with_slices(|slices| match slices {
                [one] => socket::send(slot.fd.as_fd(), one),
                many => socket::send_vectored(slot.fd.as_fd(), many),
            });
            match result {
                Ok(sent) => {
                    self.stats.sent_bytes += sent as u64;
                    queue.sent(sent);
                    if slot.has(flag::LEAVING) {
                        self.wheel.set(index, Some(self.now.mono + LINGER_MS));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The kernel tells once there is room: readiness is edge-triggered.
                    queue.blocked = true;
                    break;
                }
                Err(error) => return self.fail(index, &error),
            }
        }
        if slot.flags & (flag::UNREAD | flag::LISTED) == flag::UNREAD
            && queue.bytes() <= self.limits.unread_above_bytes
        {
            slot.flags = slot.flags & !flag::UNREAD | flag::LISTED;
            flushed.unread.push(index);
        }
        if queue.is_empty() {
            if queue.blocked || queue.dropped > 0 {
                flushed.drained.push((index, queue.dropped));
            }
            let out = std::mem::replace(&mut slot.out, NO_QUEUE);
            self.recycle(out);
            self.written(index);
        }
    }

    fn recycle(&mut self, queue: u32) {
        if let Some(mut queue) = self.queues.remove(queue)
            && queue.recycle()
            && self.pool.len() < POOL
        {
            self.pool.push(queue);
        }
    }

    /// Everything has left: if the connection is to end, ends it, or shuts its sending side
    /// and waits for the peer.
    fn written(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::READ_END) {
            let why = slot.ended_by();
            self.doom(index, why);
        } else if slot.has(flag::ENDING) {
            slot.flags = (slot.flags & !flag::ENDING) | flag::LINGERING;
            self.wheel.set(index, Some(self.now.mono + LINGER_MS));
            if socket::shutdown_write(slot.fd.as_fd()).is_err() {
                self.doom(index, Closed::ByApp);
            }
        }
    }

    /// Takes the connections that failed or ended out of the table.
    pub(crate) fn take_doomed(&mut self) -> Option<(ConnId, S, u32, Closed)> {
        loop {
            let Some((index, why)) = self.doomed.pop() else {
                if self.doomed.capacity() > LIST_KEPT {
                    self.doomed = Vec::new();
                }
                return None;
            };
            self.wheel.set(index, None);
            let Some(slot) = self.slots.remove(index) else {
                continue;
            };
            if slot.out != NO_QUEUE {
                self.recycle(slot.out);
            }
            let id = ConnId::new(self.shard, index, slot.generation);
            return Some((id, slot.session, slot.tag, why));
        }
    }
}

/// What came of writing.
#[derive(Default)]
pub(crate) struct Flushed {
    pub(crate) drained: Vec<(u32, u32)>,
    pub(crate) unread: Vec<u32>,
}
