//! Redis as a node asks it: what the connection is, and which commands wait for answers.
//!
//! Never: links, rules about channels.
//!
//! Invariant: flights are in the order of their commands, hence of Redis's answers.

use std::collections::{BTreeMap, VecDeque};

use throng_broker::Presence;
use throng_redis_link::command;
use throng_remote::{Core, Desk};
use throng_types::ChannelName;

use crate::command::{Script, call};
use crate::flight::{Flight, Pending};
use crate::keys::Keys;
use crate::options::Target;

/// Time for which a stream without publications is remembered when nobody subscribes to it, in
/// milliseconds: enough to subscribe from the position that a question for history gave.
const EMPTY_MS: u64 = 10_000;

/// Names of other nodes that are remembered; the oldest is forgotten for one more, and looked for
/// again.
pub(crate) const KNOWN_MAX: usize = 256;

/// A connection that stands.
#[derive(Debug)]
pub struct Established {
    /// The server process, by its own word: another one after each start.
    pub(crate) process: String,
    /// Line of replication: another one after each promotion.
    pub(crate) line: String,
    /// The digest of each script, in the order of [`Script::ALL`].
    pub(crate) digests: Vec<String>,
    /// Names this node for the length of this connection: 16 characters.
    pub(crate) incarnation: String,
}

/// Members that are listed, by channel and client.
pub(crate) type Rows = BTreeMap<(ChannelName, Box<str>), Presence>;

/// The broker on Redis.
pub struct Redis {
    pub(crate) core: Core,
    pub(crate) target: Target,
    pub(crate) keys: Keys,
    pub(crate) link: Option<Established>,
    /// Queue: `to the broker`.
    pub(crate) flights: VecDeque<Pending>,
    pub(crate) flight_bytes: usize,
    pub(crate) rows: Rows,
    /// Rows to be written again. Bound: as `rows`.
    pub(crate) rows_again: VecDeque<(ChannelName, Box<str>)>,
    /// Redis refused to write or to remove a row on this connection.
    pub(crate) rows_missed: bool,
    /// When the lease of this connection was last renewed.
    pub(crate) leased_at_ms: Option<u64>,
    /// The name of the connection before, until all rows have the new one.
    pub(crate) incarnation_before: Option<String>,
    /// Other nodes that were there when one was last asked. Bound: [`KNOWN_MAX`].
    pub(crate) known: VecDeque<Box<str>>,
    /// When the connection is made anew, since Redis refused something while its slot moved.
    pub(crate) anew_at_ms: Option<u64>,
}

impl Redis {
    pub(crate) fn new(desk: Desk, target: Target) -> Self {
        Self {
            keys: Keys::new(&target.prefix(&desk.options.prefix)),
            core: Core::new(desk),
            target,
            link: None,
            flights: VecDeque::new(),
            flight_bytes: 0,
            rows: BTreeMap::new(),
            rows_again: VecDeque::new(),
            rows_missed: false,
            leased_at_ms: None,
            incarnation_before: None,
            known: VecDeque::new(),
            anew_at_ms: None,
        }
    }

    pub(crate) fn incarnation(&self) -> &str {
        { self.link.as_ref() }.map_or("", |link| &link.incarnation)
    }

    /// Notes what the command that was appended last waits for.
    pub(crate) fn fly(&mut self, flight: Flight, bytes: usize) {
        self.flight_bytes += bytes;
        let since_ms = self.core.desk.now_ms;
        self.flights.push_back(Pending {
            flight,
            bytes,
            since_ms,
        });
    }

    pub(crate) fn send(&mut self, flight: Flight, parts: &[&[u8]]) {
        command(&mut self.core.desk.out, parts);
        self.fly(flight, 0);
    }

    pub(crate) fn call(&mut self, flight: Flight, script: Script, keys: &[&str], args: &[&[u8]]) {
        let Some(link) = &self.link else { return };
        let digest = link
            .digests
            .get(script as usize)
            .map_or("", |digest| digest);
        let before = self.core.desk.out.len();
        call(&mut self.core.desk.out, digest, keys, args);
        let bytes = self.core.desk.out.len() - before;
        self.fly(flight, bytes);
    }

    /// First arguments of each script that looks at a stream: the server, a fresh epoch, the time
    /// if it is not Redis's, and how long positions are kept.
    pub(crate) fn stream_args(&mut self) -> [String; 4] {
        let link = self.link.as_ref();
        let server = link.map(|link| format!("{}:{}", link.process, link.line));
        [
            server.unwrap_or_default(),
            format!("{:x}", self.core.desk.fresh_epoch()),
            self.core.desk.options.given_ms().to_string(),
            self.core.desk.options.position_ttl_ms.to_string(),
        ]
    }

    /// Lifetime of a stream without publications that nobody subscribes to.
    pub(crate) fn empty_ms(&self) -> String {
        EMPTY_MS
            .min(self.core.desk.options.position_ttl_ms)
            .to_string()
    }
}
