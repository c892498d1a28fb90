//! State of a node that does not depend on its broker: channels, subscribes that wait, times.
//!
//! Invariants
//! - A channel is known while a shard is interested or a subscribe waits for its answer.
//! - While a channel is `Live`, every publication up to `top` was left in the queues of the shards
//!   that are interested, and no later one.

use std::collections::VecDeque;

use throng_broker::{ChannelMap, Outcome, Published, Refusal, Request};
use throng_metrics::Counter;
use throng_types::{ChannelName, Position};

use crate::agent::{Audits, Channel};
use crate::io::NodeIo;
use crate::questions::PendingQueries;
use crate::queues::RequestId;

/// Requests to the broker without an answer. Queue: `to the broker`.
pub const FLIGHTS_MAX: usize = 4096;
/// Their bytes, unless a single one has more. Queue: `to the broker`.
pub const FLIGHT_BYTES_MAX: usize = 8 << 20;
/// Time for which a node is believed to live without a word, in milliseconds.
pub const LEASE_MS: u64 = 15_000;
/// Between two words, in milliseconds.
pub const RENEW_MS: u64 = 3000;
/// Between two looks for nodes that died, in milliseconds.
pub(crate) const SWEEP_MS: u64 = 5000;

/// When what comes again and again is done next, in milliseconds.
#[derive(Default)]
pub struct Due {
    pub(crate) probe_ms: u64,
    pub(crate) lease_ms: u64,
    /// Next look for nodes that died.
    pub sweep_ms: u64,
    pub(crate) audit_ms: u64,
}

/// State of a node that does not depend on its broker.
pub struct Core {
    /// Lanes, clocks and output.
    pub io: NodeIo,
    pub is_up: bool,
    pub channels: ChannelMap<Channel>,
    /// Subscribes that wait for a connection, each until its time. Bound: those of the shards.
    pub(crate) waiting: VecDeque<(u64, u8, Request)>,
    /// Channels to be subscribed to again. Bound: one a channel.
    pub(crate) again: VecDeque<ChannelName>,
    pub(crate) audits: Audits,
    pub questions: PendingQueries,
    /// Name of this node, once it is known.
    pub name: Option<Box<str>>,
    /// When this connection was last proved to deliver.
    pub(crate) proved_at_ms: u64,
    /// When what comes again and again is done next.
    pub due: Due,
    /// When another process said last what it hands over.
    pub(crate) expected_at_ms: u64,
    serial: u64,
}

impl Core {
    #[must_use]
    pub fn new(mut io: NodeIo) -> Self {
        Self {
            channels: ChannelMap::new(io.rng.next_u64()),
            io,
            is_up: false,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            audits: Audits::default(),
            questions: PendingQueries::default(),
            name: None,
            proved_at_ms: 0,
            due: Due::default(),
            expected_at_ms: 0,
            serial: 0,
        }
    }

    pub const fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    #[must_use]
    pub fn keeps(&self, channel: &ChannelName) -> bool {
        self.io.options.of(channel).retention.keeps()
    }

    /// Position up to which a channel was delivered, if it is known here.
    #[must_use]
    pub fn top(&self, channel: &ChannelName) -> Option<Position> {
        self.channels.get(channel)?.top
    }

    /// A channel, and a number of this call, which is the channel's own if it is new.
    /// `is_late` as [`crate::Verbs::is_late`].
    pub(crate) fn open(&mut self, name: &ChannelName, is_late: bool) -> (u64, &mut Channel) {
        let serial = self.next_serial();
        let keeps = self.keeps(name);
        let channel = self.channels.get_or_insert(name, || Channel::new(serial));
        if channel.serial == serial && keeps {
            // Where subscriptions take effect late, a first look soon.
            self.audits.add(name, serial, self.io.now_ms, is_late);
        }
        (serial, channel)
    }

    /// The channel of this name, unless it is another than the one with this number.
    pub(crate) fn same(&mut self, name: &ChannelName, serial: u64) -> Option<&mut Channel> {
        let found = self.channels.get_mut(name);
        found.filter(|channel| channel.serial == serial)
    }

    /// Lets a subscribe wait for a connection.
    pub(crate) fn wait(&mut self, shard: u8, subscribe: Request) {
        let until_ms = self.io.now_ms + self.io.options.timeout_ms;
        self.waiting.push_back((until_ms, shard, subscribe));
    }

    /// Lets the broker's answer to a publication be known.
    pub fn published(&mut self, id: RequestId, position: Result<Option<Position>, Refusal>) {
        let shards = None;
        let result = position.map(|position| Published { position, shards });
        self.io.reply(id, Outcome::Published(result));
    }

    pub fn count_refusal(&self, refusal: Refusal) {
        self.io.count(match refusal {
            Refusal::Unknown => Counter::BrokerUnknown,
            _ => Counter::BrokerUnavailable,
        });
    }

    /// A client leaves that may not have come yet, for want of a connection. True if it had not:
    /// its subscribe goes on without it.
    pub fn leaves_waiting(&mut self, channel: &ChannelName, client: &str) -> bool {
        for (_, _, request) in &mut self.waiting {
            if let Request::Subscribe {
                channel: theirs,
                presence,
                ..
            } = request
                && theirs == channel
                && presence.take_if(|it| *it.who.client == *client).is_some()
            {
                return true;
            }
        }
        false
    }

    /// A message of this node to itself came back: the connection delivers.
    pub const fn proved(&mut self) {
        self.proved_at_ms = self.io.now_ms;
    }
}
