//! The network between clients and shards, and the clock: what the simulated kernel knows.
//!
//! Owns every connection's bytes on their way, both ways, and how it ends. Never: loses or
//! reorders a byte of a connection that lives. What the shards see of it is in `kernel.rs`.

mod carrier;
mod odds;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Arguments;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use throng_http2::UPGRADE_KEY;
use throng_types::{Now, Rng};
use throng_ws::Masking;

use self::carrier::Lanes;
use self::odds::Odds;
use crate::tally::Tally;
use crate::trace::{Detail, Trace};

/// 2023-11-14, when every run begins.
pub(crate) const UNIX_MS: u64 = 1_700_000_000_000;
/// When every run begins, on the clock that only rises.
const MONO_US: u64 = 1_000_000;

/// Time in µs that a slow client has to take the last message; the engine's value.
const SLOW_US: u64 = 15_000_000;

/// One connection. Its number is never used twice.
#[derive(Default)]
pub(crate) struct Conn {
    /// From the client, not arrived yet.
    pub(crate) flying: VecDeque<u8>,
    /// Arrived at the server.
    pub(crate) up: VecDeque<u8>,
    /// From the server: the kernel's buffers on the way.
    pub(crate) down: VecDeque<u8>,
    pub(crate) down_bytes_max: usize,
    /// The client has shut its sending side; it is seen behind what is flying.
    pub(crate) client_fin: bool,
    /// The client is gone and takes nothing more; a write fails with that.
    pub(crate) client_gone: bool,
    /// The server knows it without writing, and can read nothing more.
    pub(crate) reset: bool,
    pub(crate) server_fin: bool,
    /// Processes that have it open.
    pub(crate) holders: usize,
    /// The server has closed it, or refused it.
    pub(crate) server_gone: bool,
    /// When the server closed it.
    pub(crate) closed_at_us: Option<u64>,
    /// Since when it is known to end because its client is too slow.
    pub(crate) slow_at_us: Option<u64>,
    /// The network ended it before it was accepted.
    pub(crate) aborted: bool,
    /// A write was refused, and the writer is owed an event when there is room.
    pub(crate) wants_room: bool,
    /// The shard, the table index under which it is watched, and whether room is reported.
    pub(crate) watched: Option<(usize, u32, bool)>,
    /// The server opened it, and it is not established; true if it is refused.
    pub(crate) dialled: Option<bool>,
    /// Input came since the last event.
    pub(crate) edge_in: bool,
    /// Room came since the last event.
    pub(crate) edge_room: bool,
    /// The connection that carries it, if it is a lane: nothing but `aborted` is its own then.
    pub(crate) rides: Option<usize>,
}

impl Conn {
    pub(crate) fn new(down_bytes_max: usize) -> Self {
        Self {
            down_bytes_max,
            ..Self::default()
        }
    }

    pub(crate) fn readable(&self) -> bool {
        self.reset || !self.up.is_empty() || self.fin_arrived()
    }

    pub(crate) fn fin_arrived(&self) -> bool {
        self.client_fin && self.flying.is_empty()
    }

    pub(crate) fn room(&self) -> usize {
        self.down_bytes_max.saturating_sub(self.down.len())
    }

    /// Bytes, the end, or a reset arrive.
    fn changed(&mut self) {
        self.edge_in |= self.watched.is_some();
    }
}

/// A listener of one shard.
#[derive(Default)]
pub(crate) struct Port {
    /// Connections that wait to be accepted.
    pub(crate) backlog: VecDeque<usize>,
    /// One came since the last event.
    pub(crate) edge: bool,
    pub(crate) closed: bool,
}

impl Port {
    /// Refuses those that wait; no new ones are sent here.
    pub(crate) fn close(&mut self, conns: &mut [Conn]) {
        self.closed = true;
        for number in std::mem::take(&mut self.backlog) {
            let conn = &mut conns[number];
            (conn.server_gone, conn.aborted) = (true, true);
        }
    }
}

