//! `throng bench`: load a server, count what it does, and keep the figures.
//!
//! Owns: the command lines of the load generator, its exit codes, where results go. The load itself
//! is a library's.

mod agent;
mod load;
mod publish;
mod report;
mod scenario;
mod show;
mod subscribe;
mod tcpkali;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;
use signal_hook::consts::TERM_SIGNALS;
use throng_bench_fleet::{ControllerTls, FleetError, Watch, run_on_agents};
use throng_bench_fleet::{Finished, RunOptions};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::check::{self, Check};
use throng_bench_plan::{Problem, Scenario, Target};
use throng_bench_worker::PrepareError;
use throng_doctor::{Role, explain_errno};
use throng_types::units;

use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Load a server with connections and messages, and measure what it does
///
/// Works against any server that speaks WebSocket, event streams or HTTP. A run that the generator
/// could not keep up with is marked invalid and ends with 12; a failed --check ends with 10, one
/// without data with 11.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Box<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sub(subscribe::Args),
    Pub(publish::Args),
    Run(scenario::Args),
    Tcpkali(tcpkali::Args),
    Agent(agent::Args),
    Report(report::Args),
}

/// Does what was asked.
///
/// # Errors
/// Why it could not be done.
pub(crate) fn run(args: Args) -> Result {
    match *args.command {
        Command::Sub(args) => subscribe::run(args),
        Command::Pub(args) => publish::run(args),
        Command::Run(args) => scenario::run(args),
        Command::Tcpkali(args) => tcpkali::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Report(args) => report::run(&args),
    }
}

/// What every kind of run takes.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Write a folder of results: manifest, time series, histograms, report.html
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    out: Option<PathBuf>,
    /// A promise to keep, such as p99<50ms or lost==0; may be repeated
    #[arg(long = "check", value_name = "CHECK", help_heading = "Results")]
    checks: Vec<Check>,
    /// Print the results as one JSON object on standard output, and nothing while the run goes on
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// What the report is called
    #[arg(long, help_heading = "Results")]
    title: Option<String>,
    /// Print MigratoryData's running statistics every five seconds
    #[arg(long, help_heading = "Progress")]
    running_stats: bool,
    /// Print one line a second even on a terminal
    #[arg(long, help_heading = "Progress")]
    plain: bool,
    /// Serve a live page, and Prometheus metrics at /metrics, here
    #[arg(long, value_name = "ADDR", help_heading = "Progress")]
    web: Option<std::net::SocketAddr>,
    /// Send statsd lines here
    #[arg(long, value_name = "HOST:PORT", help_heading = "Progress")]
    statsd: Option<String>,
    /// How long to wait at the end, once nothing is published any more, for what is on its way; by
    /// default 10s
    #[arg(
        long,
        value_name = "TIME",
        value_parser = units::parse_duration_us,
        help_heading = "Generator"
    )]
    grace: Option<u64>,
    /// Threads that open connections
    #[arg(long, value_name = "N", help_heading = "Generator")]
    threads: Option<usize>,
    /// Have these machines make the load, each running `throng bench agent`: host1,host2:8092
    #[arg(
        long,
        value_name = "HOSTS",
        value_delimiter = ',',
        requires = "agents_token",
        help_heading = "Generator"
    )]
    agents: Vec<String>,
    /// What the agents were given as their token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "THRONG_AGENT_TOKEN",
        hide_env_values = true,
        help_heading = "Generator"
    )]
    agents_token: Option<String>,
    /// Speak TLS with the agents, and believe those with a certificate of these authorities: a PEM
    /// file
    #[arg(
        long,
        value_name = "FILE",
        requires = "agents",
        help_heading = "Generator"
    )]
    tls_ca: Option<PathBuf>,
    /// The server's process, if it is not found by its port; may be repeated
    #[arg(long, value_name = "PID", help_heading = "Server")]
    server_pid: Vec<u32>,
    /// The server's metrics page, for its own count of connections
    #[arg(long, value_name = "URL", value_parser = Target::parse, help_heading = "Server")]
    server_metrics: Option<Target>,
}

impl Common {
    fn options(&self, subscribers: bool, notes: Vec<String>) -> Result<RunOptions> {
        let stop = stop_flag()?;
        let authorities = self.tls_ca.as_deref();
        let agents_tls = authorities
            .map(ControllerTls::read)
            .transpose()
            .map_err(|error| Failure::usage(format!("--tls-ca: {error}")))?;
        Ok(RunOptions {
            agents_tls,
            title: self.title.clone(),
            command: std::env::args().collect(),
            threads: self.threads,
            subscribers,
            watch: if self.server_pid.is_empty() {
                Watch::Auto
            } else {
                Watch::Processes(self.server_pid.clone())
            },
            metrics: self.server_metrics.clone(),
            running: self.running_stats,
            notes,
            stop,
        })
    }
}

