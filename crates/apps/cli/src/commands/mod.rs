//! One module for each command: its arguments and what it does.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod probe;
pub(crate) mod publish;
pub(crate) mod pushpin_publish;
pub(crate) mod running;
pub(crate) mod serve;
pub(crate) mod subscribe;
pub(crate) mod token;
pub(crate) mod top;

use crate::args::{self, Command};
use crate::console;
use crate::exit::{Exit, Result};
use crate::version::long;

pub(crate) fn run(command: Command) -> Result {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Upgrade(args) => running::upgrade(&args),
        Command::Publish(args) => publish::run(args),
        Command::PushpinPublish(args) => pushpin_publish::run(&args),
        Command::Subscribe(args) => subscribe::run(args),
        Command::Tail(args) => subscribe::tail(args),
        Command::Top(args) => top::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Config(action) => config::run(action),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Token(action) => token::run(action),
        Command::Version => {
            console::print(format!("throng {}\n", long()))?;
            Ok(Exit::Good)
        }
        Command::Completions(args) => generate::completions(&args, &mut args::command()),
        Command::Reload(args) => running::reload(&args),
        Command::Health(args) => running::health(&args),
        Command::Reference(args) => generate::reference(&args),
        Command::Man(args) => generate::man(&args, args::command()),
    }
}
