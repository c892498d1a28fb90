//! The shard's loop: one thread, one reactor, one turn after the other.
//!
//! A turn waits for readiness, reads the clock once, feeds sessions, takes mail, lets
//! the app run its hub, posts what that gave for other shards, delivers, and writes each dirty
//! connection once. Every part of it is bounded, so that no crowd of one kind starves another.

mod events;

use std::io;
use std::time::Duration;

use throng_tls::ServerTls;
use throng_types::{Millis, Now, ShardId};

use crate::conns::Flushed;
use crate::mailbox::{self, Mailboxes};
use crate::{App, ConnLimits, Conns, Kernel, Linux, MailReceiver, MailSender, Ready, Source};

const READ_BYTES: usize = 64 << 10;
/// Microseconds for which one turn reads; what waits then is read in the next one. After a
/// turn that took much longer, because of what was read, the next one reads for half as long.
const READING_US_MAX: u64 = 10_000;
const READING_US_MIN: u64 = 1_000;
/// Bytes that are read between two looks at the clock.
const LOOK_BYTES: usize = 4 << 10;
/// Bytes that a shorter read counts for: after four of them the clock is looked at.
const LOOK_BYTES_PER_READ: usize = LOOK_BYTES / 4;
/// Mail that one turn takes from each mailbox.
const MAIL_PER_TURN: usize = 1024;
/// Longest wait of a still turn for mail of other shards.
const WAIT: Duration = Duration::from_millis(1);

/// Parts from which a shard on any kernel is built.
pub struct ShardParts<K: Kernel> {
    pub shard: ShardId,
    pub kernel: K,
    /// Listening sockets, at most 16; the place in this list is the number that the app gets.
    pub listeners: Vec<K::Listener>,
    pub limits: ConnLimits,
}

/// Counters of a shard's loop, for metrics. They only rise, but for `last_turn_us`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopStats {
    pub turns: u64,
    pub accepted: u64,
    /// Connections and streams that the app refused at once.
    pub refused: u64,
    /// Streams that began on connections of HTTP/2.
    pub streams: u64,
    pub read_bytes: u64,
    pub accept_pauses: u64,
    pub mail: u64,
    /// Shards that slept and were woken for it.
    pub wakes: u64,
    /// Times that the loop had nothing to do and slept.
    pub sleeps: u64,
    /// Microseconds that the last turn took, without the wait before it. The one figure that falls.
    pub last_turn_us: u64,
}

struct Listener<L> {
    /// None once the app has stopped listening.
    socket: Option<L>,
    /// Connections wait and are not taken yet: readiness is reported only once.
    waiting: bool,
    /// There was no descriptor for the next one; until [`Running::accept_again_at`].
    paused: bool,
}

impl<L> Listener<L> {
    const fn may_accept(&self) -> bool {
        self.waiting && !self.paused
    }
}

pub struct Running<A: App<K>, K: Kernel = Linux> {
    app: A,
    conns: Conns<A::Session, K>,
    mail: Mailboxes<A::Mail, K>,
    listeners: Vec<Listener<K::Listener>>,
    /// TLS settings by listener number; `None` for a listener without TLS.
    tls: Vec<Option<ServerTls>>,
    /// Accepting is paused, and this is when it is tried again.
    accept_again_at: Option<Millis>,
    is_pause_told: bool,
    /// Descriptors kept back. Bound: [`crate::ConnLimits::spare_descriptors`].
    spares: Vec<K::Spare>,
    /// Connections with more input than their share of the last turn, or that the last turn had no
    /// time for, which come first.
    unread: Vec<u32>,
    /// Connections with more input than their share of this turn.
    again: Vec<u32>,
    reading_us: u64,
    reads_until_us: u64,
    /// Read since the last look at the clock.
    unlooked_bytes: usize,
    /// The last turn left work for the next.
    more: bool,
    /// Others were told that this shard sleeps.
    asleep: bool,
    /// A ring to another shard is full, or the app does not want mail: look again soon.
    mail_waits: bool,
    /// Mail from other shards was not taken in this turn.
    mail_left: bool,
    buffer: Box<[u8]>,
    /// Plain bytes of the records of one read.
    plain: Vec<u8>,
    /// Bytes for one stream of a connection.
    stream_bytes: Vec<u8>,
    ready: Vec<Ready>,
    stats: LoopStats,
}

