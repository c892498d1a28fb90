//! `throng man`: the manual pages, made from the command line's own definition.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Write the manual pages into a folder: throng.1, throng-serve.1 and so on
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder; it is made if it is not there
    folder: PathBuf,
}

/// Writes a page for each command of the command line that `command` describes.
pub(crate) fn run(args: &Args, command: clap::Command) -> Result {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| {
            let what = format!(
                "cannot write manual pages into {}: {error}",
                folder.display()
            );
            Failure::new(Exit::Failed, what)
        })?;
    Ok(Exit::Good)
}