/// Kernel state of one shard.
#[derive(Default)]
pub(crate) struct ShardSide {
    /// Set by its wakers, taken by its wait.
    pub(crate) woken: Arc<AtomicBool>,
    pub(crate) ports: Vec<Port>,
    /// Events to report for indexes without a connection.
    pub(crate) strays: Vec<u32>,
}

/// The simulated network and clock that all shards and clients share.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) mono_us: u64,
    /// Wall clock in ms since 1970; it may leap.
    pub(crate) unix_ms: u64,
    pub(crate) conns: Vec<Conn>,
    /// Connections that may be reported to a shard, in the order in which they were accepted.
    pub(crate) live: Vec<usize>,
    pub(crate) shards: Vec<ShardSide>,
    pub(crate) odds: Odds,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    /// Connections that shards opened and that have no answer yet, with their targets.
    pub(crate) dialled: VecDeque<(usize, SocketAddr)>,
    /// Descriptors left for accepted connections.
    pub(crate) descriptors: usize,
    /// Messages that a mailbox between two shards holds.
    pub(crate) mailbox_slots: usize,
    /// Time of the last fault that may end a connection or lose what was on it.
    pub(crate) faulted_at_us: u64,
    /// Number of connections, those that are dialled among them, before that.
    pub(crate) faulted_conns: usize,
}

/// The one world of a run, shared by all of its parts.
#[derive(Clone)]
pub(crate) struct Net(pub(crate) Rc<RefCell<World>>, Rc<RefCell<Lanes>>);

/// Notes an event of the run, in the words of `format!`.
macro_rules! note {
    ($net:expr, $($words:tt)+) => {
        $net.note(format_args!($($words)+))
    };
}

// Behind the macro, which it uses.
mod lanes;

impl Net {
    pub(crate) fn new(seed: u64, detail: Detail) -> Self {
        let world = World {
            rng: Rng::new(seed),
            mono_us: MONO_US,
            unix_ms: UNIX_MS,
            conns: Vec::new(),
            live: Vec::new(),
            shards: Vec::new(),
            odds: Odds::default(),
            tally: Tally::default(),
            trace: Trace::new(detail),
            dialled: VecDeque::new(),
            descriptors: 1000,
            mailbox_slots: 4096,
            faulted_at_us: 0,
            faulted_conns: 0,
        };
        Self(Rc::new(RefCell::new(world)), Rc::default())
    }

    // ---- chance, time and trace ----

    pub(crate) fn below(&self, bound: usize) -> usize {
        self.0.borrow_mut().rng.below(bound as u64) as usize
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.borrow_mut().rng.next_u64()
    }

    /// Mask of a client's WebSocket frame.
    pub(crate) fn masking(&self) -> Masking {
        Masking::Client((self.next() as u32).to_be_bytes())
    }

    /// Key of a WebSocket handshake.
    pub(crate) fn key(&self) -> [u8; 16] {
        match self.may_have_lanes() {
            true => UPGRADE_KEY,
            false => (u128::from(self.next()) << 64).to_be_bytes(),
        }
    }

    /// Draws how much a mailbox between two shards holds, and the odds of faults.
    pub(crate) fn draw_faults(&self, mailbox_slots: &[usize]) {
        let slots = self.pick(mailbox_slots);
        self.0.borrow_mut().mailbox_slots = slots;
        self.draw_odds();
    }

    /// Draws the odds of faults.
    pub(crate) fn draw_odds(&self) {
        let world = &mut *self.0.borrow_mut();
        world.odds = Odds::draw(&mut world.rng);
    }

