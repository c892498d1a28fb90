//! The seeded simulator: the engine's loop and the server as they are, over a played kernel.
//!
//! A run is drawn from one number: how many shards, clients and publishers there are, how small
//! buffers and mailboxes are, who does what next, and which faults befall it ([`Fault`]). The
//! shards are the real [`throng_engine::Running`] with the real [`throng_server::ShardApp`], so
//! sessions, hub and broker run as they are. Played are the kernel (sockets, readiness, clock,
//! mailboxes between shards), GRIP's backend, Appwrite's events and users, the network and the
//! clients.
//!
//! Six kinds of runs: [`run_server`], [`run_hand_overs`] with a server that hands over to another
//! process now and then, [`run_engine`] with the smallest app that uses all of the engine
//! ([`run_secure_engine`] is that with TLS between the clients and the kernel),
//! [`run_backends`] with the host of HTTP backends, around which servers and callers are played,
//! [`run_cluster`] with several nodes that share a played Redis or NATS, or one node, before a
//! played Appwrite, and [`run_feeds`] with the host of feeds before a played source. A model
//! beside them checks what each client got; see `witness.rs`. It knows nothing of the server's
//! insides.
//!
//! Invariant: the same code and the same seed give the same trace, to the last byte.
//!
//! Not played: one server alone that crashes, TLS with the server and its gateways.

mod appwrite_feed;
mod backend;
mod backends;
mod client;
mod cluster;
mod directory;
mod fault;
mod feeds;
mod kernel;
mod net;
mod payload;
mod play;
mod publisher;
mod relay;
mod setup;
mod stage;
mod trace;
mod visitor;
mod witness;
mod zmq;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use backends::{Tally, run_backends};
pub use cluster::{BrokerKind, ClusterSummary, GuestSummary, run_cluster};
pub use fault::{Fault, Hits};
pub use feeds::{FeedKind, FeedSummary, run_feeds};
pub use play::{Outcome, run_hand_overs, run_server};
pub use relay::{run_engine, run_secure_engine};
pub use witness::Summary;

use net::Net;
use throng_sys::random;
use trace::Detail;

/// Failure of one run, with what repeats and explains it.
#[derive(Clone, Debug)]
pub struct Failure {
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
        let Self { seed, message, .. } = self;
        writeln!(f, "seed {seed} fails: {message}")?;
        write!(
            f,
            "replay it with THRONG_SIM_SEED={seed} cargo test -p throng-sim -- --nocapture"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs in a world of this seed, and makes a panic a failure with the last events.
pub(crate) fn attempt<R>(seed: u64, print: bool, run: impl FnOnce(Net) -> R) -> Result<R, Failure> {
    let net = Net::new(seed, if print { Detail::Print } else { Detail::Last });
    let world = net.clone();
    random::repeat(Some(seed));
    let result = catch_unwind(AssertUnwindSafe(|| run(world)));
    random::repeat(None);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Failure {
            seed,
            message: text.unwrap_or("a panic without words").to_owned(),
            events: net.0.borrow().trace.last(),
        }
    })
}
