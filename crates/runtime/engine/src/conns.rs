//! The connection table: slots, deadlines and queues, and the writes that empty them.
//!
//! Owns every connection's descriptor and session. Never: accepts, reads, decides.
//!
//! An idle connection is a slot and a deadline, and nothing else. A queue exists only
//! while bytes wait, and comes from a pool.
//!
//! Invariants
//! - A slot's `out` names a queue exactly while that queue has items or is held.
//! - A slot that is marked dirty is in `dirty` once; an entry without the mark is stale.
//!   The shard's list of input to come follows the same rule.
//! - A queue that is blocked is not written to until the kernel says that there is room.
//! - A connection that is gone stays in its slot, marked and listed in
//!   `closed`, until the turn is over: nothing disappears under the app's hands.

mod carrier;
mod links;
mod moving;
mod outgoing;
mod secure;
mod serve;
mod streams;
mod write;

use std::io;
use std::net::IpAddr;

use throng_http2::H2Limits;
use throng_types::{ConnId, Frame, Frames, Millis, Now, ShardId, Slots};

use crate::outbound::{Outbound, Sum};
use crate::{Accepted, Closed, Effects, Kernel, Linux, Overflow, Wheel};
use carrier::Streams;
use links::Secured;

pub(crate) use carrier::{NewStream, StreamNews};
pub(crate) use links::Intake;
pub use links::{TlsEvent, TlsNews};
pub use moving::SavedConn;
pub(crate) use write::Flushed;

const NO_QUEUE: u32 = u32::MAX;
/// Queues kept for reuse; each keeps little enough for all of them to be below 2 MiB.
const POOL: usize = 1024;
/// Entries for which a list keeps its memory from one turn to the next.
const LIST_KEPT: usize = 4096;
/// Milliseconds that an ending connection may go without progress: the kernel takes bytes, or the
/// peer closes.
const LINGER_MS: u64 = 5_000;

mod flag {
    /// In the list of connections to write to at the end of the turn.
    pub(super) const DIRTY: u32 = 1;
    /// End it when its queue is empty.
    pub(super) const ENDING: u32 = 2;
    /// The sending side is shut; the connection waits for the peer.
    pub(super) const LINGERING: u32 = 4;
    /// Waits in the list `closed` for the app to hear of it.
    pub(super) const CLOSED: u32 = 8;
    /// An outgoing connection that is not established yet.
    pub(super) const CONNECTING: u32 = 16;
    /// Input waits until the queue is shorter.
    pub(super) const UNREAD: u32 = 32;
    /// In the shard's list of connections to read from in the next turn.
    pub(super) const LISTED: u32 = 64;
    /// The peer has shut its sending side; what waits for it still leaves.
    pub(super) const READ_END: u32 = 128;
    /// The kernel was asked to tell when there is room again.
    pub(super) const WATCHED: u32 = 256;
    /// The app does not want its input now.
    pub(super) const PAUSED: u32 = 512;
    /// Speaks TLS: its bytes are sealed and opened in `secure.rs`.
    pub(super) const SECURE: u32 = 1024;
    /// Nothing can be sealed yet, and the app has not heard a byte.
    pub(super) const SHAKING: u32 = 2048;
    /// The peer was told that nothing more will come.
    pub(super) const SAID_ALL: u32 = 4096;
    /// The queue was full: the connection ends, as `write.rs` says.
    pub(super) const SLOW: u32 = 8192;
    /// Served in every turn, however busy others keep the shard.
    pub(super) const PREFERRED: u32 = 16384;
    /// The kernel has told of the peer's close, and does not do so again: reads go on up to it.
    pub(super) const CLOSE_TOLD: u32 = 32768;
    /// HTTP/2 is spoken on it: its bytes are frames of its streams.
    pub(super) const CARRIER: u32 = 1 << 16;
    /// Has no socket, but a part of a carrier's connection.
    pub(super) const STREAM: u32 = 1 << 17;
    /// Its carrier speaks TLS.
    pub(super) const OVER_TLS: u32 = 1 << 18;
    /// The app has heard nothing: it may begin with HTTP/2.
    pub(super) const FRESH: u32 = 1 << 19;
    /// Client and server agreed on HTTP/2 by ALPN.
    pub(super) const AGREED: u32 = 1 << 20;
    /// Nothing new is taken for it or from it.
    pub(super) const LEAVING: u32 = ENDING | LINGERING | CLOSED | READ_END | SLOW;
}

pub(crate) struct Slot<S, F> {
    /// None for a stream of another connection.
    socket: Option<F>,
    generation: u32,
    out: u32,
    tag: u32,
    flags: u32,
    session: S,
}

