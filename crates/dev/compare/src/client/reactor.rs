//! The poll and everything on it.
//!
//! Invariants
//! - A connection's place in its table is its token, and the tables only grow until all leave.
//! - `open` counts the subscribers whose handshake has ended; the others are still on the way.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mio::{Events, Poll, Token};

use super::dialect::Dialect;
use super::publisher::Publisher;
use super::subscriber::{ReadContext, Subscriber};
use super::tally::Tally;
use super::timer::Timer;
use crate::server::Addresses;

/// Tokens from here on are publishers; below are subscribers.
const PUBLISHERS_FROM: usize = 1 << 32;
/// Token of the timer, above those of every table.
const TIMER: Token = Token(1 << 33);
/// Events that one turn takes at most.
const EVENTS: usize = 1024;
/// Holds all that a few publications in flight can bring to one connection.
const BUFFER_BYTES: usize = 64 << 10;

/// Subscribers and publishers of one server.
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
    /// A client without connections.
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
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
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

    /// ns since this client began.
    pub(super) fn now_ns(&self) -> u64 {
        elapsed_ns(self.started)
    }

    pub(super) fn next_subscriber(&self) -> Token {
        Token(self.subscribers.len())
    }

    pub(super) fn next_publisher(&self) -> Token {
        Token(PUBLISHERS_FROM + self.publishers.len())
    }
}

fn elapsed_ns(since: Instant) -> u64 {
    // Full after 584 years.
    since.elapsed().as_nanos() as u64
}