    /// From now on no connection fails because it cannot be accepted.
    pub(crate) fn accepts_all(&self) {
        self.0.borrow_mut().odds.accept = 0;
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn now(&self) -> Now {
        let world = self.0.borrow();
        Now {
            mono: throng_types::Millis(world.mono_us / 1000),
            unix_ms: world.unix_ms,
        }
    }

    /// Time in µs on the clock that only rises.
    pub(crate) fn now_us(&self) -> u64 {
        self.0.borrow().mono_us
    }

    pub(crate) fn pass_us(&self, us: u64) {
        let mut world = self.0.borrow_mut();
        let before = world.mono_us / 1000;
        world.mono_us += us;
        world.unix_ms += world.mono_us / 1000 - before;
    }

    pub(crate) fn note(&self, words: Arguments<'_>) {
        let world = self.0.borrow();
        world.trace.note(world.mono_us, words);
    }

    /// Counts something that `shown.txt` names.
    pub(crate) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: &'static str, times: u64) {
        self.0.borrow_mut().tally.add(what, times);
    }

    /// Makes the clock leap, and counts it.
    pub(crate) fn leap_ms(&self, ms: u64) {
        self.count("the clock leaps");
        note!(self, "the clock leaps by {ms} ms");
        self.pass_us(ms * 1000);
    }

    /// A fault may end connections, or lose what was on them.
    pub(crate) fn fault(&self) {
        let world = &mut *self.0.borrow_mut();
        world.faulted_at_us = world.mono_us;
        world.faulted_conns = world.conns.len();
    }

    // ---- the clients' side ----

    /// A client connects; the kernel gives the connection to a shard.
    pub(crate) fn connect(&self, port: u8, down_bytes_max: usize) -> usize {
        self.connect_to(0..usize::MAX, port, down_bytes_max)
    }

    /// Connects as [`Self::connect`] does, to the process with these kernels.
    pub(crate) fn connect_to(
        &self,
        kernels: Range<usize>,
        port: u8,
        down_bytes_max: usize,
    ) -> usize {
        let lane = { Some(kernels.clone()).filter(|_| port == 0) }
            .and_then(|kernels| self.open_lane(&kernels, down_bytes_max));
        lane.unwrap_or_else(|| self.connect_socket(kernels, port, down_bytes_max))
    }

    fn connect_socket(&self, kernels: Range<usize>, port: u8, down_bytes_max: usize) -> usize {
        let mut world = self.0.borrow_mut();
        let number = world.conns.len();
        world.conns.push(Conn::new(down_bytes_max));
        let port = usize::from(port);
        let listens = |side: &ShardSide| side.ports.get(port).is_some_and(|port| !port.closed);
        let open: Vec<usize> = (0..world.shards.len())
            .filter(|shard| kernels.contains(shard))
            .filter(|&shard| listens(&world.shards[shard]))
            .collect();
        if open.is_empty() {
            let conn = &mut world.conns[number];
            (conn.server_gone, conn.aborted) = (true, true);
            return number;
        }
        let shard = open[world.rng.below(open.len() as u64) as usize];
        let port = &mut world.shards[shard].ports[port];
        port.backlog.push_back(number);
        port.edge = true;
        number
    }

    /// A client writes. What it wrote arrives at once, or in pieces.
    pub(crate) fn client_send(&self, number: usize, bytes: &[u8]) {
        if self.is_lane(number) {
            return self.lane_sends(number, bytes);
        }
        let mut world = self.0.borrow_mut();
        let split = world.odds.split;
        let splits = (world.rng.below(100) as usize) < split && bytes.len() > 1;
        let conn = &mut world.conns[number];
        if conn.client_fin || conn.server_gone {
            return;
        }
        conn.flying.extend(bytes);
        if splits {
            world.tally.count("a client's bytes arrive in pieces");
        } else {
            drop(world);
            self.arrive(number, usize::MAX);
        }
    }

    /// A connection that a shard opened, and where it goes. It is to be answered.
    pub(crate) fn take_dialled(&self) -> Option<(usize, SocketAddr)> {
        self.0.borrow_mut().dialled.pop_front()
    }

    /// Establishes a connection that a shard opened, or refuses it.
    pub(crate) fn answer_dial(&self, number: usize, is_refused: bool) {
        let mut world = self.0.borrow_mut();
        let conn = &mut world.conns[number];
        conn.dialled = is_refused.then_some(true);
        conn.edge_room = true;
    }

