//! Project automation, in Rust so that it runs wherever the project builds: `cargo xtask help`.

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

const HELP: &str = "\
Usage: cargo xtask COMMAND

  ci               Installs the programs that checks use, then runs everything that must pass before
                   a commit is pushed; stops at the first failure
  test             Installs the programs that tests use, then runs every test
  counts           Counts each operation's instructions and allocations, against recorded numbers
  counts --update  Records today's numbers
  tidy             Checks what the compiler cannot: layers, circles, purity, sizes, words
  tidy --update    Writes today's numbers into the ratchet, and the clippy files of pure crates
  docs             Writes the pages that are made from the code, and builds the site from all pages
  docs --pages     Writes the pages alone
  dist             Makes what a release consists of, below target/packages; `dist --help` has more
  help             Prints this
";

/// The command was not understood.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["ci"] => ci::ci(),
        ["test"] => ci::test(),
        ["counts"] => ci::counts(),
        ["counts", "--update"] => ci::record_counts(),
        ["tidy"] => tidy::check(),
        ["tidy", "--update"] => done(tidy::update()),
        ["docs"] => done(docs::write().and_then(|()| site::build())),
        ["docs", "--pages"] => done(docs::write()),
        ["dist", options @ ..] => dist::run(options),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(true)
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(USAGE_ERROR);
        }
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
