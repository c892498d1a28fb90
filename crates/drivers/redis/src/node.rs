//! What a node knows of its channels, and what it asks of Redis: the driver without its threads.
//!
//! Owns: which shards are interested in what, where each channel's deliveries stand, the commands
//! that Redis has not answered. Never: sockets, threads, clocks. It is told what happens, appends
//! commands to [`Node::out`] and leaves replies in the shards' lanes.
//!
//! Invariants
//! - Flights are in the order of their commands, hence of Redis's answers.
//! - A channel is known while a shard is interested or a subscribe waits for its answer.
//! - While a channel is `Live`, every publication up to `top` was left in the lanes of the shards
//!   that are interested, and no later one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use throng_broker::{ChannelMap, Namespaces, Presence, Refusal, Reply, Request};
use throng_metrics::Counter;
use throng_types::{ChannelName, Position, Rng};

use crate::channel::Channel;
use crate::command::{Script, call, command};
use crate::flight::{Flight, Pending};
use crate::keys::Keys;
use crate::lane::{Lane, NOBODY};
use crate::options::RedisOptions;
use crate::peer::Questions;
use crate::status::Status;

/// Commands without an answer. Queue: `to Redis`.
pub(crate) const FLIGHTS_MAX: usize = 4096;
/// Their bytes, unless a single one has more. Queue: `to Redis`.
pub(crate) const FLIGHT_BYTES_MAX: usize = 8 << 20;

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) String);

/// A connection that stands.
#[derive(Debug)]
pub(crate) struct Established {
    /// The server process, by its own word.
    pub(crate) server: String,
    /// The digest of each script, in the order of [`Script::ALL`].
    pub(crate) digests: Vec<String>,
    /// Names this node for the length of this connection: 16 characters.
    pub(crate) incarnation: String,
}

/// Who is listed, by channel and client.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), Presence>;

pub(crate) struct Node {
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) options: RedisOptions,
    pub(crate) keys: Keys,
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) status: Arc<Status>,
    pub(crate) rng: Rng,
    pub(crate) link: Option<Established>,
    /// Commands to be written. Bound: as `flights`.
    pub(crate) out: Vec<u8>,
    /// Queue: `to Redis`.
    pub(crate) flights: VecDeque<Pending>,
    pub(crate) flight_bytes: usize,
    pub(crate) channels: ChannelMap<Channel>,
    /// Subscribes that wait for a connection, each until its time. Bound: those of the lanes.
    pub(crate) waiting: VecDeque<(u64, u8, Request)>,
    /// Channels to be subscribed to again. Bound: one a channel.
    pub(crate) again: VecDeque<ChannelName>,
    pub(crate) rows: Rows,
    /// Rows to be written again. Bound: as `rows`.
    pub(crate) rows_again: VecDeque<(ChannelName, Box<str>)>,
    /// The name of the connection before, until all rows have the new one.
    pub(crate) incarnation_before: Option<String>,
    pub(crate) questions: Questions,
    /// Lanes in which something was left.
    pub(crate) rung: BTreeSet<u8>,
    /// The clocks, in milliseconds, as the thread read them last.
    pub(crate) now_ms: u64,
    pub(crate) unix_ms: u64,
    /// When this connection was last proved to answer and to deliver.
    pub(crate) proved_at_ms: u64,
    pub(crate) due: Due,
    /// Names that a new channel differs by from one of the same name before.
    pub(crate) serial: u64,
}

/// When what comes again and again is done next, in milliseconds.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) probe_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) sweep_ms: u64,
    pub(crate) audit_ms: u64,
}

impl Node {
    pub(crate) fn new(options: RedisOptions, lanes: Vec<Arc<Lane>>, status: Arc<Status>) -> Self {
        let mut rng = Rng::new(options.seed);
        Self {
            namespaces: options.namespaces.clone(),
            keys: Keys::new(&options.prefix),
            lanes,
            status,
            channels: ChannelMap::new(rng.next_u64()),
            rng,
            link: None,
            out: Vec::new(),
            flights: VecDeque::new(),
            flight_bytes: 0,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            rows: BTreeMap::new(),
            rows_again: VecDeque::new(),
            incarnation_before: None,
            questions: BTreeMap::new(),
            rung: BTreeSet::new(),
            now_ms: 0,
            unix_ms: 0,
            proved_at_ms: 0,
            due: Due::default(),
            serial: 0,
            options,
        }
    }

