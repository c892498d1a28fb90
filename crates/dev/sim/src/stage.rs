//! Shards side by side on one thread, and the order of their turns.
//!
//! Owns the shards that run. A shard is stepped only when it would have woken: something is
//! ready, or the time that it wanted to sleep is over. So a shard that sleeps on work is seen
//! to sleep on it.

use std::sync::Arc;
use std::time::Duration;

use throng_engine::{App, ConnLimits, MailboxSender, Running, ShardParts, builders_on};
use throng_outward::{CallSender, Deliver, Outward};
use throng_peer::Peer;
use throng_tls::ServerTls;
use throng_types::ShardId;

use crate::kernel::{SimKernel, SimListener};
use crate::net::Net;

/// A wait that is as good as none: a shard that looks again for room in a mailbox.
const SOON_US: u64 = 2_000;

/// The shards of a run.
pub(crate) struct Stage<A: App<SimKernel>> {
    net: Net,
    /// The number of the first one's kernel.
    first: usize,
    shards: Vec<Option<Running<A, SimKernel>>>,
    /// When each wakes of its own accord.
    wakes_at_us: Vec<u64>,
    pub(crate) mailboxes: Vec<MailboxSender<A::Mail>>,
}

impl<A: App<SimKernel>> Stage<A> {
    /// Shards with so many listeners each, which have ports of their own from the start; `app`
    /// makes what runs on one, given the ways in.
    pub(crate) fn new(
        net: &Net,
        shards: usize,
        listeners: usize,
        limits: ConnLimits,
        app: impl FnMut(ShardId, &[MailboxSender<A::Mail>]) -> A,
    ) -> Self {
        Self::made(net, (shards, listeners), limits, None, false, app)
    }

    /// Takes the ports of another process.
    pub(crate) fn take_ports(&self, from: &Self) {
        for shard in 0..self.len() {
            self.net.give_ports(from.first + shard, self.first + shard);
        }
    }

    /// Shards with TLS on all listeners if a configuration is given; those that take over from
    /// another process get its ports later.
    pub(crate) fn made(
        net: &Net,
        (shards, listeners): (usize, usize),
        limits: ConnLimits,
        tls: Option<&ServerTls>,
        takes_over: bool,
        mut app: impl FnMut(ShardId, &[MailboxSender<A::Mail>]) -> A,
    ) -> Self {
        let first = net.0.borrow().shards.len();
        let parts = (0..shards).map(|shard| ShardParts {
            shard: ShardId(shard as u8),
            kernel: SimKernel::new(net, first + shard, listeners, takes_over),
            listeners: (0..listeners as u8).map(SimListener).collect(),
            limits,
        });
        let (builders, mailboxes) = builders_on(parts.collect()).expect("nothing of it can fail");
        let running = builders.into_iter().map(|builder| {
            let app = app(builder.shard(), &mailboxes);
            let builder = builder.secure(vec![tls.cloned(); listeners]);
            Some(builder.with(app).start())
        });
        Self {
            net: net.clone(),
            first,
            shards: running.collect(),
            wakes_at_us: vec![0; shards],
            mailboxes,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.shards.len()
    }

    /// The shards that have not ended.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Running<A, SimKernel>> {
        self.shards.iter().flatten()
    }

    /// Iterates over the running shards, to act between two turns. All of them wake afterwards.
    pub(crate) fn running_mut(&mut self) -> impl Iterator<Item = &mut Running<A, SimKernel>> {
        self.wakes_at_us.fill(0);
        self.shards.iter_mut().flatten()
    }

    /// Takes a turn of each shard that is awake; whether there was one.
    pub(crate) fn turn_all(&mut self) -> bool {
        let awake = (0..self.len()).filter(|&shard| self.is_awake(shard));
        let awake: Vec<usize> = awake.collect();
        awake.iter().for_each(|&shard| self.turn(shard));
        !awake.is_empty()
    }

    /// The number of a shard's kernel.
    pub(crate) const fn kernel(&self, shard: usize) -> usize {
        self.first + shard
    }

    /// Whether a shard would be awake now.
    pub(crate) fn is_awake(&self, shard: usize) -> bool {
        let now_us = self.net.now_us();
        self.shards[shard].is_some()
            && (self.wakes_at_us[shard] <= now_us || self.net.has_events(self.first + shard))
    }

    /// Runs one turn of a shard.
    pub(crate) fn turn(&mut self, shard: usize) {
        let Some(running) = &mut self.shards[shard] else {
            return;
        };
        let kernel = self.first + shard;
        let live = self.net.live_of(kernel);
        let before = running.conns().stats().slow;
        running.turn().expect("a simulated wait does not fail");
        let conns = running.conns();
        let found = conns.stats().slow - before;
        if found > 0 {
            let slow = conns.sessions().filter(|(id, _)| conns.is_slow(*id));
            let slow: Vec<u32> = slow.map(|(id, _)| id.index()).collect();
            let news = self.net.are_slow(kernel, &slow);
            self.net.were_cut_as_slow(&live, found.saturating_sub(news));
        }
        if running.finished() {
            note!(self.net, "shard {shard} has ended");
            self.shards[shard] = None;
            return;
        }
        let now_us = self.net.now_us();
        self.wakes_at_us[shard] = match running.wait_max() {
            Some(wait) => now_us + duration_us(wait),
            None => u64::MAX,
        };
    }

    /// Time in µs until the next shard wakes by its own timer.
    pub(crate) fn next_wake_us(&self) -> Option<u64> {
        let now_us = self.net.now_us();
        let awake = (0..self.len()).filter(|&shard| self.shards[shard].is_some());
        let next = awake.map(|shard| self.wakes_at_us[shard]).min()?;
        Some(next.saturating_sub(now_us))
    }

    /// Lets all shards run until none has anything to do but wait. `others` lets all other parties
    /// act between two rounds, and returns whether they did. Only a short wait is waited for: a
    /// shard that would sleep longer has nothing to do, or believes so.
    pub(crate) fn rest(&mut self, mut others: impl FnMut() -> bool) {
        for _ in 0..1_000_000 {
            let mut busy = others();
            for shard in 0..self.len() {
                if self.is_awake(shard) {
                    busy = true;
                    self.turn(shard);
                }
            }
            if busy {
                continue;
            }
            match self.next_wake_us() {
                Some(us) if us <= SOON_US => self.net.pass_us(us),
                _ => return,
            }
        }
        panic!("the shards never come to rest");
    }
}

impl<P: Peer> Stage<Outward<P>> {
    /// Serves a peer beside the shards that there are. It dials addresses, and looks no name up.
    pub(crate) fn serve(
        net: &Net,
        peer: P,
        deliver: Deliver<P::Reply>,
    ) -> (Self, CallSender<P::Call>) {
        let (mut served, mut sender) = (Some((peer, deliver)), None);
        let stage = Self::new(net, 1, 0, throng_outward::limits(), |_, mailboxes| {
            let waker = mailboxes[0].clone();
            let calls = CallSender::new(Arc::new(move || waker.ring()));
            sender = Some(calls.clone());
            let (peer, deliver) = served.take().expect("one shard");
            let ask_name = Box::new(|_: &str| Err("addresses need no look-up".to_owned()));
            Outward::new(peer, calls, deliver, ask_name)
        });
        (stage, sender.expect("the app was made"))
    }
}

fn duration_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
}
