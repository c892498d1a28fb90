//! The command line.

use std::path::PathBuf;

use crate::scenario::Scale;
use crate::suite::{Scenario, Suite};

/// Measure Throng and its peers side by side on this machine, and print one Markdown table
///
/// The peers are fetched by apt-get, npm and pip into target/compare; nothing is installed outside
/// it. Pushpin alone must be installed: its programs look for each other. A machine that does
/// something else meanwhile spoils the figures.
#[derive(Debug, clap::Parser)]
#[command(name = "throng-compare", version)]
pub(crate) struct Args {
    /// Compare what holds streams for a backend by GRIP: Throng and Pushpin
    #[arg(long)]
    grip: bool,
    /// Compare servers of Pusher's protocol: Throng and soketi
    #[arg(long, conflicts_with_all = ["grip", "tls", "shards"])]
    pusher: bool,
    /// Compare over TLS: Throng with its own records and with rustls', nchan and Bun
    #[arg(long, conflicts_with_all = ["grip", "shards"])]
    tls: bool,
    /// Measure these alone: throng, throng-all, nchan, bun, socketify; with --grip: throng,
    /// throng-all, pushpin; with --pusher: throng, throng-all, soketi; with --tls: throng,
    /// throng-all, throng-rustls, nchan, bun
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Measure the costs between shards: Throng alone, with so many shards each
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["grip", "only"])]
    pub(crate) shards: Vec<usize>,
    /// Take these measurements alone
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_enum)]
    measure: Vec<Scenario>,
    /// Number of rounds; the table has medians [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Small and short: shows that everything works, its figures mean little
    #[arg(long)]
    quick: bool,
    /// Write every single figure to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Measure this binary of Throng [default: build this checkout's in release mode]
    #[arg(long, value_name = "FILE")]
    pub(crate) throng: Option<PathBuf>,
}

impl Args {
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    pub(crate) fn scale(&self) -> Scale {
        if self.quick {
            Scale::QUICK
        } else {
            Scale::FULL
        }
    }

    /// Measurements to take, in the order of the table.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let all = self.suite().scenarios().iter().copied();
        all.filter(|scenario| self.measure.is_empty() || self.measure.contains(scenario))
            .collect()
    }

    pub(crate) fn suite(&self) -> Suite {
        if !self.shards.is_empty() {
            Suite::Shards
        } else if self.grip {
            Suite::Grip
        } else if self.pusher {
            Suite::Pusher
        } else if self.tls {
            Suite::Tls
        } else {
            Suite::Channels
        }
    }

    /// Whether a server is asked for.
    pub(crate) fn wants(&self, key: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == key)
    }
}
