//! The seeded simulator: the engine's loop and the server as they are, over a played kernel.
//!
//! A run is drawn from one number: how many shards, clients and publishers there are, how small
//! buffers and mailboxes are, who does what next, and which faults befall it (`shown.txt`). The
//! shards are the real [`throng_engine::Running`] with the real [`throng_server::ShardApp`], so
//! sessions, hub and broker run as they are. Played are the kernel (sockets, readiness, clock,
//! mailboxes between shards), GRIP's backend, Appwrite, the network and the clients.
//!
//! The kinds of runs are those of [`Run`]. A model beside each checks what its clients got; that of
//! the server is `witness.rs`. It knows nothing of the server's insides. What runs of a kind are to
//! show, lest they prove nothing, stands in `shown.txt`.
//!
//! Invariant: the same code and the same seed give the same trace, to the last byte.
//!
//! Not played: TLS with the server and its gateways.

#[macro_use]
mod net;

mod backend;
mod backends;
mod client;
mod cluster;
mod disk;
mod feeds;
mod hooks;
mod http;
mod kernel;
mod node;
mod payload;
mod play;
mod publisher;
mod relay;
mod setup;
mod stage;
mod tally;
mod trace;
mod visitor;
mod witness;
mod zmq;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cluster::BrokerKind;
pub use tally::Tally;

use net::Net;
use relay::Way;
use throng_sys::random;
use trace::Detail;

/// Kinds of runs, by the part of the product that they play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Engine with the smallest app that uses all of it.
    Engine,
    /// Engine with TLS between the clients and the kernel.
    SecureEngine,
    /// Engine with clients on streams of HTTP/2.
    StreamEngine,
    /// One server with clients of all protocols.
    Server,
    /// One server that hands over to another process now and then.
    HandOvers,
    /// The host of HTTP backends, between played servers and callers.
    Backends,
    /// Several nodes on a played Redis.
    Redis,
    /// Several nodes on a played NATS.
    Nats,
    /// One node before a played Appwrite and GRIP's backend.
    Alone,
    /// The host of feeds, before a played source.
    FeedRedis,
    FeedPostgres,
    FeedKafka,
    FeedNats,
    /// One server that tells webhooks, and is killed now and then.
    Hooks,
    /// Three nodes that tell webhooks, on a played Redis or NATS.
    HookNodes,
}

impl Run {
    /// Each kind with its name, the steps of a run, and the seeds of an ordinary test.
    const ALL: [(Self, &str, usize, u64); 15] = [
        (Self::Engine, "engine", 1000, 256),
        (Self::SecureEngine, "secure-engine", 1000, 256),
        (Self::StreamEngine, "stream-engine", 1000, 256),
        (Self::Server, "server", 1500, 256),
        (Self::HandOvers, "hand-overs", 1500, 256),
        (Self::Backends, "backends", 2500, 256),
        (Self::Redis, "redis", 3000, 500),
        (Self::Nats, "nats", 3000, 500),
        (Self::Alone, "alone", 3000, 260),
        (Self::FeedRedis, "feed-redis", 1500, 260),
        (Self::FeedPostgres, "feed-postgres", 1500, 260),
        (Self::FeedKafka, "feed-kafka", 1500, 260),
        (Self::FeedNats, "feed-nats", 1500, 260),
        (Self::Hooks, "hooks", 4000, 100),
        (Self::HookNodes, "hook-nodes", 4000, 60),
    ];

    /// Iterates over all kinds of runs.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().map(|(run, ..)| run)
    }

    /// Name by which `shown.txt` knows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Number of seeds of an ordinary test.
    #[must_use]
    pub const fn seeds(self) -> u64 {
        Self::ALL[self as usize].3
    }

    /// Plays a seed; `print` shows each event as it happens. Gives the hash of the trace, which is
    /// the same for the same seed, and what happened.
    ///
    /// # Errors
    /// If anything did not hold; also where the product panicked.
    pub fn seed(self, seed: u64, print: bool) -> Result<(u64, Tally), Failure> {
        let net = Net::new(seed, if print { Detail::Print } else { Detail::Last });
        let world = net.clone();
        random::repeat(Some(seed));
        let played = catch_unwind(AssertUnwindSafe(|| self.play(world, seed)));
        random::repeat(None);
        let world = net.0.borrow();
        if let Err(panic) = played {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            return Err(Failure {
                run: self.name(),
                seed,
                message: text.unwrap_or("a panic without words").to_owned(),
                events: world.trace.last(),
            });
        }
        Ok((world.trace.hash(), world.tally.clone()))
    }

    fn play(self, net: Net, seed: u64) {
        let steps = Self::ALL[self as usize].2;
        match self {
            Self::Engine => relay::run(net, seed, steps, Way::Plain),
            Self::SecureEngine => relay::run(net, seed, steps, Way::Tls),
            Self::StreamEngine => relay::run(net, seed, steps, Way::Streams),
            Self::Server => play::run_server(net, seed, steps),
            Self::HandOvers => play::run_hand_overs(net, seed, steps),
            Self::Backends => backends::run(net, seed, steps),
            Self::Redis => cluster::run(net, seed, steps, BrokerKind::Redis),
            Self::Nats => cluster::run(net, seed, steps, BrokerKind::Nats),
            Self::Alone => cluster::run(net, seed, steps, BrokerKind::Memory),
            Self::FeedRedis => feeds::run(net, steps, |net| Box::new(feeds::Redis::new(net))),
            Self::FeedPostgres => feeds::run(net, steps, |net| Box::new(feeds::Postgres::new(net))),
            Self::FeedKafka => feeds::run(net, steps, |net| Box::new(feeds::Kafka::new(net))),
            Self::FeedNats => feeds::run(net, steps, |net| Box::new(feeds::Nats::new(net))),
            Self::Hooks => hooks::run(net, seed, steps, BrokerKind::Memory),
            Self::HookNodes if seed.is_multiple_of(2) => {
                hooks::run(net, seed, steps, BrokerKind::Redis);
            }
            Self::HookNodes => hooks::run(net, seed, steps, BrokerKind::Nats),
        }
    }
}

/// Failure of one run, with what repeats and explains it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name of its kind.
    pub run: &'static str,
    /// Seed of the run.
    pub seed: u64,
    /// Describes the promise that was broken.
    pub message: String,
    /// Last events of the run, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        let Self {
            run, seed, message, ..
        } = self;
        writeln!(f, "seed {seed} of {run} fails: {message}")?;
        write!(
            f,
            "replay it with THRONG_SIM_SEED={seed} cargo test -p throng-sim -- --nocapture"
        )
    }
}

impl std::error::Error for Failure {}
