//! Figures of a run, and the forms in which they are reported: a file with all, and a table.

mod markdown;
mod metric;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use metric::{Metric, Samples};

use crate::args::Args;
use crate::client::PAYLOAD_BYTES;
use crate::machine::Machine;
use crate::peers::Field;
use crate::scenario::Scale;
use crate::suite::Suite;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    command: String,
    suite: Suite,
    rounds: u32,
    payload_bytes: usize,
    scale: Scale,
    rows: Vec<Row>,
    /// Peers that could not be had, and why.
    left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    key: &'static str,
    title: String,
    command: String,
    samples: BTreeMap<Metric, Vec<f64>>,
    /// Measurements that failed, each with the reason.
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn new(machine: Machine, args: &Args, scale: Scale, field: &Field) -> Self {
        let rows = field.peers.iter().map(|peer| Row {
            key: peer.key,
            title: peer.title.clone(),
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