/// A flag that the first signal sets. The second one ends the process: the first one asked, and
/// somebody cannot wait.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let failed = |error| Failure::new(Exit::Failed, format!("cannot catch signals: {error}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        let code = check::Exit::Interrupted.code().into();
        signal_hook::flag::register_conditional_shutdown(*signal, code, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(*signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

/// Runs a scenario that some command has made, shows it, and keeps what was found.
fn execute(
    mut scenario: Scenario,
    common: &Common,
    subscribers: bool,
    notes: Vec<String>,
) -> Result {
    scenario.checks.extend(common.checks.iter().cloned());
    scenario.grace_us = common.grace.unwrap_or(scenario.grace_us);
    let options = common.options(subscribers, notes)?;
    // Before the run: an hour of load must not end with a folder that cannot be written.
    if let Some(folder) = &common.out {
        make_folder(folder)?;
    }
    let mut show = show::Show::new(&scenario, common, &options)?;
    let finished = match (&common.agents[..], &common.agents_token) {
        ([], _) | (_, None) => {
            throng_bench_fleet::run_observed(&scenario, &options, &mut show).map_err(cannot_run)
        }
        (agents, Some(token)) => {
            run_on_agents(&scenario, agents, token, &options, &mut show).map_err(no_agents)
        }
    };
    // The screen goes before the summary or the error comes.
    drop(show);
    conclude(&finished?, common)
}

/// Prints and writes what was found, and says how the process ends.
fn conclude(finished: &Finished, common: &Common) -> Result {
    let results = &finished.results;
    if let Some(folder) = &common.out {
        write_files(folder, finished)?;
    }
    if common.json {
        let text = serde_json::to_string(results).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write results: {error}"))
        })?;
        console::print(text + "\n")?;
    } else {
        console::print(throng_bench_report::summary(results))?;
        if let Some(folder) = &common.out {
            console::print(format!(
                "results      {}\n",
                folder.join("report.html").display()
            ))?;
        }
    }
    for line in limits_hit(finished) {
        console::note(&line);
    }
    Ok(Exit::Bench(finished.exit()))
}

fn make_folder(folder: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("cannot make the folder {}: {error}", folder.display()),
        )
    })
}

fn write_files(folder: &std::path::Path, finished: &Finished) -> Result<()> {
    let files = throng_bench_report::files(&finished.results, finished.log())
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write results: {error}")))?;
    for file in files {
        let path = folder.join(file.name);
        std::fs::write(&path, file.bytes).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("cannot write {}: {error}", path.display()),
            )
        })?;
    }
    Ok(())
}

/// What the doctor says to the limits that connects ran into.
fn limits_hit(finished: &Finished) -> Vec<String> {
    let failures = finished.results.totals.counters.connect_failures();
    if failures.is_empty() {
        return Vec::new();
    }
    let clients = finished.results.scenario.clients;
    let plan = throng_doctor::Plan::new(Role::Loadgen, Some(clients));
    let report = throng_doctor::assess(
        &throng_doctor::Machine::read(std::path::Path::new("/")),
        &plan,
    );
    failures
        .into_iter()
        .filter_map(|(reason, count)| {
            use throng_sys::errno;
            let number = match reason {
                ConnectFailure::AddressNotAvailable => errno::EADDRNOTAVAIL,
                ConnectFailure::AddressInUse => errno::EADDRINUSE,
                ConnectFailure::ProcessDescriptors => errno::EMFILE,
                ConnectFailure::SystemDescriptors => errno::ENFILE,
                ConnectFailure::KernelMemory => errno::ENOBUFS,
                ConnectFailure::ConnectTimeout => errno::ETIMEDOUT,
                _ => return None,
            };
            let explanation = explain_errno(number, Role::Loadgen)?;
            Some(format!(
                "{count} connects failed: {}",
                explanation.on(&report)
            ))
        })
        .collect()
}

fn no_agents(error: FleetError) -> Failure {
    Failure::new(Exit::Unreachable, error.to_string())
        .advise("each machine runs `throng bench agent --listen ADDR --token TOKEN`")
}

fn cannot_run(error: PrepareError) -> Failure {
    let exit = match &error {
        PrepareError::Limit { .. } | PrepareError::System { .. } => {
            Exit::Bench(check::Exit::Preflight)
        }
        PrepareError::Resolve { .. } => Exit::Unreachable,
        _ => Exit::Usage,
    };
    let limit = matches!(error, PrepareError::Limit { .. });
    let failure = Failure::new(exit, error.to_string());
    if limit {
        failure.advise("`throng doctor --role loadgen` says what this machine can hold")
    } else {
        failure
    }
}

/// Problems of a scenario, each with its line.
fn bad_scenario(what: &str, problems: Vec<Problem>) -> Failure {
    let mut problems = problems.into_iter().map(|problem| match problem.line {
        Some(line) => format!("line {line}: {}", problem.message),
        None => problem.message,
    });
    let first = problems.next().unwrap_or_else(|| "it is empty".to_owned());
    let failure = Failure::usage(format!("{what}: {first}"));
    problems.fold(failure, Failure::advise)
}
