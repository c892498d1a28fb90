//! The poll and everything on it: coming, reading, leaving.
//!
//! Invariants
//! - A connection's place in its table is its token, and the tables only grow until all leave.
//! - `open` counts the subscribers whose handshake has ended; the others are still on the way.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::dialect::Dialect;
use super::payload::Tally;
use super::publisher::{Publisher, Sending};
use super::subscriber::{ReadContext, Subscriber};
use crate::server::Addresses;

/// Tokens from here on are publishers; below are subscribers.
const PUBLISHERS_FROM: usize = 1 << 32;
/// Token of the timer, above those of every table.
const TIMER: Token = Token(1 << 33);
const EVENTS: usize = 1024;
/// Holds all that a few publications in flight can bring to one connection.
const BUFFER_BYTES: usize = 64 << 10;

/// Longest wait for a burst of connections.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait of one turn.
const TURN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Client {
    pub(super) poll: Poll,
    pub(super) dialect: Dialect,
    pub(super) addresses: Addresses,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) open: usize,
    pub(super) publishers: Vec<Publisher>,
    pub(super) names: Vec<String>,
    pub(super) tally: Tally,
    pub(super) timer: Timer,
    started: Instant,
    events: Events,
    buffer: Vec<u8>,
    plain: Vec<u8>,
}

impl Client {
    pub(crate) fn new(dialect: Dialect, addresses: Addresses) -> Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        Ok(Self {
            poll,
            dialect,
            addresses,
            subscribers: Vec::new(),
            open: 0,
            publishers: Vec::new(),
            names: Vec::new(),
            tally: Tally::new(),
            timer,
            started: Instant::now(),
            events: Events::with_capacity(EVENTS),
            buffer: vec![0; BUFFER_BYTES],
            plain: Vec::new(),
        })
    }

    /// Waits until something is ready, `timeout` at the most, and deals with all of it.
    ///
    /// # Errors
    /// The first connection that is of no use any more; the measurement has failed then.
    pub(crate) fn turn(&mut self, timeout: Duration) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let started = self.started;
        let mut cx = ReadContext {
            buffer: &mut self.buffer,
            plain: &mut self.plain,
            tally: &mut self.tally,
            now_ns: &|| elapsed_ns(started),
        };
        for event in &self.events {
            let place = event.token().0;
            if let Some(subscriber) = self.subscribers.get_mut(place) {
                let opened = subscriber.on_ready(&mut cx).with_context(|| {
                    format!("connection {} ({} are open)", place + 1, self.open)
                })?;
                self.open += usize::from(opened);
            } else if let Some(publisher) = place
                .checked_sub(PUBLISHERS_FROM)
                .and_then(|place| self.publishers.get_mut(place))
            {
                publisher.on_ready(cx.buffer)?;
            }
            // The timer's alarm has done its work: the poll is awake.
        }
        Ok(())
    }

    /// Deals with what comes until `time` is over.
    pub(crate) fn rest(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.turn(left)?;
        }
        Ok(())
    }

    /// Adds subscribers until there are `total`, as fast as the server takes them. `channel` names
    /// the channel of each. Returns when every one is subscribed.
    ///
    /// # Errors
    /// If one is refused or lost, or if it takes minutes.
    pub(crate) fn connect(
        &mut self,
        total: usize,
        channel: impl Fn(usize) -> String,
    ) -> Result<()> {
        let dialect = self.dialect;
        self.connect_to(total, |n| dialect.target(&channel(n)))
    }

    /// As [`Client::connect`]; `target` gives the request target of each.
    pub(crate) fn connect_to(
        &mut self,
        total: usize,
        target: impl Fn(usize) -> String,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.open < total {
            while self.subscribers.len() < total
                && self.subscribers.len() - self.open < self.dialect.handshakes_max()
            {
                self.start(&target(self.subscribers.len()))?;
            }
            self.turn(TURN)?;
            ensure!(
                Instant::now() < deadline,
                "only {} of {total} connections opened in {} s",
                self.open,
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    fn start(&mut self, target: &str) -> Result<()> {
        let (registry, token) = (self.poll.registry(), Token(self.subscribers.len()));
        let address = self.addresses.subscribe;
        let subscriber = Subscriber::start(self.dialect, address, target, registry, token)
            .with_context(|| format!("connection {}", token.0 + 1))?;
        self.subscribers.push(subscriber);
        Ok(())
    }

    /// Opens publishing connections anew: servers close those that idled.
    pub(super) fn reopen_publishers(&mut self, sending: Sending, wanted: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        self.publishers.clear();
        while self.publishers.len() < wanted {
            let token = Token(PUBLISHERS_FROM + self.publishers.len());
            let registry = self.poll.registry();
            let address = self.addresses.publish;
            let publisher = Publisher::start(self.dialect, address, registry, token, sending)?;
            self.publishers.push(publisher);
        }
        while !self.publishers.iter().all(Publisher::is_idle) {
            self.turn(TURN)?;
            ensure!(
                Instant::now() < deadline,
                "publishing connections do not open"
            );
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.subscribers.clear();
        self.publishers.clear();
        self.open = 0;
    }

    /// ns since this client began.
    pub(super) fn now_ns(&self) -> u64 {
        elapsed_ns(self.started)
    }
}

fn elapsed_ns(since: Instant) -> u64 {
    // Full after 584 years.
    since.elapsed().as_nanos() as u64
}

/// Timer that wakes the poll to the microsecond; the poll's own timeout counts in milliseconds.
#[derive(Debug)]
pub(super) struct Timer {
    fd: OwnedFd,
}

impl Timer {
    fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Wakes the poll once after `delay`, and forgets the alarm before.
    pub(super) fn set(&self, delay: Duration) -> io::Result<()> {
        // Zero would switch it off.
        let delay = delay.max(Duration::from_nanos(1));
        let alarm = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: delay.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: delay.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &alarm)?;
        Ok(())
    }
}
