//! The shard's loop: one thread, one reactor, one turn after the other.
//!
//! A turn waits for readiness, reads the clock once, feeds sessions, takes mail, lets
//! the app run its hub, and writes each dirty connection once. Every part of it is
//! bounded, so that no crowd of one kind starves another.

mod arrivals;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::{Events, Poll, Token};
use throng_sys::socket;
use throng_types::{Millis, Now};

use crate::conns::Flushed;
use crate::mailbox::{Bell, Mailboxes};
use crate::seat::{BELL, LISTENER_FIRST, LISTENERS_MAX, Seat};
use crate::{App, Closed, Conns};

/// Bytes that one read takes.
const READ_BYTES: usize = 64 << 10;
/// Reads from one connection before others have their turn.
const READS_PER_TURN: usize = 4;
/// Mail that one turn takes from each mailbox.
const MAIL_PER_TURN: usize = 1024;
/// Readiness events that one turn handles.
const EVENTS: usize = 1024;

/// What a shard's loop has done, for metrics. Only ever rises.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopStats {
    /// Turns.
    pub turns: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that the app refused at once.
    pub refused: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Times that accepting had to pause.
    pub accept_pauses: u64,
    /// How long the last turn took, without the wait before it, in microseconds. The one figure
    /// that falls.
    pub last_turn_us: u64,
}

struct Listener {
    /// None once the app has stopped listening.
    fd: Option<OwnedFd>,
    /// Connections wait and are not taken yet: readiness is told once only.
    waiting: bool,
}

/// A shard at work, on its thread.
pub(crate) struct Running<A: App> {
    app: A,
    conns: Conns<A::Session>,
    mail: Mailboxes<A::Mail>,
    poll: Poll,
    bell: Arc<Bell>,
    listeners: Vec<Listener>,
    /// Accepting is paused, and this is when it is tried again.
    accept_again_at: Option<Millis>,
    /// Connections with more input than their share of the last turn.
    unread: Vec<u32>,
    /// A ring to another shard is full, or the app does not want mail: look again soon.
    mail_waits: bool,
    /// Mail from other shards was not taken in this turn.
    mail_left: bool,
    buffer: Box<[u8]>,
    started: Instant,
    stats: LoopStats,
}

impl<A: App> Running<A> {
    pub(crate) fn new(seat: Seat<A::Mail>, app: A) -> Self {
        let listener = |fd| Listener {
            fd: Some(fd),
            waiting: true,
        };
        Self {
            app,
            conns: Conns::new(seat.shard, seat.limits),
            mail: seat.mail,
            poll: seat.poll,
            bell: seat.bell,
            listeners: seat.listeners.into_iter().map(listener).collect(),
            accept_again_at: None,
            unread: Vec::new(),
            mail_waits: false,
            mail_left: false,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            started: seat.started,
            stats: LoopStats::default(),
        }
    }

    pub(crate) fn run(
        mut self,
        mut observe: impl FnMut(&A, &Conns<A::Session>, LoopStats),
    ) -> io::Result<A> {
        self.conns.set_registry(self.poll.registry().try_clone()?);
        let mut events = Events::with_capacity(EVENTS);
        let mut more = true;
        loop {
            let timeout = if more {
                Some(Duration::ZERO)
            } else {
                self.sleep_time()
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let begun = Instant::now();
            more = self.turn(&events);
            self.stats.last_turn_us = begun.elapsed().as_micros() as u64;
            observe(&self.app, &self.conns, self.stats);
            if self.app.finished(&self.conns) {
                return Ok(self.app);
            }
        }
    }

    fn now(&self) -> Now {
        let mono = Millis(self.started.elapsed().as_millis() as u64);
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            mono,
            unix_ms: unix.as_millis() as u64,
        }
    }

    fn sleep_time(&self) -> Option<Duration> {
        if self.mail_waits {
            return Some(Duration::from_millis(1));
        }
        let deadlines = [
            self.conns.next_deadline(),
            self.app.deadline(),
            self.accept_again_at,
        ];
        let next = deadlines.into_iter().flatten().min()?;
        // A fresh look at the clock: the turn that set the deadline may have been long.
        let now_us = self.started.elapsed().as_micros() as u64;
        // Rounded up to the next millisecond, so that a wake-up finds the deadline passed.
        let wait_ms = (next.0 * 1000).saturating_sub(now_us).div_ceil(1000);
        Some(Duration::from_millis(wait_ms))
    }