    /// Bytes on their way arrive, at most so many.
    pub(crate) fn arrive(&self, number: usize, bytes_max: usize) {
        let number = self.socket(number);
        let mut world = self.0.borrow_mut();
        let conn = &mut world.conns[number];
        let count = conn.flying.len().min(bytes_max);
        if count == 0 {
            return;
        }
        let Conn { flying, up, .. } = conn;
        up.extend(flying.drain(..count));
        conn.changed();
    }

    /// Connections that may be reported to a shard.
    pub(crate) fn live(&self) -> Vec<usize> {
        self.0.borrow().live.clone()
    }

    /// All bytes on their way arrive on connections that shards have.
    pub(crate) fn arrive_all(&self) {
        for conn in self.live() {
            self.arrive(conn, usize::MAX);
        }
    }

    /// Some bytes arrive on one of them, at most so many as one of these.
    pub(crate) fn arrive_some(&self, bytes_max: &[usize]) {
        let live = self.live();
        if !live.is_empty() {
            self.arrive(self.pick(&live), self.pick(bytes_max));
        }
    }

    /// A client shuts its sending side and goes on reading.
    pub(crate) fn client_fin(&self, number: usize) {
        if self.is_lane(number) {
            return self.lane_shuts(number);
        }
        let mut world = self.0.borrow_mut();
        let conn = &mut world.conns[number];
        conn.client_fin = true;
        conn.changed();
    }

    /// A client is gone. With `reset` this is reported to the server at once, and nothing else is.
    pub(crate) fn client_leaves(&self, number: usize, reset: bool) {
        if self.is_lane(number) {
            return self.lane_leaves(number, reset);
        }
        let mut world = self.0.borrow_mut();
        let conn = &mut world.conns[number];
        (conn.client_fin, conn.client_gone) = (true, true);
        conn.down.clear();
        if reset {
            conn.reset = true;
            conn.up.clear();
        }
        let flying = std::mem::take(&mut conn.flying);
        if !reset {
            conn.up.extend(flying);
        }
        conn.edge_room |= conn.watched.is_some();
        conn.changed();
    }

    /// A client is gone at once, with a reset or without; gives which.
    pub(crate) fn client_drops(&self, number: usize) -> bool {
        let reset = self.percent(50);
        self.count(match reset {
            true => "a client resets its connection",
            false => "a client leaves with bytes to read",
        });
        self.client_leaves(number, reset);
        reset
    }

    /// Bytes of the next read of a client that reads as it likes, now and then not for a while;
    /// `None` while it does not.
    pub(crate) fn reads(&self, from_us: &mut u64, bytes_max: usize) -> Option<usize> {
        let now_us = self.now_us();
        if now_us < *from_us {
            return None;
        }
        if self.percent(4) {
            self.count("a client does not read for a while");
            *from_us = now_us + self.pick(&[5_000, 300_000]);
        }
        Some(self.between(1, bytes_max))
    }

    /// A client reads, at most so many bytes; `None` at the end of the stream.
    pub(crate) fn client_recv(&self, number: usize, bytes_max: usize) -> Option<Vec<u8>> {
        if self.is_lane(number) {
            return self.lane_recv(number, bytes_max);
        }
        let mut world = self.0.borrow_mut();
        let conn = &mut world.conns[number];
        let count = conn.down.len().min(bytes_max);
        if count == 0 {
            let ended = conn.down.is_empty() && (conn.server_fin || conn.server_gone);
            return (!ended).then(Vec::new);
        }
        let bytes = conn.down.drain(..count).collect();
        if std::mem::take(&mut conn.wants_room) {
            conn.edge_room |= conn.watched.is_some();
        }
        Some(bytes)
    }

    /// Another process accepts from now on: the ports of a shard are those of another one's.
    pub(crate) fn give_ports(&self, from: usize, to: usize) {
        let mut world = self.0.borrow_mut();
        let theirs = std::mem::take(&mut world.shards[to].ports);
        world.shards[to].ports = std::mem::replace(&mut world.shards[from].ports, theirs);
        for port in &mut world.shards[to].ports {
            port.edge = true;
        }
    }

