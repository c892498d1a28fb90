//! The order of a run: round by round, measurement by measurement, peer by peer.
//!
//! Peers take turns within each measurement, so that whatever else the machine does in these minutes
//! meets all of them.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::cache::Cache;
use crate::peers::Peer;
use crate::results::{Report, Samples};
use crate::scenario::{Scale, Scenario};
use crate::server::Server;

/// Measures everything as often as `args` say. What fails is noted, and the rest goes on.
pub(crate) fn rounds(
    args: &Args,
    cache: &Cache,
    peers: &[Box<dyn Peer>],
    report: &mut Report,
) -> Result<()> {
    let scale = args.scale();
    for round in 1..=args.rounds() {
        for scenario in args.scenarios() {
            for (place, peer) in peers.iter().enumerate() {
                eprintln!("round {round}: {scenario:?}, {}", peer.title());
                let folder = cache.empty_folder(&format!("run-{}", peer.key()))?;
                let found = measure(peer.as_ref(), &folder, scenario, &scale);
                match found {
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

/// Starts the peer, measures it and ends it. Answers how it was started too.
fn measure(
    peer: &dyn Peer,
    folder: &Path,
    scenario: Scenario,
    scale: &Scale,
) -> Result<(String, Samples)> {
    let addresses = peer.addresses()?;
    let mut command = peer.command(addresses, folder)?;
    let server = Server::start(&mut command, addresses, folder)?;
    let samples = scenario.measure(&server, scale)?;
    Ok((spell(&command), samples))
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

/// Without the folders that lead to this checkout: they say nothing, and are nobody's business.
fn shorten(word: &str) -> String {
    let root = crate::cache::checkout().canonicalize().unwrap_or_default();
    let root = format!("{}/", root.display());
    word.strip_prefix(&root).unwrap_or(word).to_owned()
}
