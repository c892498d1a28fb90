//! `crowd hold` opens its share of the connections of `bench/million/run` and counts what each of
//! them gets. `guest-crowd` starts several beside the server, publishes, and adds up the counts.
//!
//! It stands outside the workspace and uses none of its crates on purpose: the million is counted
//! by code that shares no fault with the server, its protocols or the load generator.

mod conn;
mod hold;
mod plan;
mod settings;
mod tally;
mod tls;

use std::process::ExitCode;

use settings::Args;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let result = match words.next().as_deref() {
        Some("hold") => Args::read(words).and_then(|args| hold::run(&args)),
        _ => Err("usage: crowd hold --NAME VALUE ...".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crowd: {error}");
            ExitCode::FAILURE
        }
    }
}
