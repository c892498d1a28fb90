//! `throng serve`: reads the configuration, starts the server, says where it is, and ends it on a
//! signal.

mod banner;
mod logging;
mod notify;
mod reload;
mod stop;
mod upgrade;

use std::path::Path;

use throng_config::{Config, LogFormat};
use throng_doctor::{Machine, Plan, Report, Role, assess};
use throng_server::Capacity;

use crate::commands::config::warn;
use crate::console::{self, Paint};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::load::{self, ConfigFlag};
use crate::version::VERSION;

/// Start the server
///
/// Without a configuration it listens on this machine alone, and everyone on it may do everything.
/// SIGTERM or Ctrl-C lets clients leave first; a second one ends it at once. SIGHUP reads the
/// configuration again, as `throng reload` does: connections stay, what is wrong changes nothing,
/// and the log says what needs a restart. SIGUSR2 starts the binary anew and hands over to it, as
/// `throng upgrade` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFlag,
    /// Address for clients; may be repeated [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Address of the server API, the metrics and the dashboard [default: 127.0.0.1:8001]
    #[arg(long, value_name = "ADDR")]
    api: Option<String>,
    /// How many shards [default: one per core]
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// The least severe lines that are logged: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// The form of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Any other option by its path, such as channel.history_size=100; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = load::assignment)]
    set: Vec<(String, String)>,
    /// Take over from the server that has the other end of standard input
    #[arg(long, hide = true)]
    take_over: bool,
}

impl Args {
    /// As the loader takes them. What is wrong with a value is the loader's to say.
    fn flags(&self) -> Vec<(String, String)> {
        let listen = self.listen.iter().map(|value| ("listen.client", value));
        let single = [
            ("listen.api", &self.api),
            ("engine.shards", &self.shards),
            ("log.level", &self.log_level),
            ("log.format", &self.log_format),
        ];
        let single = single
            .into_iter()
            .filter_map(|(path, value)| Some((path, value.as_ref()?)));
        let own = listen
            .chain(single)
            .map(|(path, value)| (path.to_owned(), value.clone()));
        own.chain(self.set.iter().cloned()).collect()
    }
}

/// Serves until a signal.
pub(crate) fn run(args: &Args) -> Result {
    throng_sys::memory::tune_allocator();
    // First of all, because it would end a process that is about to serve.
    let calls = stop::Calls::catch()?;
    let mut upgrade = upgrade::Upgrade::prepare()?;
    let predecessor = args.take_over.then(upgrade::greet).transpose()?;
    let loaded = load::complete(args.config.config.as_deref(), args.flags())?;
    let config = loaded.config;
    let level = logging::start(&config.log);
    let mut warnings = loaded.warnings;
    if let Err(error) = throng_sys::limits::raise_nofile() {
        warnings.push(format!("the descriptor limit could not be raised: {error}"));
    }
    calls.catch_ends()?;
    let report = diagnose(&config);
    let options = throng_server::Options {
        config: std::sync::Arc::new(config.clone()),
        version: VERSION,
        capacity: Some(capacity(&report)),
        ask_reload: Some(calls.ask_reload()),
    };
    let handle = match predecessor {
        None => throng_server::start(&options),
        Some(predecessor) => throng_server::take_over(&options, predecessor),
    }
    .map_err(|error| Failure::new(Exit::Start, format!("cannot start: {error}")))?;
    upgrade.listen(handle.api_address());
    notify::ready();
    let facts = banner::Facts {
        config: &config,
        clients: handle.client_addresses(),
        api: handle.api_address(),
        grip: handle.own_addresses(),
        report: &report,
    };
    match config.log.format {
        LogFormat::Text => {
            // Nobody has to read it for the server to serve.
            let _ = console::print(banner::text(&facts, Paint::stdout()));
            warn(&warnings);
        }
        LogFormat::Json => banner::log(&facts, &warnings),
    }
    let path = args.config.config.clone();
    let current = reload::Current::new(path, args.flags(), config, level);
    stop::run(calls, handle, current, &mut upgrade)
}

/// For the dashboard.
fn capacity(report: &Report) -> Capacity {
    Capacity {
        holds_connections: report.holds_connections,
        binds_first: report.binds_first,
    }
}

/// What this process may hold, after its own limit was raised.
fn diagnose(config: &Config) -> Report {
    let wanted = match config.engine.connections_max {
        0 => None,
        most => Some(u64::from(most)),
    };
    assess(
        &Machine::read(Path::new("/")),
        &Plan::new(Role::Server, wanted),
    )
}
