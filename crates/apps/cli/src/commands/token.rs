//! `throng token`: make tokens for clients, and find out why one is not accepted.

mod check;
mod clock;
mod create;

use clap::Subcommand;

use crate::failure::Result;

/// Make tokens for clients, and check them
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(create::Args),
    Check(check::Args),
}

/// Does what was asked.
pub(crate) fn run(args: Args) -> Result {
    match args.action {
        Action::Create(args) => create::run(&args),
        Action::Check(args) => check::run(&args),
    }
}
