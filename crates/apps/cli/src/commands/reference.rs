//! `throng reference`: pages of the manual that are made from the code.

use clap::ValueEnum;

use crate::console;
use crate::exit::{self, Exit};
use crate::failure::Result;

/// Print a page of the manual that is made from the code
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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

/// Prints the chosen page.
pub(crate) fn run(args: &Args) -> Result {
    console::print(match args.page {
        Page::Config => throng_config::reference_text(),
        Page::ExitCodes => exit::reference_text(),
    })?;
    Ok(Exit::Good)
}
