//! Surroundings of a node: the shards' queues, the clocks, chance, and the bytes to be written.
//!
//! Never: sockets, threads. Its owner passes the time in.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use throng_broker::{
    ChannelOptions, NamespaceOptions, Outcome, Recovery, Refusal, Reply, ReplyLimit, Request,
    Subscribed,
};
use throng_metrics::{Counter, Counters, Gauge};
use throng_types::{ChannelName, Position, Publication, Rng};

use crate::agent::{self, Looked};
use crate::arrival::{self, Arrival};
use crate::doubt::Doubt;
use crate::queues::{ForShard, NodeEvent, RequestId, ShardQueues, ToNodes};
use crate::status::Status;

/// First byte of a word to all nodes. No text begins with it, so nodes that do not know it hear
/// nothing.
pub const WORD: u8 = 0xFF;

pub struct NodeIo {
    pub options: RemoteOptions,
    /// Monotonic milliseconds at the beginning of the turn.
    pub now_ms: u64,
    /// Unix milliseconds at the same moment.
    pub unix_ms: u64,
    pub rng: Rng,
    /// Bytes to be written to the broker. Bound: what waits for its answers.
    pub out: Vec<u8>,
    pub arrival: Arrival,
    pub(crate) shards: Vec<Arc<ShardQueues>>,
    pub(crate) status: Arc<Status>,
    pub(crate) doubt: Doubt,
    /// Shards for which something was left. Bound: the shards.
    pub(crate) rung: BTreeSet<u8>,
}

impl NodeIo {
    pub(crate) fn new(
        options: RemoteOptions,
        shards: Vec<Arc<ShardQueues>>,
        status: Arc<Status>,
    ) -> Self {
        Self {
            rng: Rng::new(options.seed),
            options,
            now_ms: 0,
            unix_ms: 0,
            out: Vec::new(),
            arrival: Arrival::default(),
            shards,
            status,
            doubt: Doubt::default(),
            rung: BTreeSet::new(),
        }
    }

    /// One that no shard asks anything of: for tests of what a machine does by itself.
    #[must_use]
    pub fn without_shards(options: RemoteOptions) -> Self {
        Self::new(options, Vec::new(), Arc::default())
    }

    #[must_use]
    pub fn shards(&self) -> u8 {
        self.shards.len() as u8
    }

