//! Everything that a run found, as it is written to a file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Metric, Samples};
use crate::args::Args;
use crate::client::PAYLOAD_BYTES;
use crate::machine::Machine;
use crate::peers::Field;
use crate::scenario::Scale;
use crate::suite::Suite;

/// Everything that one run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(super) machine: Machine,
    pub(super) command: String,
    pub(super) suite: Suite,
    pub(super) rounds: u32,
    pub(super) payload_bytes: usize,
    pub(super) scale: Scale,
    pub(super) rows: Vec<Row>,
    /// Peers that could not be had, and why.
    pub(super) left_out: Vec<String>,
}

/// Figures of one server.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) title: String,
    pub(super) command: String,
    pub(super) samples: BTreeMap<Metric, Vec<f64>>,
    /// Measurements that failed, each with the reason.
    pub(super) failures: Vec<String>,
}

impl Report {
    pub(crate) fn new(machine: Machine, args: &Args, scale: Scale, field: &Field) -> Self {
        let rows = field.peers.iter().map(|peer| Row {
            key: peer.key(),
            title: peer.title(),
            command: String::new(),
            samples: BTreeMap::new(),
            failures: Vec::new(),
        });
        Self {
            machine,
            command: command_line(),
            suite: args.suite(),
            rounds: args.rounds(),
            payload_bytes: PAYLOAD_BYTES,
            scale,
            rows: rows.collect(),
            left_out: field.left_out.clone(),
        }
    }

    /// Notes how the peer at this place was started.
    pub(crate) fn set_command(&mut self, place: usize, command: String) {
        if let Some(row) = self.rows.get_mut(place) {
            row.command = command;
        }
    }

    /// Adds what was found of the peer at this place; a reason if that was nothing.
    pub(crate) fn add(&mut self, place: usize, found: Result<Samples, String>) {
        let Some(row) = self.rows.get_mut(place) else {
            return;
        };
        match found {
            Ok(samples) => {
                for (metric, value) in samples {
                    row.samples.entry(metric).or_default().push(value);
                }
            }
            Err(reason) => row.failures.push(reason),
        }
    }
}

/// The command line in a form that can be typed.
fn command_line() -> String {
    let options = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let command = "cargo run --release -p throng-compare";
    if options.is_empty() {
        command.to_owned()
    } else {
        format!("{command} -- {options}")
    }
}
