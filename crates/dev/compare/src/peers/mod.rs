//! The servers that are measured. Every one of them is configured to do the same, and no more:
//!
//! - `GET /ws?channel=…` is a WebSocket that is subscribed to the channel and gets each publication
//!   as one text frame; `POST /pub?channel=…` publishes the body;
//! - no compression, no access log, no pings within a measurement, connections may idle;
//! - one worker thread, except in the row that says otherwise.

mod bun;
mod nchan;
mod socketify;
mod throng;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::cache::Cache;
use crate::server::Addresses;

/// A server that can be started.
pub(crate) trait Peer {
    /// Its name on the command line.
    fn key(&self) -> &'static str;

    /// Its row in the table, with its version.
    fn title(&self) -> String;

    /// Addresses that it can listen on.
    fn addresses(&self) -> Result<Addresses> {
        Addresses::single()
    }

    /// How to start it in the foreground; it may keep files in `folder`, which is empty.
    fn command(&self, addresses: Addresses, folder: &Path) -> Result<Command>;
}

/// Who takes part.
pub(crate) struct Field {
    /// In the order of the table.
    pub(crate) peers: Vec<Box<dyn Peer>>,
    /// Who was wanted and cannot be had, and why.
    pub(crate) left_out: Vec<String>,
}

/// Gets every peer that is wanted.
///
/// # Errors
/// If Throng itself cannot be built, or a name is unknown.
pub(crate) fn prepare(args: &Args, cache: &Cache) -> Result<Field> {
    for name in &args.only {
        ensure!(
            KEYS.contains(&name.as_str()),
            "no peer is called {name}; there are {}",
            KEYS.join(", ")
        );
    }
    let mut peers = throng::prepare(args)?;
    let mut left_out = Vec::new();
    let others: [(&str, Prepare); 3] = [
        (nchan::KEY, nchan::prepare),
        (bun::KEY, bun::prepare),
        (socketify::KEY, socketify::prepare),
    ];
    for (key, prepare) in others {
        if !args.wants(key) {
            continue;
        }
        eprintln!("preparing {key}");
        match prepare(cache) {
            Ok(peer) => peers.push(peer),
            Err(error) => left_out.push(format!("{key}: {error:#}")),
        }
    }
    for reason in &left_out {
        eprintln!("left out: {reason}");
    }
    Ok(Field { peers, left_out })
}

type Prepare = fn(&Cache) -> Result<Box<dyn Peer>>;

const KEYS: [&str; 5] = [
    throng::KEY_ONE,
    throng::KEY_ALL,
    nchan::KEY,
    bun::KEY,
    socketify::KEY,
];