    /// Whether every shard has room for what comes.
    #[must_use]
    pub fn shards_have_room(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|shard| shard.has_room() || !shard.is_open())
    }

    /// Rings the shards for which something was left.
    pub(crate) fn ring(&mut self) {
        for shard in std::mem::take(&mut self.rung) {
            self.shards[usize::from(shard)].ring();
        }
    }

    pub fn count(&self, counter: Counter) {
        self.options.counters.count(counter);
    }

    /// From now on the broker answers, or does not.
    pub fn set_up(&self, is_up: bool) {
        self.status.set_up(is_up);
        self.options.counters.set(Gauge::BrokerUp, u64::from(is_up));
        if !is_up {
            self.count(Counter::BrokerLosses);
            self.set_refusing(false);
        }
    }

    /// Whether the broker answers and takes no writes.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.status.is_refusing()
    }

    /// From now on the broker takes no writes though it answers, or takes them again.
    pub fn set_refusing(&self, is_refusing: bool) {
        self.status.set_refusing(is_refusing);
        let gauge = Gauge::BrokerRefusingWrites;
        self.options.counters.set(gauge, u64::from(is_refusing));
    }

    /// An epoch that no stream has: neither that of `Position::START` nor zero.
    pub fn fresh_epoch(&mut self) -> u64 {
        (self.rng.next_u64() >> 1).max(1)
    }

    fn leave(&mut self, shard: u8, item: ForShard) {
        if let Some(to) = self.shards.get(usize::from(shard)) {
            to.leave(item);
            self.rung.insert(shard);
        }
    }

    /// Leaves a shard the answer to one of its requests.
    pub fn reply(&mut self, RequestId { shard, ticket }: RequestId, outcome: Outcome) {
        self.leave(shard, ForShard::Reply(Reply { ticket, outcome }));
    }

    /// Leaves something with every shard of a set.
    fn leave_all(&mut self, shards: u64, item: impl Fn() -> ForShard) {
        for shard in 0..self.shards() {
            if shards & 1 << shard != 0 {
                self.leave(shard, item());
            }
        }
    }

    pub(crate) fn deliver(&mut self, shards: u64, publication: &Arc<Publication>) {
        self.leave_all(shards, || ForShard::Delivery(publication.clone()));
    }

    /// A request that may be carried out; the others are refused. `is_up` says whether there is a
    /// connection: without one, subscribers wait and leave, and all else is unavailable.
    pub fn admit(&mut self, shard: u8, request: Request, is_up: bool) -> Option<Request> {
        let options = { &self.options.namespaces }.find(request.channel());
        let is_known = options.is_some();
        let options = options.copied().unwrap_or_default();
        let keeps = options.retention.keeps();
        let refusal = match &request {
            Request::Subscribe { .. } | Request::Leave { .. } | Request::Quit { .. } => {
                return Some(request);
            }
            Request::History { .. } if !keeps => Refusal::NotAvailable,
            _ if !is_known => Refusal::UnknownChannel,
            Request::Forget { .. } if !keeps => Refusal::NotAvailable,
            Request::Present { .. } if !options.presence.is_listed => Refusal::NotAvailable,
            _ if !is_up => {
                self.count(Counter::BrokerUnavailable);
                Refusal::Unavailable
            }
            _ => return Some(request),
        };
        self.refuse(shard, &request, refusal);
        None
    }

    /// Leaves the reply that refuses a request, if it has one.
    pub fn refuse(&mut self, shard: u8, request: &Request, refusal: Refusal) {
        if let Some(Reply { ticket, outcome }) = request.refused(refusal) {
            self.reply(RequestId { shard, ticket }, outcome);
        }
    }

    /// Takes a message to all nodes, if it is a cut: its place is marked for every shard. Or a
    /// word, which the first shard hears.
    pub fn hear_everybody(&mut self, message: &[u8]) -> bool {
        if let Some((&WORD, word)) = message.split_first() {
            self.tell_shard(0, NodeEvent::Told(word.to_vec()));
            return true;
        }
        let Some(cut) = arrival::cut_of(message) else {
            return false;
        };
        self.arrival.heard(cut);
        self.leave_all(u64::MAX, || ForShard::Cut(cut));
        true
    }

    /// Whether no shard has handed in what the peer has not taken.
    #[must_use]
    pub fn requests_are_taken(&self) -> bool {
        self.shards.iter().all(|shard| shard.waiting() == 0)
    }

    /// The next request of some shard to other nodes.
    #[must_use]
    pub fn next_to_nodes(&self) -> Option<(u8, ToNodes)> {
        let mut shards = (0..).zip(&self.shards);
        shards.find_map(|(shard, from)| Some((shard, from.next_to_nodes()?)))
    }

    /// Lets a shard know of other nodes.
    pub fn tell_shard(&mut self, shard: u8, event: NodeEvent) {
        if let Some(to) = self.shards.get(usize::from(shard)) {
            to.tell_shard(event);
            self.rung.insert(shard);
        }
    }

    /// Notes that the broker said something about a channel that cannot be.
    pub fn doubt(&mut self, channel: &ChannelName, why: &'static str) {
        self.count(Counter::BrokerContradictions);
        self.status.set_in_doubt(true);
        if self.doubt.begin(self.now_ms) {
            tracing::error!(%channel, why, "the broker contradicts itself");
        }
    }

    /// Notes a contradiction where publications from one position up to `top` may be others than
    /// clients have: those of these shards are notified of a gap.
    pub fn doubt_from(
        &mut self,
        channel: &ChannelName,
        why: &'static str,
        first: Position,
        top: Option<Position>,
        shards: u64,
    ) {
        self.doubt(channel, why);
        self.doubt.add(channel, first, top);
        if self.options.of(channel).recovery && shards != 0 {
            self.tell_broken(channel, shards);
        }
    }

    /// Reports to shards that nothing continues what they have of a channel.
    pub(crate) fn tell_broken(&mut self, channel: &ChannelName, shards: u64) {
        self.count(Counter::BrokerBroken);
        self.leave_all(shards, || ForShard::Broken(channel.clone()));
    }

    /// Ends a doubt whose time is over.
    pub(crate) fn settle_doubt(&mut self) {
        if self.doubt.has_ended(self.now_ms) {
            self.status.set_in_doubt(false);
        }
    }

    /// Answer to a subscriber, after the look that [`agent::subscriber_query`] describes; `None` in
    /// channels without history. Nothing is recovered from a position in doubt.
    #[must_use]
    pub fn subscribed(
        &self,
        channel: &ChannelName,
        options: &ChannelOptions,
        since: Option<Position>,
        looked: Option<Looked>,
    ) -> Subscribed {
        let mut result = agent::subscribed(options, since, looked);
        if !options.cache && since.is_some_and(|since| self.doubt.has(channel, since)) {
            result.recovery = Recovery::Lost;
        }
        result
    }
}

#[derive(Clone)]
pub struct RemoteOptions {
    /// Begins every name in the broker: nodes with the same one are one cluster.
    pub prefix: String,
    /// The options of channels; the same on every node.
    pub namespaces: Arc<NamespaceOptions>,
    pub reply: ReplyLimit,
    /// Time for which a stream that nobody touches remembers its position, in milliseconds. Nodes
    /// touch those of their subscribers.
    pub position_ttl_ms: u64,
    /// Time for the broker to answer, and to be connected to, in milliseconds. Who
    /// subscribes while there is no connection waits as long.
    pub timeout_ms: u64,
    /// Any number; differs from node to node and from start to start. Epochs follow from it.
    pub seed: u64,
    pub counters: Arc<Counters>,
    /// This node wants the traces of publications: it has a collector.
    pub is_traced: bool,
    /// The PEM file of the authorities whose certificates are believed, where TLS is spoken; those
    /// of this machine without one.
    pub authorities: Option<PathBuf>,
    /// The time in Unix milliseconds, in the place of the broker's clock; zero but in tests, in
    /// which time passes faster.
    pub clock_ms: Arc<AtomicU64>,
}

impl RemoteOptions {
    /// Options for tests: a node that is alone, with small bounds.
    #[must_use]
    pub fn for_tests() -> Self {
        Self {
            prefix: "throng".to_owned(),
            namespaces: Arc::default(),
            reply: ReplyLimit {
                members_max: 10,
                publications_max: 10,
                bytes_max: 1000,
            },
            position_ttl_ms: 3_600_000,
            timeout_ms: 5000,
            seed: 1,
            counters: Arc::default(),
            is_traced: true,
            authorities: None,
            clock_ms: Arc::default(),
        }
    }

    /// The options of a channel, and those of no channel where its namespace is not known.
    #[must_use]
    pub fn of(&self, channel: &ChannelName) -> ChannelOptions {
        self.namespaces.find(channel).copied().unwrap_or_default()
    }

    /// The time that tests give; zero otherwise.
    #[must_use]
    pub fn given_ms(&self) -> u64 {
        self.clock_ms.load(Ordering::Relaxed)
    }
}