    /// Whether one more request may be sent. What waits for a connection needs no room.
    pub(crate) fn has_room(&self) -> bool {
        self.flights.len() < FLIGHTS_MAX && self.flight_bytes < FLIGHT_BYTES_MAX
    }

    /// Whether every shard has room for what comes.
    pub(crate) fn lanes_have_room(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.has_room() || !lane.is_open())
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.options.counters.count(counter);
    }

    pub(crate) fn leave(&mut self, lane: u8, reply: Reply) {
        if let Some(to) = self.lanes.get(usize::from(lane)) {
            to.leave(reply);
            self.rung.insert(lane);
        }
    }

    /// Leaves the reply that refuses a request, if somebody waits for it.
    pub(crate) fn refuse(&mut self, lane: u8, request: Request, refusal: Refusal) {
        let is_nobodys =
            |reply: &Reply| matches!(reply, Reply::Published { ticket, .. } if *ticket == NOBODY);
        if let Some(reply) = request.refused(refusal).filter(|it| !is_nobodys(it)) {
            self.leave(lane, reply);
        }
    }

    /// Leaves a reply with every shard of a set.
    pub(crate) fn leave_all(&mut self, shards: u64, reply: impl Fn() -> Reply) {
        for lane in 0..self.lanes.len() as u8 {
            if shards & 1 << lane != 0 {
                self.leave(lane, reply());
            }
        }
    }

    // ---- commands ----

    /// Notes what the command that was appended last waits for.
    pub(crate) fn fly(&mut self, flight: Flight, bytes: usize) {
        self.flight_bytes += bytes;
        let since_ms = self.now_ms;
        self.flights.push_back(Pending {
            flight,
            bytes,
            since_ms,
        });
    }

    pub(crate) fn send(&mut self, flight: Flight, parts: &[&[u8]]) {
        command(&mut self.out, parts);
        self.fly(flight, 0);
    }

    pub(crate) fn call(&mut self, flight: Flight, script: Script, keys: &[&str], args: &[&[u8]]) {
        let Some(link) = &self.link else { return };
        let digest = link
            .digests
            .get(script as usize)
            .map_or("", |digest| digest);
        let before = self.out.len();
        call(&mut self.out, digest, keys, args);
        let bytes = self.out.len() - before;
        self.fly(flight, bytes);
    }

    /// An epoch that nobody has: not that of [`Position::START`], and not zero.
    fn fresh(&mut self) -> String {
        format!("{:x}", (self.rng.next_u64() >> 1).max(1))
    }

    /// What each script that looks at a stream is told first: the server, a fresh epoch, the time
    /// if it is not Redis's, and how long positions are kept.
    pub(crate) fn stream_args(&mut self) -> [String; 4] {
        let server = self.link.as_ref().map(|link| link.server.clone());
        [
            server.unwrap_or_default(),
            self.fresh(),
            self.options.clock_ms.load(Ordering::Relaxed).to_string(),
            self.options.position_ttl_ms.to_string(),
        ]
    }

    pub(crate) fn look(
        &mut self,
        flight: Flight,
        channel: &ChannelName,
        mode: &str,
        since: Option<Position>,
        (limit, bytes): (usize, usize),
    ) {
        let ttl_ms = self.retention(channel).ttl_ms.to_string();
        let [server, fresh, clock, keep] = self.stream_args();
        let (meta, stream) = (self.keys.meta(channel), self.keys.stream(channel));
        let (epoch, offset) = since.map_or((String::new(), 0), |since| {
            (since.epoch.to_string(), since.offset)
        });
        let (limit, bytes, offset) = (limit.to_string(), bytes.to_string(), offset.to_string());
        let start = Position::START.epoch.to_string();
        let args = [
            &*server, &fresh, &clock, &keep, &ttl_ms, mode, &limit, &bytes, &epoch, &offset, &start,
        ];
        let args = args.map(str::as_bytes);
        self.call(flight, Script::Look, &[&meta, &stream], &args);
    }

    pub(crate) fn retention(&self, channel: &ChannelName) -> throng_broker::Retention {
        let options = self.namespaces.find(channel);
        options.map(|options| options.retention).unwrap_or_default()
    }
}
