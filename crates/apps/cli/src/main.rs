//! The `throng` binary: arguments in, text and an exit code out.
//!
//! Owns: the command line (`args`), one module for each command (`commands`), the exit codes
//! and how errors look (`exit`). Never: logic that another program could want; that is
//! in the crates below.

mod args;
mod commands;
mod console;
mod control;
mod exit;
mod http;
mod load;
mod values;
mod version;

use std::process::ExitCode;

use clap::error::ErrorKind;

use exit::Exit;

/// Static builds: shards allocate at the same time, and musl's allocator would make them wait for
/// each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and versions come as errors too. A reader that went away is no failure.
            let asked = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            let _ = error.print();
            let exit = match asked {
                true => Exit::Good,
                false if commands::pushpin_publish::is_asked_for() => Exit::Failed,
                false => Exit::Usage,
            };
            return exit.into();
        }
    };
    match commands::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console::report(&failure);
            failure.exit.into()
        }
    }
}
