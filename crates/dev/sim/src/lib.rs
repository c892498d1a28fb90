//! The seeded simulator: sessions, hubs, mailboxes and clients on a virtual clock.
//!
//! A run is drawn from one number: how many shards, clients and backends there are, how
//! small their buffers are, what each does next, and which faults befall it. Shards are
//! made of the real [`throng_hub::Hub`] and the real [`throng_session::Session`], joined
//! as the server joins them; clients speak real bytes and read with the client roles of
//! our protocol crates. Sockets, threads and the clock are played.
//!
//! What must hold, checked by clients against a model of what was accepted:
//! - nothing is lost while a connection lives, unless its channel's policy says so, and then
//!   as many as were dropped are told;
//! - nothing comes twice or out of order, and nothing comes without a subscription;
//! - a recovery is exactly what was missed, or nothing of it, and never fails without need;
//! - every command and request is answered once, and every byte is well framed, with
//!   none after the last word;
//! - queues keep within their bounds, and when all have left nothing of them stays.
//!
//! Faults: bytes cut anywhere, slow readers, connections cut at any byte, mail between shards
//! that waits, fan-out in slices, leaps of the clock (pings, expiry of tokens and of history),
//! history evicted for its bytes, calls of the server API across shards, a drain in the middle.
//! Not played: a server that crashes, several nodes, TLS.

mod backend;
mod brief;
mod client;
mod conns;
mod feed;
mod net;
mod outbound;
mod payload;
mod rng;
mod setup;
mod shard;
mod trace;
mod witness;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trace::{Detail, Trace};
use world::World;

/// What a run did, to see that it did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Publications that a home accepted.
    pub accepted: u64,
    /// Publications that clients got.
    pub received: u64,
    /// Recoveries that were whole.
    pub recovered: u64,
    /// Recoveries that could not be.
    pub lost: u64,
    /// Deliveries that were dropped for slow clients.
    pub dropped: u64,
}

/// How a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the run was drawn from.
    pub seed: u64,
    /// Where it was.
    pub step: usize,
    /// What did not hold.
    pub message: String,
    /// What happened last.
    pub events: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        writeln!(
            f,
            "seed {} fails at step {}: {}",
            self.seed, self.step, self.message
        )?;
        let seed = self.seed;
        write!(
            f,
            "replay it with THRONG_SIM_SEED={seed} cargo test -p throng-sim -- --nocapture"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs one seed for so many steps; `print` shows each event on standard output as it happens.
///
/// # Errors
/// A [`Failure`] if anything did not hold; also where the server's own code panicked.
pub fn run(seed: u64, steps: usize, print: bool) -> Result<Summary, Failure> {
    if print {
        return attempt(seed, steps, Detail::Print);
    }
    // A run that fails is run again to see its events: it does the same again.
    attempt(seed, steps, Detail::Nothing).or_else(|_| attempt(seed, steps, Detail::Last))
}

fn attempt(seed: u64, steps: usize, detail: Detail) -> Result<Summary, Failure> {
    let trace = Trace::new(detail);
    let of_run = trace.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| whole(seed, steps, of_run)));
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let (step, events) = trace.end();
        Failure {
            seed,
            step,
            message: text.unwrap_or("a panic without words").to_owned(),
            events,
        }
    })
}

fn whole(seed: u64, steps: usize, trace: Trace) -> Summary {
    let mut world = World::new(seed, steps, trace);
    for step in 0..steps {
        world.step(step);
    }
    world.settle();
    world.end();
    let witness = &world.witness;
    Summary {
        accepted: witness.accepted,
        received: witness.received,
        recovered: witness.recoveries.0,
        lost: witness.recoveries.1,
        dropped: witness.dropped,
    }
}
