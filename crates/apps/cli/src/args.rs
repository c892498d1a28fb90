//! The command line as types. Each command declares its own arguments next to its code.

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    bench, config, doctor, generate, probe, publish, pushpin_publish, running, serve, subscribe,
    token, top,
};
use crate::version::{VERSION, long};

/// A realtime push server: publish once, and everybody who is connected, subscribed and allowed to
/// see it gets it.
#[derive(Debug, Parser)]
#[command(name = "throng", version = VERSION, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Upgrade(running::UpgradeArgs),
    Publish(publish::Args),
    Subscribe(subscribe::Args),
    Tail(subscribe::TailArgs),
    Top(top::Args),
    Probe(probe::Args),
    PushpinPublish(pushpin_publish::Args),
    Reload(running::ReloadArgs),
    Health(running::HealthArgs),
    /// Write, check or explain the configuration
    #[command(subcommand)]
    Config(config::Action),
    Doctor(doctor::Args),
    Bench(bench::Args),
    /// Make tokens for clients, and check them
    #[command(subcommand)]
    Token(token::Action),
    /// Print the version, its commit and what it speaks.
    Version,
    Completions(generate::CompletionsArgs),
    Reference(generate::ReferenceArgs),
    Man(generate::ManArgs),
}

const AFTER_HELP: &str = "\
Try it, with nothing configured:
  throng serve
  throng subscribe news            (in a second terminal)
  throng publish news hello        (in a third one)
The dashboard is at http://127.0.0.1:8001/. Then read docs/quick-start.md.

Exit codes: throng reference exit-codes";

/// The whole command line, for parsing and for completions.
pub(crate) fn command() -> clap::Command {
    Cli::command().long_version(long()).after_help(AFTER_HELP)
}

/// Reads the arguments of this process. Help that was asked for comes as an error too.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }
}
