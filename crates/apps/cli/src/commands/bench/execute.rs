//! Run of a scenario: here or on agents, shown while it goes on, with its results and failures.
//!
//! Shown is a screen on a terminal, one line a second elsewhere, nothing with --json; and a page
//! and statsd where they are asked for.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use throng_bench_fleet::{Finished, FleetError, run_observed, run_on_agents};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::{Scenario, StatsdExport, check};
use throng_bench_report::Snapshot;
use throng_bench_report::live::{
    LiveHistory, LivePage, RunningStats, Screen, Statsd, progress_line,
};
use throng_bench_worker::PrepareError;
use throng_doctor::{Role, explain_errno};
use throng_sys::errno;

use super::args::Common;
use crate::console;
use crate::exit::{Exit, Failure, Result};

pub(super) fn execute(
    mut scenario: Scenario,
    common: &Common,
    subscribers: bool,
    notes: Vec<String>,
) -> Result {
    scenario
        .checks
        .extend(common.results.checks.iter().cloned());
    scenario.grace_us = common.generator.grace.unwrap_or(scenario.grace_us);
    scenario.tls = common.server.trust.of_run()?;
    let options = common.options(subscribers, notes)?;
    // Before the run: an hour of load must not end with a folder that cannot be written.
    if let Some(folder) = &common.results.out {
        make_folder(folder)?;
    }
    let mut show = Show::new(&scenario, common)?;
    let mut observer = |snapshot: &Snapshot<'_>| show.on_row(snapshot);
    let finished = match (&common.generator.agents[..], &common.generator.agents_token) {
        ([], _) | (_, None) => run_observed(&scenario, &options, &mut observer).map_err(cannot_run),
        (agents, Some(token)) => {
            run_on_agents(&scenario, agents, token, &options, &mut observer).map_err(no_agents)
        }
    };
    // The screen goes before the summary or the error comes.
    drop(show);
    conclude(&finished?, common)
}

/// Prints and writes the results, and chooses the exit code.
fn conclude(finished: &Finished, common: &Common) -> Result {
    let results = &finished.results;
    if let Some(folder) = &common.results.out {
        write_files(folder, finished)?;
    }
    if common.results.json {
        let text = serde_json::to_string(results).map_err(|error| cannot_write(&error))?;
        console::print(text + "\n")?;
    } else {
        console::print(throng_bench_report::summary(results))?;
        if let Some(folder) = &common.results.out {
            let report = folder.join("report.html");
            console::print(format!("results      {}\n", report.display()))?;
        }
    }
    for line in limits_hit(finished) {
        console::note(&line);
    }
    Ok(Exit::Bench(finished.exit()))
}

fn cannot_write(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot write results: {error}"))
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let failure = format!("cannot make the folder {}: {error}", folder.display());
        Failure::failed(failure)
    })
}

fn write_files(folder: &Path, finished: &Finished) -> Result<()> {
    let files = throng_bench_report::files(&finished.results, finished.log())
        .map_err(|error| cannot_write(&error))?;
    for file in files {
        let path = folder.join(file.name);
        std::fs::write(&path, file.bytes).map_err(|error| {
            let failure = format!("cannot write {}: {error}", path.display());
            Failure::failed(failure)
                .advise("make room there, or name another folder: --out DIR")
                .advise("--json prints the results instead")
        })?;
    }
    Ok(())
}

/// Explains the limits that connects ran into, as the doctor does.
fn limits_hit(finished: &Finished) -> Vec<String> {
    let failures = finished.results.totals.counters.connect_failures();
    if failures.is_empty() {
        return Vec::new();
    }
    let clients = finished.results.scenario.clients;
    let plan = throng_doctor::Plan::new(Role::Loadgen, Some(clients));
    let report = throng_doctor::assess(&throng_doctor::Machine::read(Path::new("/")), &plan);
    failures
        .into_iter()
        .filter_map(|(reason, count)| {
            let number = match reason {
                ConnectFailure::AddressNotAvailable => errno::EADDRNOTAVAIL,
                ConnectFailure::AddressInUse => errno::EADDRINUSE,
                ConnectFailure::ProcessDescriptors => errno::EMFILE,
                ConnectFailure::SystemDescriptors => errno::ENFILE,
                ConnectFailure::KernelMemory => errno::ENOBUFS,
                ConnectFailure::ConnectTimeout => errno::ETIMEDOUT,
                _ => return None,
            };
            let explanation = explain_errno(number)?;
            Some(format!(
                "{count} connects failed: {}",
                explanation.on(&report)
            ))
        })
        .collect()
}

