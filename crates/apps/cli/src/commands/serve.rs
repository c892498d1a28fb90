//! `throng serve`: reads the configuration, starts the server, says where it is, and ends it on a
//! signal.

mod banner;
mod calls;
mod upgrade;

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use throng_config::{Config, LogFormat};
use throng_doctor::{Machine, Plan, Report, Role, assess};
use throng_server::Capacity;

use crate::commands::config::warn;
use crate::console::{self, Paint};
use crate::exit::{Exit, Failure, Result};
use crate::load::{self, ConfigFlag};
use crate::version::VERSION;

/// Start the server
///
/// Without a configuration it listens only on this machine, and everyone on it may do everything.
/// SIGTERM or Ctrl-C lets clients leave first; a second one ends it at once. SIGHUP reads the
/// configuration again, as `throng reload` does: connections stay, a faulty configuration changes
/// nothing, and the log says what needs a restart. SIGUSR2 starts the binary anew and hands over to
/// it, as `throng upgrade` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFlag,
    /// Address for clients, or the name of a host, with a port; may be repeated [default:
    /// 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Address of the server API, the metrics and the dashboard [default: 127.0.0.1:8001]
    #[arg(long, value_name = "ADDR")]
    api: Option<String>,
    /// Number of shards [default: one per core]
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// Log level: error (least), warn, info, debug or trace (most) [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Format of log lines: text or json [default: text]
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
    /// Options in the form of the loader, which checks their values; but host names, which it does
    /// not know, are resolved here.
    fn flags(&self) -> Result<Vec<(String, String)>> {
        let mut flags = Vec::new();
        for value in &self.listen {
            flags.push(("--listen".to_owned(), address("--listen", value)?));
        }
        if let Some(value) = &self.api {
            flags.push(("--api".to_owned(), address("--api", value)?));
        }
        for (name, value) in [
            ("--shards", &self.shards),
            ("--log-level", &self.log_level),
            ("--log-format", &self.log_format),
        ] {
            flags.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        }
        flags.extend(self.set.iter().cloned());
        Ok(flags)
    }
}

/// An address to listen on, with the address of a host in the place of its name: the first one, of
/// IPv4 if there is one.
fn address(flag: &str, value: &str) -> Result<String> {
    let (scheme, place) = match value.strip_prefix("tls://") {
        Some(place) => ("tls://", place),
        None => ("", value),
    };
    let named = place.rsplit_once(':').filter(|(host, port)| {
        let letter = host.starts_with(|c: char| c.is_ascii_alphanumeric());
        letter && !host.contains(':') && port.parse::<u16>().is_ok()
    });
    let Some((host, _)) = named.filter(|(host, _)| host.parse::<IpAddr>().is_err()) else {
        return Ok(value.to_owned());
    };
    let cannot = |why: &dyn fmt::Display| {
        let what = format!("{flag} {value}: cannot find the address of {host}: {why}");
        Failure::new(Exit::Start, what).advise("an IP address needs no look-up: 127.0.0.1:8000")
    };
    let found = place.to_socket_addrs().map_err(|error| cannot(&error))?;
    let found = found.min_by_key(SocketAddr::is_ipv6);
    let found = found.ok_or_else(|| cannot(&"it has none"))?;
    Ok(format!("{scheme}{found}"))
}

pub(crate) fn run(args: &Args) -> Result {
    throng_sys::memory::tune_allocator();
    // First of all, because it would end a process that is about to serve.
    let calls = calls::Calls::catch()?;
    let mut upgrade = upgrade::Upgrade::prepare()?;
    let predecessor = args.take_over.then(upgrade::greet).transpose()?;
    let flags = args.flags()?;
    let loaded = load::complete(args.config.config.as_deref(), flags.clone())?;
    let config = loaded.config;
    let levels = calls::start_log(&config.log);
    let mut warnings = loaded.warnings;
    if let Err(error) = throng_sys::limits::raise_nofile() {
        warnings.push(format!("the descriptor limit could not be raised: {error}"));
    }
    calls.catch_ends()?;
    let machine = Machine::read(Path::new("/"));
    let report = diagnose(&config, &machine);
    let options = throng_server::Options {
        config: std::sync::Arc::new(config.clone()),
        version: VERSION,
        capacity: Some(capacity(&report)),
        memory_bytes: machine.memory_bytes(),
        ask_reload: Some(calls.ask_reload()),
    };
    let handle = match predecessor {
        None => throng_server::start(&options),
        Some(predecessor) => throng_server::take_over(&options, predecessor),
    }
    .map_err(|error| Failure::new(Exit::Start, format!("cannot start: {error}")))?;
    upgrade.listen(handle.api_address());
    upgrade::ready();
    let facts = banner::Facts {
        config: &config,
        clients: handle.client_addresses(),
        api: handle.api_address(),
        grip: handle.own_addresses(),
        report: &report,
        queued_bytes_max: throng_server::queued_bytes_max(&config, machine.memory_bytes()),
    };
    match config.log.format {
        LogFormat::Text => {
            // Nobody has to read it for the server to serve.
            let _ = console::print(banner::text(&facts, Paint::stdout()));
            warn(&warnings);
        }
        LogFormat::Json => banner::log(&facts, &warnings),
    }
    if !args.take_over {
        // A successor serves its clients by now, who would wait for it.
        throng_sys::memory::forget_start();
    }
    let current = calls::Current {
        path: args.config.config.clone(),
        flags,
        config,
        levels,
    };
    calls::run(calls, handle, current, &mut upgrade)
}

fn capacity(report: &Report) -> Capacity {
    Capacity {
        holds_connections: report.holds_connections,
        binds_first: report.binds_first,
    }
}

/// Assesses what this process may hold, after its own limit was raised.
fn diagnose(config: &Config, machine: &Machine) -> Report {
    let wanted = match config.engine.connections_max {
        0 => None,
        most => Some(u64::from(most)),
    };
    assess(machine, &Plan::new(Role::Server, wanted))
}
