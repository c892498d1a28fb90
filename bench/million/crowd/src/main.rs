//! `crowd`: what runs inside the virtual machine of `bench/million/run` beside the server.
//!
//! `crowd drive` starts the server and several `crowd hold`, publishes, samples memory and writes
//! the results. `crowd hold` opens its share of the connections and counts what each of them gets.
//!
//! It stands outside the workspace and uses none of its crates on purpose: the million is counted
//! by code that shares no fault with the server, its protocols or the load generator.

mod conn;
mod drive;
mod hold;
mod plan;
mod publish;
mod report;
mod sample;
mod server;
mod settings;
mod tally;
mod tls;

use std::process::ExitCode;

use settings::Args;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let result = Args::read(words).and_then(|args| match command.as_str() {
        "drive" => drive::run(&args),
        "hold" => hold::run(&args).map(|()| true),
        _ => Err("usage: crowd drive|hold --NAME VALUE ...".to_owned()),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(10),
        Err(error) => {
            eprintln!("crowd {command}: {error}");
            ExitCode::FAILURE
        }
    }
}
