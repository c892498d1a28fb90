//! Throng and its peers side by side: one program, one machine, one table.
//!
//! It fetches the peers with ordinary package clients, starts each server on loopback with a
//! configuration that is fair to it, drives all of them with the same client, and prints what
//! they cost as a Markdown table, with the machine and the commands. Run it as
//! `cargo run --release -p throng-compare`; `--help` has the options, `scenario` what is measured.
//!
//! Owns: the order of a run. Never: judges a figure, or uses code of the server that it measures;
//! the client shares with it the wire formats alone.

mod args;
mod cache;
mod client;
mod machine;
mod origin;
mod peers;
mod results;
mod run;
mod scenario;
mod server;
mod suite;
mod tls;

use anyhow::{Context, Result, ensure};
use clap::Parser as _;

use crate::args::Args;
use crate::cache::Cache;
use crate::machine::Machine;
use crate::results::Report;
use crate::scenario::Scale;

fn main() -> Result<()> {
    let args = Args::parse();
    let scale = args.scale();
    let machine = Machine::read()?;
    demand_descriptors(&scale)?;

    let cache = Cache::open()?;
    let field = peers::prepare(&args, &cache)?;
    ensure!(!field.peers.is_empty(), "no server to measure");

    let mut report = Report::new(machine, &args, scale, &field);
    run::rounds(&args, &cache, &field, &mut report)?;
    print!("{}", report.markdown());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Raises the descriptor limit of this process, and so of the servers that it starts.
fn demand_descriptors(scale: &Scale) -> Result<()> {
    let limit = throng_sys::limits::raise_nofile().context("cannot raise the descriptor limit")?;
    let need = scale.connections_max() as u64 + client::DESCRIPTORS_BESIDE;
    ensure!(
        need <= limit.soft,
        "a process may open {} descriptors here (ulimit -Hn), and this needs {need}: \
         raise the limit, or use --quick",
        limit.soft
    );
    Ok(())
}