    /// The process with these kernels is killed: connections that wait are refused.
    pub(crate) fn kill(&self, kernels: Range<usize>) {
        let World { shards, conns, .. } = &mut *self.0.borrow_mut();
        for port in shards[kernels].iter_mut().flat_map(|side| &mut side.ports) {
            port.close(conns);
        }
    }

    /// The connections of a shard that live.
    pub(crate) fn live_of(&self, shard: usize) -> Vec<usize> {
        let world = self.0.borrow();
        let live = world.live.iter().copied();
        let is_its = |at: usize| matches!(world.conns[at].watched, Some((of, ..)) if of == shard);
        live.filter(|at| is_its(*at)).collect()
    }

    /// A shard ends those at these indexes because their clients are too slow; gives how many of
    /// them are news.
    pub(crate) fn are_slow(&self, shard: usize, indexes: &[u32]) -> u64 {
        let mut world = self.0.borrow_mut();
        let (now_us, mut news) = (world.mono_us, 0);
        for conn in &mut world.conns {
            let is_it = |(of, index, _)| of == shard && indexes.contains(&index);
            if conn.watched.is_some_and(is_it) && conn.slow_at_us.is_none() {
                conn.slow_at_us = Some(now_us);
                news += 1;
            }
        }
        news
    }

    /// Records that `count` of these connections were cut as too slow in the turn. Where others
    /// have gone too, it is not known which.
    pub(crate) fn were_cut_as_slow(&self, those: &[usize], count: u64) {
        let mut world = self.0.borrow_mut();
        let now_us = world.mono_us;
        let gone = those.iter().copied();
        let gone: Vec<usize> = gone.filter(|at| world.conns[*at].server_gone).collect();
        if gone.len() as u64 == count {
            for at in gone {
                world.conns[at].slow_at_us.get_or_insert(now_us);
            }
        }
    }

    /// Whether the server had the time to send its last message to a client that it found too slow.
    pub(crate) fn owed_last_word(&self, number: usize) -> bool {
        let world = self.0.borrow();
        let conn = &world.conns[number];
        conn.slow_at_us.is_some_and(|since_us| {
            let ended_us = conn.closed_at_us.unwrap_or(world.mono_us);
            conn.server_fin || ended_us - since_us < SLOW_US
        })
    }

    /// Whether the kernel has an event for a shard.
    pub(crate) fn has_events(&self, shard: usize) -> bool {
        let world = self.0.borrow();
        let side = &world.shards[shard];
        let of_shard = |conn: &Conn| matches!(conn.watched, Some((of, ..)) if of == shard);
        side.woken.load(Ordering::Relaxed)
            || !side.strays.is_empty()
            || side.ports.iter().any(|port| port.edge)
            || world
                .live
                .iter()
                .map(|&number| &world.conns[number])
                .any(|conn| (conn.edge_in || conn.edge_room) && of_shard(conn))
    }

    /// Whether connections wait to be accepted: accepting may have paused.
    pub(crate) fn has_backlog(&self) -> bool {
        let world = self.0.borrow();
        let mut ports = world.shards.iter().flat_map(|side| &side.ports);
        ports.any(|port| !port.backlog.is_empty())
    }

    /// The connections that some shard knows by an index: what is needed to read a trace.
    pub(crate) fn watched_as(&self, index: u32) -> Vec<usize> {
        let world = self.0.borrow();
        let is_it = |&at: &usize| {
            world.conns[at]
                .watched
                .is_some_and(|(_, is, _)| is == index)
        };
        (0..world.conns.len()).filter(is_it).collect()
    }

    /// Whether a connection never reached the app, or was dropped with the one that carried it: its
    /// end proves nothing about it.
    pub(crate) fn was_aborted(&self, number: usize) -> bool {
        self.0.borrow().conns[number].aborted
    }
}