impl<A: App<K>, K: Kernel> Running<A, K> {
    pub(crate) fn new(
        parts: ShardParts<K>,
        tls: Vec<Option<ServerTls>>,
        mail: Mailboxes<A::Mail, K>,
        app: A,
    ) -> Self {
        let listener = |socket| Listener {
            socket: Some(socket),
            waiting: true,
            paused: false,
        };
        let mut running = Self {
            app,
            conns: Conns::new(parts.shard, parts.limits, parts.kernel),
            mail,
            listeners: parts.listeners.into_iter().map(listener).collect(),
            tls,
            accept_again_at: None,
            is_pause_told: false,
            spares: Vec::new(),
            unread: Vec::new(),
            again: Vec::new(),
            reading_us: READING_US_MAX,
            reads_until_us: 0,
            unlooked_bytes: 0,
            more: true,
            asleep: false,
            mail_waits: false,
            mail_left: false,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            stream_bytes: Vec::new(),
            plain: Vec::new(),
            ready: Vec::new(),
            stats: LoopStats::default(),
        };
        // Connections of another process may come before the first turn.
        running.read_clocks();
        running
    }

    pub const fn app(&self) -> &A {
        &self.app
    }

    /// The app, to be changed between two turns.
    pub const fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    pub const fn conns(&self) -> &Conns<A::Session, K> {
        &self.conns
    }

    pub const fn stats(&self) -> LoopStats {
        self.stats
    }

    /// Whether the app says that it is finished.
    pub fn finished(&self) -> bool {
        self.app.finished(&self.conns)
    }

    /// Ends the shard; connections that are still open are closed as they are.
    pub fn into_app(self) -> A {
        self.app
    }

    /// Returns the longest wait of the next turn if nothing is ready; `None` is without end.
    pub fn wait_max(&self) -> Option<Duration> {
        if self.more {
            return Some(Duration::ZERO);
        }
        if self.mail_waits {
            return Some(Duration::from_millis(1));
        }
        let deadlines = [self.app.deadline(), self.accept_again_at];
        let earlier = |next: Option<Millis>, other: Option<Millis>| match (next, other) {
            (Some(next), Some(other)) => Some(next.min(other)),
            (next, other) => next.or(other),
        };
        let next = deadlines
            .into_iter()
            .fold(self.conns.next_deadline(), earlier)?;
        // A fresh look at the clock: the turn that set the deadline may have been long.
        let now_us = self.conns.kernel.mono_us();
        // Rounded up to the next millisecond, so that a wake-up finds the deadline passed.
        let wait_ms = (next.0 * 1000).saturating_sub(now_us).div_ceil(1000);
        Some(Duration::from_millis(wait_ms))
    }

    /// Waits until there is something to do, and does it. Fails if the kernel cannot wait, which
    /// leaves nothing to run on.
    pub fn turn(&mut self) -> io::Result<()> {
        let (ready, now, begun_us) = self.wait(self.wait_max())?;
        self.reads_until_us = begun_us + self.reading_us;
        self.unlooked_bytes = 0;
        self.more = self.work(&ready, now);
        self.ready = ready;
        self.stats.last_turn_us = self.conns.kernel.mono_us().saturating_sub(begun_us);
        self.reading_us = if self.stats.last_turn_us > 2 * READING_US_MAX {
            (self.reading_us / 2).max(READING_US_MIN)
        } else {
            (self.reading_us * 2).min(READING_US_MAX)
        };
        if !self.more {
            self.fall_asleep();
        }
        Ok(())
    }

