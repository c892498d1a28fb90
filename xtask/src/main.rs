//! Project automation, in Rust so that it runs wherever the project builds: `cargo xtask help`.

mod api;
mod chart;
mod ci;
mod dist;
mod docs;
mod finding;
mod markdown;
mod paths;
mod plan;
mod site;
mod source;
mod tidy;
mod tree;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

/// Runs the automation of the project.
#[derive(clap::Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Installs the programs that checks use, then runs everything that must pass before a commit
    /// is pushed; stops at the first failure
    Ci,
    /// Installs the programs that tests use, then runs every test
    Test,
    /// Counts each operation's instructions and allocations, against recorded numbers
    Counts {
        /// Records the numbers of today
        #[arg(long)]
        update: bool,
    },
    /// Checks what the compiler cannot: layers, circles, purity, sizes, words
    Tidy,
    /// Writes the pages that are made from the code, and builds the site from all pages
    Docs {
        /// Writes the pages alone
        #[arg(long)]
        pages: bool,
    },
    /// Makes what a release consists of, below target/packages
    Dist(dist::Options),
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Ci => ci::ci(),
        Task::Test => ci::test(),
        Task::Counts { update: false } => ci::counts(),
        Task::Counts { update: true } => ci::record_counts(),
        Task::Tidy => tidy::check(),
        Task::Docs { pages: false } => done(docs::write().and_then(|()| site::build())),
        Task::Docs { pages: true } => done(docs::write()),
        Task::Dist(options) => dist::run(options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// For commands that either work or err.
fn done(outcome: Result<()>) -> Result<bool> {
    outcome.map(|()| true)
}
