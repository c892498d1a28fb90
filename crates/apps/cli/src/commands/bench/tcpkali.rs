//! `throng bench tcpkali`: the command line of TCPKali, carried out here.

use throng_bench_plan::import::{Imported, read_tcpkali};

use super::common::Common;
use super::execute::execute;
use crate::console;
use crate::failure::{Failure, Result};

/// Run a command line of TCPKali
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench tcpkali -- -c 250 --connect-rate 200 -T 10s --ws 127.0.0.1:8000/ws")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// What would follow `tcpkali`
    #[arg(last = true, required = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Runs it.
pub(super) fn run(args: Args) -> Result {
    let Imported { scenario, notes } = read_tcpkali(&args.arguments).map_err(Failure::usage)?;
    for note in &notes {
        console::note(&format!("note: {note}"));
    }
    execute(scenario, &args.common, true, notes)
}