fn no_agents(error: FleetError) -> Failure {
    Failure::unreachable(error.to_string())
        .advise("each machine runs `throng bench agent --listen ADDR --token TOKEN`")
}

fn cannot_run(error: PrepareError) -> Failure {
    let exit = match &error {
        PrepareError::Limit { .. } | PrepareError::System { .. } => {
            Exit::Bench(check::BenchExit::Preflight)
        }
        PrepareError::Resolve { .. } => Exit::Unreachable,
        _ => Exit::Usage,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        PrepareError::Limit { .. } => {
            failure.advise("`throng doctor --role loadgen` says what this machine can hold")
        }
        _ => failure,
    }
}

#[derive(Default)]
struct Show {
    lines: bool,
    screen: Option<Screen>,
    stats: Option<RunningStats>,
    page: Option<LivePage>,
    statsd: Option<Statsd>,
}

impl Show {
    fn new(scenario: &Scenario, common: &Common) -> Result<Self> {
        let page = { common.progress.web }
            .map(|address| listen(address, beside(common.results.out.as_deref())))
            .transpose()?;
        let export = match &common.progress.statsd {
            Some(to) => Some(export(to)?),
            None => scenario.statsd.clone(),
        };
        let statsd = export.as_ref().map(statsd).transpose()?;
        let mut show = Self {
            page,
            statsd,
            ..Self::default()
        };
        if common.results.json {
            return Ok(show);
        }
        if let Some(page) = &show.page {
            console::note(&format!("live page: http://{}/", page.address()));
        }
        if common.progress.running_stats {
            show.stats = Some(RunningStats::default());
        } else if std::io::stderr().is_terminal() && !common.progress.plain && is_able() {
            show.screen = Screen::open().ok();
        }
        if show.screen.is_none() && show.stats.is_none() {
            show.lines = true;
        }
        Ok(show)
    }

    fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        if let Some(screen) = &mut self.screen {
            screen.on_row(snapshot);
        }
        if self.lines {
            console::note(&progress_line(snapshot));
        }
        if let Some(block) = self.stats.as_mut().and_then(|stats| stats.block(snapshot)) {
            console::note(&block);
        }
        if let Some(page) = &mut self.page {
            page.on_row(snapshot);
        }
        if let Some(statsd) = &mut self.statsd {
            statsd.on_row(snapshot);
        }
    }
}

/// Returns true if the terminal has a cursor; others get lines.
fn is_able() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Folder of finished runs: beside the folder of this one, or as in the examples.
fn beside(out: Option<&Path>) -> PathBuf {
    match out.and_then(Path::parent) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("results"),
    }
}

/// Serves the live page, which lists the finished runs of a folder.
pub(super) fn listen(address: SocketAddr, finished: PathBuf) -> Result<LivePage> {
    LivePage::listen(address, LiveHistory::new(finished)).map_err(|error| {
        let failure = format!("cannot serve the live page at {address}: {error}");
        Failure::new(Exit::Start, failure)
    })
}

fn export(to: &str) -> Result<StatsdExport> {
    let wrong = || Failure::usage(format!("--statsd `{to}`: write HOST:PORT"));
    let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
    Ok(StatsdExport {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().map_err(|_| wrong())?,
        ..StatsdExport::default()
    })
}

fn statsd(export: &StatsdExport) -> Result<Statsd> {
    Statsd::new(export).map_err(|error| {
        let to = format!("{}:{}", export.host, export.port);
        let failure = format!("cannot send statsd lines to {to}: {error}");
        Failure::unreachable(failure)
    })
}
