//! Instructions and allocations of each operation, counted and compared with recorded numbers.
//!
//! `cargo xtask counts` builds this as users get it and runs it; with `--update` the
//! numbers that it finds are recorded. Counts, unlike times, are the same on a busy machine, so a
//! change that makes an operation dearer is seen before it lands. They are of the server alone: a
//! kernel that costs nothing stands below it, so system calls are not in them.
//!
//! Prices are checked with the same numbers: what a stranger can ask for costs about what
//! [`throng_session::Work`] says; see the module `prices`.
//!
//! Never: measures time.

mod asked;
mod callgrind;
mod kernel;
mod play;
mod prices;
mod record;
mod requests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use record::Differences;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["--update"] => {
            let found = callgrind::run(&folder())?;
            print!("{}", record::text(&found));
            record::write(&found)?;
            Ok(told_prices(&found))
        }
        ["play"] => {
            play::play(asked::ask)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => anyhow::bail!("usage: throng-counts [--update]"),
    }
}

fn folder() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../target");
    target.join("counts-run")
}

/// Prints which prices are wrong; fails if one is.
fn told_prices(found: &[(String, record::Counts)]) -> ExitCode {
    let wrong = prices::faults(found);
    for fault in &wrong {
        println!("{fault}");
    }
    ExitCode::from(u8::from(!wrong.is_empty()))
}

fn check() -> Result<ExitCode> {
    let found = callgrind::run(&folder())?;
    let Differences { faults, gains } = record::compare(&record::read()?, &found);
    for gain in &gains {
        println!("cheaper: {gain}");
    }
    for fault in &faults {
        println!("{fault}");
    }
    if !gains.is_empty() || !faults.is_empty() {
        println!("if that is as it should be: cargo xtask counts --update");
    }
    let prices = told_prices(&found);
    if !faults.is_empty() || prices != ExitCode::SUCCESS {
        return Ok(ExitCode::FAILURE);
    }
    println!("{} operations cost no more than is recorded", found.len());
    Ok(ExitCode::SUCCESS)
}
