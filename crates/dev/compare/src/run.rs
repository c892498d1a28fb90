//! The order of a run: round by round, measurement by measurement, peer by peer.
//!
//! Peers take turns within each measurement, so that whatever else the machine does in these
//! minutes meets all of them.

use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::cache::Cache;
use crate::origin::Origin;
use crate::peers::Field;
use crate::results::{Report, Samples};
use crate::scenario::{self, Scale};
use crate::server::{Addresses, Peer, Server};
use crate::suite::{Scenario, Suite};

/// Servers that are tried for one figure.
const ATTEMPTS: u32 = 3;

/// Measures everything for the rounds in `args`. A failure is recorded, and the rest goes on.
pub(crate) fn rounds(args: &Args, cache: &Cache, field: &Field, report: &mut Report) -> Result<()> {
    let setting = Setting {
        suite: args.suite(),
        scale: args.scale(),
        origin: field.origin.as_ref(),
        cache,
    };
    for round in 1..=args.rounds() {
        for scenario in args.scenarios() {
            for (place, peer) in field.peers.iter().enumerate() {
                if scenario.is_throngs_own() && !peer.key.starts_with("throng") {
                    continue;
                }
                eprintln!("round {round}: {scenario:?}, {}", peer.title);
                match setting.attempts(peer, scenario) {
                    Ok((command, samples)) => {
                        report.set_command(place, command);
                        report.add(place, Ok(samples));
                    }
                    Err(error) => {
                        let reason = format!("{scenario:?}, round {round}: {error:#}");
                        eprintln!("failed: {reason}");
                        report.add(place, Err(reason));
                    }
                }
            }
        }
    }
    Ok(())
}

struct Setting<'a> {
    suite: Suite,
    scale: Scale,
    origin: Option<&'a Origin>,
    cache: &'a Cache,
}

impl Setting<'_> {
    /// Tries again where a server loses a connection: what some do now and then must not leave the
    /// table empty.
    fn attempts(&self, peer: &Peer, scenario: Scenario) -> Result<(String, Samples)> {
        for _ in 1..ATTEMPTS {
            match self.measure(peer, scenario) {
                Ok(found) => return Ok(found),
                Err(error) => eprintln!("once more: {error:#}"),
            }
        }
        self.measure(peer, scenario)
    }

    /// Starts the peer, measures it and ends it. Answers how it was started too.
    fn measure(&self, peer: &Peer, scenario: Scenario) -> Result<(String, Samples)> {
        let folder = self.cache.empty_folder(&format!("run-{}", peer.key))?;
        let is_secure = self.suite == Suite::Tls;
        let addresses = Addresses::pick(is_secure || peer.has_two_ports, is_secure);
        let mut command = (peer.command)(addresses, &folder)?;
        let server = Server::start(&mut command, self.suite.dialect(), addresses, &folder)?;
        let samples = scenario::measure(scenario, &server, &self.scale, self.origin)?;
        Ok((spell(&command), samples))
    }
}

/// The command as a shell takes it, with paths as seen from the checkout.
fn spell(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!(
            "{}={}",
            name.display(),
            shorten(&value?.to_string_lossy())
        ))
    });
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| shorten(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// Removes the folders that lead to this checkout: they are private and mean nothing elsewhere.
fn shorten(word: &str) -> String {
    let root = crate::cache::checkout().canonicalize().unwrap_or_default();
    let root = format!("{}/", root.display());
    word.strip_prefix(&root).unwrap_or(word).to_owned()
}
