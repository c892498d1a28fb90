//! What a node knows of its channels, and what it asks of Redis: the driver without its threads.
//!
//! Owns: which shards are interested in what, where each channel's deliveries stand, the commands
//! that Redis has not answered. Never: sockets, threads, clocks. It is told what happens, appends
//! commands to its desk's output and leaves replies in the shards' lanes.
//!
//! Invariants
//! - Flights are in the order of their commands, hence of Redis's answers.
//! - A channel is known while a shard is interested or a subscribe waits for its answer.
//! - While a channel is `Live`, every publication up to `top` was left in the lanes of the shards
//!   that are interested, and no later one.

use std::collections::{BTreeMap, VecDeque};

use throng_broker::{ChannelMap, Presence, Request};
use throng_redis_link::command;
use throng_remote::agent::{Audits, Channel, Mode};
use throng_remote::{Desk, Questions};
use throng_types::{ChannelName, Position};

use crate::command::{Script, call};
use crate::flight::{Flight, Pending};
use crate::keys::Keys;
use crate::options::Target;

/// Commands without an answer. Queue: `to the broker`.
pub(crate) const FLIGHTS_MAX: usize = 4096;
/// Their bytes, unless a single one has more. Queue: `to the broker`.
pub(crate) const FLIGHT_BYTES_MAX: usize = 8 << 20;

/// How long a stream without publications is remembered when nobody subscribes to it, in
/// milliseconds: enough to subscribe from the position that a question for history gave.
const EMPTY_MS: u64 = 10_000;

/// Names of other nodes that are remembered; the oldest is forgotten for one more, and looked for
/// again.
pub(crate) const KNOWN_MAX: usize = 256;

/// A connection that stands.
#[derive(Debug)]
pub(crate) struct Established {
    /// The server process, by its own word: another one after each start.
    pub(crate) process: String,
    /// Its line of replication: another one after each promotion.
    pub(crate) line: String,
    /// The digest of each script, in the order of [`Script::ALL`].
    pub(crate) digests: Vec<String>,
    /// Names this node for the length of this connection: 16 characters.
    pub(crate) incarnation: String,
}

/// Who is listed, by channel and client.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), Presence>;

pub(crate) struct Node {
    pub(crate) desk: Desk,
    pub(crate) target: Target,
    pub(crate) keys: Keys,
    pub(crate) link: Option<Established>,
    /// Queue: `to the broker`.
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
    /// Redis refused to write or to remove a row on this connection.
    pub(crate) rows_missed: bool,
    /// When the lease of this connection was last renewed.
    pub(crate) leased_at_ms: Option<u64>,
    /// The name of the connection before, until all rows have the new one.
    pub(crate) incarnation_before: Option<String>,
    pub(crate) questions: Questions,
    /// Name of this node, once it is known.
    pub(crate) name: Option<Box<str>>,
    /// Other nodes that were there when one was last asked. Bound: [`KNOWN_MAX`].
    pub(crate) known: VecDeque<Box<str>>,
    /// When this connection was last proved to answer and to deliver.
    pub(crate) proved_at_ms: u64,
    pub(crate) due: Due,
    /// When the connection is made anew, since Redis refused something while its slot moved.
    pub(crate) anew_at_ms: Option<u64>,
    pub(crate) audits: Audits,
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
    pub(crate) fn new(mut desk: Desk, target: Target) -> Self {
        Self {
            keys: Keys::new(&target.prefix(&desk.options.prefix)),
            channels: ChannelMap::new(desk.rng.next_u64()),
            desk,
            target,
            link: None,
            flights: VecDeque::new(),
            flight_bytes: 0,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            rows: BTreeMap::new(),
            rows_again: VecDeque::new(),
            rows_missed: false,
            leased_at_ms: None,
            incarnation_before: None,
            questions: Questions::default(),
            name: None,
            known: VecDeque::new(),
            proved_at_ms: 0,
            due: Due::default(),
            anew_at_ms: None,
            audits: Audits::default(),
            serial: 0,
        }
    }

    /// Notes what the command that was appended last waits for.
    pub(crate) fn fly(&mut self, flight: Flight, bytes: usize) {
        self.flight_bytes += bytes;
        let since_ms = self.desk.now_ms;
        self.flights.push_back(Pending {
            flight,
            bytes,
            since_ms,
        });
    }

    pub(crate) fn send(&mut self, flight: Flight, parts: &[&[u8]]) {
        command(&mut self.desk.out, parts);
        self.fly(flight, 0);
    }

    pub(crate) fn call(&mut self, flight: Flight, script: Script, keys: &[&str], args: &[&[u8]]) {
        let Some(link) = &self.link else { return };
        let digest = link
            .digests
            .get(script as usize)
            .map_or("", |digest| digest);
        let before = self.desk.out.len();
        call(&mut self.desk.out, digest, keys, args);
        let bytes = self.desk.out.len() - before;
        self.fly(flight, bytes);
    }

    /// What each script that looks at a stream is told first: the server, a fresh epoch, the time
    /// if it is not Redis's, and how long positions are kept.
    pub(crate) fn stream_args(&mut self) -> [String; 4] {
        let link = self.link.as_ref();
        let server = link.map(|link| format!("{}:{}", link.process, link.line));
        [
            server.unwrap_or_default(),
            format!("{:x}", self.desk.fresh_epoch()),
            self.desk.options.given_ms().to_string(),
            self.desk.options.position_ttl_ms.to_string(),
        ]
    }

    /// How long a stream without publications lives that nobody subscribes to.
    pub(crate) fn empty_ms(&self) -> String {
        EMPTY_MS.min(self.desk.options.position_ttl_ms).to_string()
    }

    pub(crate) fn look(
        &mut self,
        flight: Flight,
        channel: &ChannelName,
        mode: Mode,
        since: Option<Position>,
        (limit, bytes): (usize, usize),
    ) {
        let ttl_ms = self.desk.options.of(channel).retention.ttl_ms.to_string();
        let mode = match mode {
            Mode::Top => "top",
            Mode::Since => "since",
            Mode::Newest => "newest",
            Mode::Oldest => "oldest",
        };
        let [server, fresh, clock, keep] = self.stream_args();
        let (meta, stream) = (self.keys.meta(channel), self.keys.stream(channel));
        let (epoch, offset) = since.map_or((String::new(), 0), |since| {
            (since.epoch.to_string(), since.offset)
        });
        let (limit, bytes, offset) = (limit.to_string(), bytes.to_string(), offset.to_string());
        let start = Position::START.epoch.to_string();
        // Who asks for history alone keeps no name alive.
        let empty = match flight {
            Flight::History { .. } => self.empty_ms(),
            _ => keep.clone(),
        };
        let args = [
            &*server, &fresh, &clock, &keep, &ttl_ms, mode, &limit, &bytes, &epoch, &offset,
            &start, &empty,
        ];
        let args = args.map(str::as_bytes);
        self.call(flight, Script::Look, &[&meta, &stream], &args);
    }
}
