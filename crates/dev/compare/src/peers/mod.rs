//! The servers that are measured. Every one of them is configured to do the same, and no more:
//!
//! - they speak the [`crate::client::Dialect`] of their suite;
//! - no compression, no access log, no pings within a measurement, connections may idle;
//! - one worker thread, except in the row that says otherwise.

mod scripts;
mod throng;

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::cache::Cache;
use crate::origin::Origin;
use crate::server::Peer;
use crate::suite::Suite;

/// Servers that take part in a comparison.
pub(crate) struct Field {
    pub(crate) peers: Vec<Peer>,
    /// Servers that were asked for and cannot be had, each with the reason.
    pub(crate) left_out: Vec<String>,
    /// The backend behind those that need one.
    pub(crate) origin: Option<Origin>,
}

/// Gets every peer that is wanted.
///
/// # Errors
/// If Throng itself cannot be built, or a name is unknown.
pub(crate) fn prepare(args: &Args, cache: &Cache) -> Result<Field> {
    let others: &[&str] = match args.suite() {
        Suite::Channels => &["nchan", "bun", "socketify"],
        Suite::Tls => &["nchan", "bun"],
        Suite::Grip => &["pushpin"],
        Suite::Pusher => &["soketi"],
        Suite::Shards => &[],
    };
    let keys = throng::keys(args.suite()).iter().copied();
    let keys: Vec<_> = keys.chain(others.iter().copied()).collect();
    for name in &args.only {
        ensure!(
            keys.contains(&name.as_str()),
            "no peer is called {name}; there are {}",
            keys.join(", ")
        );
    }
    let origin = match args.suite() {
        Suite::Channels | Suite::Shards | Suite::Tls | Suite::Pusher => None,
        Suite::Grip => Some(Origin::start()?),
    };
    let mut peers = throng::prepare(args, origin.as_ref())?;
    let mut left_out = Vec::new();
    for &key in others {
        if !args.wants(key) {
            continue;
        }
        eprintln!("preparing {key}");
        match scripts::prepare(key, cache, origin.as_ref()) {
            Ok(peer) => peers.push(peer),
            Err(error) => left_out.push(format!("{key}: {error:#}")),
        }
    }
    for reason in &left_out {
        eprintln!("left out: {reason}");
    }
    Ok(Field {
        peers,
        left_out,
        origin,
    })
}