    /// Waits for events, and reads the clocks; the monotonic one also in microseconds.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<(Vec<Ready>, Now, u64)> {
        let mut ready = std::mem::take(&mut self.ready);
        self.conns.kernel.wait(timeout, &mut ready)?;
        if std::mem::take(&mut self.asleep) {
            self.mail.awake();
        }
        let mono_us = self.read_clocks();
        self.stats.turns += 1;
        Ok((ready, self.conns.now(), mono_us))
    }

    /// Reads the clocks; gives the monotonic one in microseconds.
    fn read_clocks(&mut self) -> u64 {
        let mono_us = self.conns.kernel.mono_us();
        self.conns.now_us = mono_us;
        self.conns.set_now(Now {
            mono: Millis(mono_us / 1000),
            unix_ms: self.conns.kernel.unix_ms(),
        });
        mono_us
    }

    /// Announces to others that the next wait is a sleep; or finds that there is no time for one.
    fn fall_asleep(&mut self) {
        self.asleep = self.mail.fall_asleep(self.app.wants_mail());
        self.more = !self.asleep;
        // Nobody wakes it again for mail that the app did not want and that came meanwhile.
        self.mail_waits |= self.asleep && self.mail.has_mail();
        self.stats.sleeps += u64::from(self.asleep);
    }

    /// Handles what is ready; true if work is left for the next turn.
    fn work(&mut self, ready: &[Ready], now: Now) -> bool {
        let mut flushed = Flushed::default();
        for index in std::mem::take(&mut self.unread) {
            if self.conns.unlist(index) {
                match self.conns.is_stream(index) {
                    true => self.read_held(index),
                    false => self.read(index),
                }
            }
        }
        for event in ready {
            match event.source {
                Source::Mailbox => {}
                Source::Listener(number) => self.connections_wait(number),
                Source::Connection(index) => self.ready(index, event, &mut flushed),
            }
        }
        let mut more = self.take_mail(now);
        let expired = self.conns.expired();
        for index in expired {
            let app = &mut self.app;
            self.conns
                .act(index, |id, session, fx| app.timeout(id, session, fx));
        }
        more |= self.accept(now);
        more |= self.app.turn(&mut self.conns, now);
        // Before the deliveries, which take long: others can work meanwhile.
        self.post_mail();
        more |= self.app.deliver(&mut self.conns, now);
        self.stop_listening(now);
        more |= self.tell_slow();
        self.conns.flush(&mut flushed);
        while let Some((index, error)) = flushed.broken.pop() {
            self.read_last(index);
            self.conns.fail(index, &error);
        }
        more |= self.tell_drained(flushed.drained);
        self.unread.append(&mut flushed.unread);
        more |= self.tell_slow();
        // Why a connection broke comes before its end.
        self.tell_tls();
        more |= self.remove_closed(now);
        self.tell_tls();
        more |= self.app.flushed(&mut self.conns, now);
        self.mail_waits = self.post_mail() || self.mail_left;
        // If the app does not want it yet, another look soon will do.
        more |= self.mail_left && self.app.wants_mail();
        self.unread.append(&mut self.again);
        more || !self.unread.is_empty()
    }

    /// Tells the app of connections whose queues are empty again; true if there was one.
    fn tell_drained(&mut self, drained: Vec<(u32, u32)>) -> bool {
        let mut has_told = false;
        for (index, dropped) in drained {
            if !self.conns.is_ending(index) {
                let app = &mut self.app;
                self.conns.act(index, |id, session, fx| {
                    app.drained(id, session, dropped, fx)
                });
                has_told = true;
            }
        }
        has_told
    }

    /// Lets the app say its last word on connections whose queue was full; true if there was one.
    #[inline]
    fn tell_slow(&mut self) -> bool {
        let are_there = self.conns.has_slow();
        if are_there {
            self.tell_each_slow();
        }
        are_there
    }

    #[cold]
    fn tell_each_slow(&mut self) {
        while let Some(index) = self.conns.take_slow() {
            let app = &mut self.app;
            self.conns
                .act_slow(index, |id, session, fx| app.slow(id, session, fx));
        }
    }

    fn take_mail(&mut self, now: Now) -> bool {
        self.mail_left = false;
        // Nobody wakes this shard again for what was there: it must look after the rest itself.
        let mut more = true;
        for _ in 0..MAIL_PER_TURN {
            let Some(mail) = self.mail.pop_outside() else {
                more = false;
                break;
            };
            self.app.mail(None, mail, &mut self.conns, now);
        }
        for from in 0..self.mail.from.len() {
            let Some(mailbox) = self.mail.from[from].as_mut() else {
                continue;
            };
            for _ in 0..MAIL_PER_TURN {
                if !self.app.wants_mail() {
                    break;
                }
                let Some(mail) = mailbox.pop() else { break };
                self.app.mail(Some(from), mail, &mut self.conns, now);
            }
            self.mail_left |= !mailbox.is_empty();
        }
        more
    }

    /// Hands mail to the rings; true if some found no room and must be offered again.
    fn post_mail(&mut self) -> bool {
        let mut full = false;
        for (to, outgoing) in self.mail.to.iter_mut().enumerate() {
            let Some((ring, waker)) = outgoing else {
                continue;
            };
            let app = &mut self.app;
            if ring.is_abandoned() {
                // That shard has ended: nobody will ever make room.
                while app.take_mail(to).is_some() {}
                continue;
            }
            let posted = mailbox::post(ring, || app.take_mail(to));
            if posted.count > 0 {
                self.stats.mail += posted.count;
                self.stats.wakes += u64::from(waker.wake());
            }
            full |= posted.full;
        }
        full
    }

    /// Takes a still turn, in which nothing comes from outside: what the shard has taken it brings
    /// to its end, so that another process can go on from there. True if more is to be done. It
    /// does not sleep, read, accept, or look at deadlines; what becomes ready is read in the next
    /// ordinary turn, if there is one.
    pub fn still_turn(&mut self) -> io::Result<bool> {
        let wait = if self.more { Duration::ZERO } else { WAIT };
        let (ready, now, _) = self.wait(Some(wait))?;
        let mut flushed = Flushed::default();
        for event in &ready {
            match event.source {
                Source::Mailbox => {}
                Source::Listener(number) => self.connections_wait(number),
                Source::Connection(index) => {
                    if event.writable && !self.conns.is_connecting(index) {
                        self.conns.write(index, &mut flushed);
                    }
                    // Told once only.
                    if event.read_closed || event.error {
                        self.conns.note_close(index);
                    }
                    if (event.readable || event.error) && self.conns.list(index) {
                        self.unread.push(index);
                    }
                }
            }
        }
        self.ready = ready;
        let mut more = self.take_mail(now);
        more |= self.app.turn(&mut self.conns, now);
        self.post_mail();
        more |= self.app.deliver(&mut self.conns, now);
        more |= self.tell_slow();
        self.stop_listening(self.conns.now());
        self.conns.flush(&mut flushed);
        self.unread.append(&mut flushed.unread);
        for (index, error) in flushed.broken {
            self.conns.fail(index, &error);
        }
        more |= self.tell_drained(flushed.drained);
        more |= self.tell_slow();
        more |= self.remove_closed(now);
        self.tell_tls();
        more |= self.post_mail() || self.mail_left;
        self.more = more;
        Ok(more)
    }

    /// Whether mail of other shards waits to be taken.
    pub fn has_mail(&self) -> bool {
        self.mail.has_mail()
    }

    /// The app and its connections, between two turns.
    pub const fn parts_mut(&mut self) -> (&mut A, &mut Conns<A::Session, K>) {
        (&mut self.app, &mut self.conns)
    }

    /// Goes on with ordinary turns after still ones: the next one does not wait. Listeners that
    /// were closed meanwhile are gone by then: another process may have them, and a connection
    /// that the next turn would accept from one is for that process.
    pub fn resume(&mut self) {
        self.stop_listening(self.conns.now());
        self.more = true;
    }

    /// Looks at every connection in the next turn, after some were taken out and adopted again:
    /// what the kernel had told of them is forgotten.
    pub fn take_back(&mut self) {
        for (_, id) in self.conns.movable() {
            if self.conns.list_again(id) {
                self.unread.push(id.index());
            }
        }
    }

    /// Begins to serve connections that were adopted.
    pub fn begin(&mut self) {
        self.read_clocks();
        self.unread = self.conns.watch_adopted();
        self.more = true;
    }
}
