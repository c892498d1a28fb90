//! `throng completions`, `man` and `reference`: texts that are made from the code.

use std::path::PathBuf;

use clap::ValueEnum;
use clap_complete::Shell;

use crate::console;
use crate::exit::{self, Exit, Failure, Result};

/// Print a script that completes throng's arguments in your shell
///
/// bash:  throng completions bash > ~/.local/share/bash-completion/completions/throng
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script for the command line that `command` describes.
pub(crate) fn completions(args: &CompletionsArgs, command: &mut clap::Command) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "throng", &mut script);
    console::print(script)?;
    Ok(Exit::Good)
}

/// Write the manual pages into a folder: throng.1, throng-serve.1 and so on
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; it is made if it is not there
    folder: PathBuf,
}

/// Writes a page for each command of the command line that `command` describes.
pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| {
            let place = folder.display();
            let what = format!("cannot write manual pages into {place}: {error}");
            Failure::failed(what)
        })?;
    Ok(Exit::Good)
}

/// Print a page of the manual that is made from the code
#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceArgs {
    /// Page of the manual
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    /// Every option, its default, its variable and its flag
    Config,
    /// Every exit code and its meaning
    ExitCodes,
}

pub(crate) fn reference(args: &ReferenceArgs) -> Result {
    console::print(match args.page {
        Page::Config => throng_config::reference_text(),
        Page::ExitCodes => exit::reference_text(),
    })?;
    Ok(Exit::Good)
}
