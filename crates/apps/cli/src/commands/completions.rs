//! `throng completions`: a script that lets a shell complete the command line.

use clap_complete::Shell;

use crate::console;
use crate::exit::Exit;
use crate::failure::Result;

/// Print a script that completes throng's arguments in your shell
///
/// bash:  throng completions bash > ~/.local/share/bash-completion/completions/throng
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script for the command line that `command` describes.
pub(crate) fn run(args: &Args, command: &mut clap::Command) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "throng", &mut script);
    console::print(script)?;
    Ok(Exit::Good)
}