    /// One turn; true if work is left for the next.
    fn turn(&mut self, events: &Events) -> bool {
        let now = self.now();
        self.conns.set_now(now);
        self.stats.turns += 1;
        let mut flushed = Flushed::default();
        for index in std::mem::take(&mut self.unread) {
            // What was told about it, such as the peer's close, is not told again.
            if self.conns.unlist(index) {
                self.read(index, true);
            }
        }
        for event in events {
            match event.token() {
                BELL => {}
                Token(token) if token > LISTENER_FIRST - LISTENERS_MAX => {
                    if let Some(listener) = self.listeners.get_mut(LISTENER_FIRST - token) {
                        listener.waiting = true;
                    }
                }
                Token(index) => self.ready(index as u32, event, &mut flushed),
            }
        }
        let mut more = self.take_mail(now);
        for index in self.conns.expired() {
            let app = &mut self.app;
            self.conns
                .act(index, |id, session, fx| app.timeout(id, session, fx));
        }
        more |= self.accept(now);
        more |= self.app.turn(&mut self.conns, now);
        self.stop_listening();
        self.open_outgoing();
        let also = self.conns.flush();
        flushed.drained.extend(also.drained);
        flushed.unread.extend(also.unread);
        for (index, dropped) in flushed.drained {
            if self.conns.is_ending(index) {
                continue;
            }
            let app = &mut self.app;
            self.conns.act(index, |id, session, fx| {
                app.drained(id, session, dropped, fx)
            });
            more = true;
        }
        self.unread.extend(flushed.unread);
        more |= self.bury(now);
        self.mail_waits = self.post_mail() || self.mail_left;
        // If the app does not want it yet, another look soon will do.
        more |= self.mail_left && self.app.wants_mail();
        more || !self.unread.is_empty()
    }

    fn ready(&mut self, index: u32, event: &mio::event::Event, flushed: &mut Flushed) {
        if self.conns.is_connecting(index) && (event.is_writable() || event.is_error()) {
            self.connected(index);
        }
        if event.is_writable() {
            self.conns.write(index, flushed);
        }
        if event.is_readable() || event.is_error() {
            self.read(index, event.is_read_closed() || event.is_error());
        }
    }

    fn connected(&mut self, index: u32) {
        let error = self
            .conns
            .fd(index)
            .and_then(|fd| match socket::take_error(fd) {
                Ok(error) => error,
                Err(error) => Some(error),
            });
        if let Some(error) = error {
            self.conns
                .doom(index, Closed::Error(error.raw_os_error().unwrap_or(0)));
        } else if self.conns.take_connecting(index) {
            let app = &mut self.app;
            self.conns
                .act(index, |id, session, fx| app.connected(id, session, fx));
        }
    }

    /// Reads a connection's share. With `to_end`, a short read is not taken for the last one:
    /// the peer's close may be behind it.
    fn read(&mut self, index: u32, to_end: bool) {
        for _ in 0..READS_PER_TURN {
            if !self.conns.may_read(index) {
                return;
            }
            let Some(fd) = self.conns.fd(index) else {
                return;
            };
            let count = match socket::recv(fd, &mut self.buffer) {
                Ok(0) => return self.conns.read_ended(index),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.conns.fail(index, &error),
            };
            self.stats.read_bytes += count as u64;
            if !self.conns.is_ending(index) {
                let (app, input) = (&mut self.app, &mut self.buffer[..count]);
                self.conns
                    .act(index, |id, session, fx| app.bytes(id, session, input, fx));
            }
            if count < READ_BYTES && !to_end {
                return;
            }
        }
        if self.conns.list(index) {
            self.unread.push(index);
        }
    }

    fn take_mail(&mut self, now: Now) -> bool {
        self.bell.heard();
        self.mail_left = false;
        // The bell was heard for all of it: what is left over has nobody else to tell of it.
        let mut more = true;
        for _ in 0..MAIL_PER_TURN {
            let Ok(mail) = self.mail.outside.try_recv() else {
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
                let Ok(mail) = mailbox.pop() else { break };
                self.app.mail(Some(from), mail, &mut self.conns, now);
            }
            self.mail_left |= !mailbox.is_empty();
        }
        more
    }

    /// Hands mail to the rings; true if some found no room and must be offered again.
    fn post_mail(&mut self) -> bool {
        let mut full = false;
        for (to, road) in self.mail.to.iter_mut().enumerate() {
            let Some((ring, bell)) = road else { continue };
            if ring.is_abandoned() {
                // That shard has ended: nobody will ever make room.
                while self.app.take_mail(to).is_some() {}
                continue;
            }
            let mut posted = false;
            loop {
                // Asked once: room that the reader makes meanwhile must not hide that mail was
                // left.
                if ring.slots() == 0 {
                    full = true;
                    break;
                }
                let Some(mail) = self.app.take_mail(to) else {
                    break;
                };
                // There is room: this thread is the only writer.
                let pushed = ring.push(mail);
                debug_assert!(pushed.is_ok(), "room was checked");
                posted = true;
            }
            if posted {
                bell.ring();
            }
        }
        full
    }
}