impl<S, F> Slot<S, F> {
    const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is on its way out and may take longer if the kernel takes bytes.
    const fn progress_gives_time(&self) -> bool {
        self.has(flag::LEAVING) && !self.has(flag::SLOW)
    }

    /// Whether its queue was full and the app has not heard of it.
    const fn awaits_last_word(&self) -> bool {
        self.has(flag::SLOW) && !self.has(flag::ENDING | flag::LINGERING)
    }

    /// Returns the side that ended it: the one that began to.
    const fn ended_by(&self) -> Closed {
        let by_peer = self.has(flag::READ_END) && !self.has(flag::ENDING | flag::LINGERING);
        if self.has(flag::SLOW) {
            Closed::Slow
        } else if by_peer {
            Closed::ByPeer
        } else {
            Closed::ByApp
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ConnLimits {
    /// Bytes of deliveries that may wait for one connection.
    pub queue_bytes_max: usize,
    /// Bytes that may wait for all connections of the shard together; what several of them share
    /// counts once.
    pub queued_bytes_max: usize,
    /// While more bytes than this wait for a connection, nothing is read from it.
    /// Queue: `input`.
    pub unread_above_bytes: usize,
    /// Descriptors kept back for listeners that [`crate::App::may_use_spares`].
    pub spare_descriptors: usize,
    /// Milliseconds for the TLS handshake, on listeners that speak TLS.
    pub handshake_timeout_ms: u64,
    /// Bounds of each connection that speaks HTTP/2.
    pub http2: H2Limits,
    /// Milliseconds for what its peer has begun to say and others cannot be heard before.
    pub frame_timeout_ms: u64,
    /// Milliseconds for which it is kept without streams.
    pub idle_timeout_ms: u64,
}

impl ConnLimits {
    /// Bounds that suit most shards.
    pub const USUAL: Self = Self {
        queue_bytes_max: 1 << 20,
        queued_bytes_max: usize::MAX,
        unread_above_bytes: 256 << 10,
        spare_descriptors: 0,
        handshake_timeout_ms: 10_000,
        http2: H2Limits::USUAL,
        frame_timeout_ms: 10_000,
        idle_timeout_ms: 60_000,
    };
}

impl Default for ConnLimits {
    fn default() -> Self {
        Self::USUAL
    }
}

#[derive(Clone, Copy)]
pub enum Pieces<'a> {
    Made(&'a [Frame]),
    /// Frames that are made only if they must be queued.
    Lazy(&'a Frames),
    /// Parts of one message: all of them are queued, or none, and none is dropped. Needs
    /// [`Delivery::gather`].
    Parts(&'a [Frame]),
}

impl<'a> Pieces<'a> {
    pub const fn len(self) -> usize {
        match self {
            Self::Made(frames) | Self::Parts(frames) => frames.len(),
            Self::Lazy(frames) => frames.len(),
        }
    }

    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn each(self) -> &'a [Frame] {
        match self {
            Self::Made(frames) | Self::Parts(frames) => frames,
            Self::Lazy(frames) => frames.each(),
        }
    }
}

/// Frames for one connection: each by itself, and all of them in one piece.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    pub frames: Pieces<'a>,
    /// Bytes of all frames, one after the other.
    pub joined: &'a [u8],
    /// Frames with one key replace each other under [`Overflow::LatestOnly`].
    pub key: u32,
    /// Rule that applies when the queue is full.
    pub overflow: Overflow,
    /// Queue even if the connection could be written to now: more will follow in this turn.
    pub gather: bool,
}

/// A shard's connections: their slots, deadlines and queues.
pub struct Conns<S, K: Kernel = Linux> {
    shard: ShardId,
    limits: ConnLimits,
    pub(crate) kernel: K,
    slots: Slots<Slot<S, K::Socket>>,
    generation: u32,
    queues: Slots<Outbound>,
    sum: Sum,
    pool: Vec<Outbound>,
    wheel: Wheel,
    dirty: Vec<u32>,
    closed: Vec<(u32, Closed)>,
    /// Those whose queue was full, until the app has had its last word.
    slow: Vec<u32>,
    /// Those whose input is wanted again.
    resumed: Vec<u32>,
    secured: Secured,
    streams: Streams,
    /// Listeners to close at the end of the turn, and whether what waits in them is accepted first.
    pub(crate) closing_listeners: Vec<(u8, bool)>,
    scratch: Vec<u8>,
    now: Now,
    /// When `now` was read, by the kernel's monotonic clock.
    pub(crate) now_us: u64,
    stats: ConnStats,
}

impl<S, K: Kernel> Conns<S, K> {
    pub(crate) fn new(shard: ShardId, limits: ConnLimits, kernel: K) -> Self {
        Self {
            shard,
            limits,
            kernel,
            slots: Slots::default(),
            generation: 0,
            queues: Slots::default(),
            sum: Sum::default(),
            pool: Vec::new(),
            wheel: Wheel::default(),
            dirty: Vec::new(),
            closed: Vec::new(),
            slow: Vec::new(),
            resumed: Vec::new(),
            secured: Secured::default(),
            streams: Streams::default(),
            closing_listeners: Vec::new(),
            scratch: Vec::new(),
            now: Now::default(),
            now_us: 0,
            stats: ConnStats::default(),
        }
    }

    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub const fn stats(&self) -> ConnStats {
        self.stats
    }

    /// Bytes that one idle connection occupies in the table, without what its session owns
    /// elsewhere.
    pub const fn slot_bytes() -> usize {
        size_of::<Slot<S, K::Socket>>()
    }

    /// The id of the connection in a slot.
    pub fn id(&self, index: u32) -> Option<ConnId> {
        Some(self.id_of(index, self.slots.get(index)?))
    }

    pub fn sessions(&self) -> impl Iterator<Item = (ConnId, &S)> {
        { self.slots.iter() }.map(|(index, slot)| (self.id_of(index, slot), &slot.session))
    }

    const fn id_of(&self, index: u32, slot: &Slot<S, K::Socket>) -> ConnId {
        ConnId::new(self.shard, index, slot.generation)
    }

    /// Returns the slot of a connection that is still there.
    fn slot(&self, id: ConnId) -> Option<&Slot<S, K::Socket>> {
        let slot = self.slots.get(id.index())?;
        (id == self.id_of(id.index(), slot)).then_some(slot)
    }

    /// The session of a connection that is still there.
    pub fn session(&self, id: ConnId) -> Option<&S> {
        Some(&self.slot(id)?.session)
    }

    pub fn queued_bytes(&self, id: ConnId) -> usize {
        let queue = self.slot(id).and_then(|slot| self.queues.get(slot.out));
        queue.map_or(0, Outbound::bytes)
    }

    /// Last time that the kernel took some of the bytes that wait for a connection, or that they
    /// began to wait; `None` if none waits.
    pub fn waits_since(&self, id: ConnId) -> Option<Millis> {
        let queue = self.queues.get(self.slot(id)?.out)?;
        (queue.bytes() > 0).then_some(queue.moved_at)
    }

    /// Whether a connection is on its way out because its queue was full.
    pub fn is_slow(&self, id: ConnId) -> bool {
        self.slot(id).is_some_and(|slot| slot.has(flag::SLOW))
    }

    /// The clocks, as read at the start of the turn.
    pub const fn now(&self) -> Now {
        self.now
    }

    /// Unix time in microseconds, read now: what [`Self::now`] says and the part of the turn that
    /// has passed.
    pub fn unix_us(&self) -> u64 {
        self.now.unix_ms * 1000 + self.kernel.mono_us().saturating_sub(self.now_us)
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
    /// Bytes that are written before leave once it is established. Fails with what the kernel
    /// reports at once, for example no free port (`EADDRNOTAVAIL`) or descriptor (`EMFILE`).
    pub fn connect(
        &mut self,
        source: Option<std::net::SocketAddr>,
        target: std::net::SocketAddr,
        accepted: Accepted<S>,
    ) -> io::Result<ConnId> {
        let id = self.open(source, target, accepted)?;
        self.watch(id.index());
        Ok(id)
    }

    /// As [`Self::connect`], to the socket at a path of this machine.
    pub fn connect_path(
        &mut self,
        path: &std::path::Path,
        accepted: Accepted<S>,
    ) -> io::Result<ConnId> {
        let socket = self.kernel.connect_path(path)?;
        let id = self.insert(Some(socket), accepted, true);
        self.watch(id.index());
        Ok(id)
    }

    /// Opens an outgoing connection that is not watched yet.
    fn open(
        &mut self,
        source: Option<std::net::SocketAddr>,
        target: std::net::SocketAddr,
        accepted: Accepted<S>,
    ) -> io::Result<ConnId> {
        let socket = self.kernel.connect(source, target)?;
        Ok(self.insert(Some(socket), accepted, true))
    }

    /// Lets the kernel ask after so long without a byte whether a connection's peer is there.
    pub fn keep_alive(&mut self, conn: ConnId, after: std::time::Duration) {
        if let Some(slot) = self.slots.get(conn.index())
            && conn == self.id_of(conn.index(), slot)
            && let Some(socket) = &slot.socket
        {
            self.kernel.keep_alive(socket, after);
        }
    }

    /// The address of a connection's peer, if the kernel still knows it; of a stream, the client's
    /// for whom HTTP/2 began.
    pub fn peer(&self, conn: ConnId) -> Option<IpAddr> {
        match &self.slot(conn)?.socket {
            Some(socket) => Some(self.kernel.peer(socket)?.ip().to_canonical()),
            None => self.stream_peer(conn.index()),
        }
    }

    /// Other bounds hold from now on; what waits beyond them goes by the rule for "full".
    /// Descriptors that were kept back stay so.
    pub const fn set_limits(&mut self, limits: ConnLimits) {
        self.limits = ConnLimits {
            spare_descriptors: self.limits.spare_descriptors,
            ..limits
        };
        // Counted for the old bound.
        self.sum.since_max = 0;
    }

    pub(crate) const fn limits(&self) -> &ConnLimits {
        &self.limits
    }

    /// Closes a listener at the end of the turn, by its number. Connections that wait in its
    /// backlog are refused by the kernel; another process on the same port gets the next ones.
    pub fn stop_listening(&mut self, listener: u8) {
        self.closing_listeners.push((listener, false));
    }

    /// Closes a listener once the connections that wait in its backlog are accepted.
    pub fn stop_listening_when_empty(&mut self, listener: u8) {
        self.closing_listeners.push((listener, true));
    }

    /// The sessions of connections that are not on their way out.
    pub fn staying(&self) -> impl Iterator<Item = (ConnId, &S)> {
        let staying = { self.slots.iter() }.filter(|(_, slot)| !slot.has(flag::LEAVING));
        staying.map(|(index, slot)| (self.id_of(index, slot), &slot.session))
    }

    /// Whether no connection is left but those to which all was said, and whose peers may not have
    /// taken note of it.
    pub fn all_have_left(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|(_, slot)| slot.has(flag::LINGERING | flag::CLOSED))
    }

    /// The connection's queue, from the pool if it has none. The slot exists.
    fn queue_mut(&mut self, index: u32) -> &mut Outbound {
        let slot = self
            .slots
            .get_mut(index)
            .expect("the caller has looked it up");
        if slot.out == NO_QUEUE {
            let mut queue = self.pool.pop().unwrap_or_default();
            (queue.owner, queue.moved_at) = (index, self.now.mono);
            slot.out = self.queues.insert(queue);
        }
        self.queues
            .get_mut(slot.out)
            .expect("a slot's queue exists")
    }

    /// Serves a connection first from now on, and ends it last.
    pub fn prefer(&mut self, id: ConnId) {
        if let Some(slot) = self.slots.get_mut(id.index()) {
            slot.flags |= flag::PREFERRED;
        }
    }

    pub(crate) fn is_preferred(&self, index: u32) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.has(flag::PREFERRED))
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

    /// Marks a connection as gone, failed or ended; it leaves its slot at the end of the turn.
    pub(crate) fn close(&mut self, index: u32, why: Closed) {
        if let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| !slot.has(flag::CLOSED))
        {
            slot.flags |= flag::CLOSED;
            let is_slow = slot.has(flag::SLOW);
            self.closed
                .push((index, if is_slow { Closed::Slow } else { why }));
        }
    }

    /// Marks a connection as failed by an error of the kernel's. It is not the news if the
    /// peer had ended its side, or everything had left and only its end was awaited.
    pub(crate) fn fail(&mut self, index: u32, error: &io::Error) {
        let expected = |slot: &Slot<S, K::Socket>| {
            slot.has(flag::LINGERING) || slot.has(flag::READ_END) && !slot.has(flag::ENDING)
        };
        let why = match self.slots.get(index) {
            Some(slot) if expected(slot) => slot.ended_by(),
            _ => Closed::Error(error.raw_os_error().unwrap_or(0)),
        };
        self.close(index, why);
    }
}

/// Counters of the connection table, for metrics. They only rise.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnStats {
    pub sent_bytes: u64,
    pub writes: u64,
    /// Frames handed over by [`crate::Conns::deliver`] and not refused.
    pub deliveries: u64,
    pub dropped_oldest: u64,
    /// Frames forgotten under [`Overflow::LatestOnly`], mostly because a newer one replaced them.
    pub dropped_latest_only: u64,
    /// Times that a queue began to forget frames.
    pub lagged: u64,
    /// Connections ended because their queue was full, or all queues together.
    pub slow: u64,
    /// Those of them that ended because all queues together were.
    pub crowded: u64,
    /// Connections ended because their peers did not keep to HTTP/2.
    pub http2_faults: u64,
}

impl ConnStats {
    /// Counts frames that a queue forgot; `kept_all` says that it had forgotten none before.
    pub(crate) fn forgot(&mut self, overflow: Overflow, dropped: u64, kept_all: bool) {
        match overflow {
            Overflow::LatestOnly => self.dropped_latest_only += dropped,
            Overflow::DropOldest | Overflow::Close => self.dropped_oldest += dropped,
        }
        self.lagged += u64::from(kept_all && dropped > 0);
    }
}

#[cfg(test)]
mod tests;
