//! `throng bench`: load a server, count what it does, and keep the figures.
//!
//! Owns: the command lines of the load generator, its exit codes, where results go. The load itself
//! is a library's.

mod agent;
mod common;
mod execute;
mod load;
mod publish;
mod report;
mod scenario;
mod show;
mod subscribe;

use clap::Subcommand;

use crate::failure::Result;

/// Load a server with connections and messages, and measure what it does
///
/// Works against any server that speaks WebSocket, event streams or HTTP. A run that the generator
/// could not keep up with is marked invalid and ends with 12; a failed --check ends with 10, one
/// without data with 11.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Box<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sub(subscribe::Args),
    Pub(publish::Args),
    Run(scenario::Args),
    Tcpkali(scenario::TcpkaliArgs),
    Agent(agent::Args),
    Report(report::Args),
}

pub(crate) fn run(args: Args) -> Result {
    match *args.command {
        Command::Sub(args) => subscribe::run(args),
        Command::Pub(args) => publish::run(args),
        Command::Run(args) => scenario::run(args),
        Command::Tcpkali(args) => scenario::run_tcpkali(args),
        Command::Agent(args) => agent::run(args),
        Command::Report(args) => report::run(&args),
    }
}
