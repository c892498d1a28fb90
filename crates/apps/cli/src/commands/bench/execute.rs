//! From a scenario to its results: runs it here or on agents, shows it, and keeps what was found.

use std::path::Path;

use throng_bench_fleet::{Finished, run_observed, run_on_agents};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::Scenario;
use throng_doctor::{Role, explain_errno};

use super::common::Common;
use super::faults::{cannot_run, no_agents};
use super::show::Show;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Runs a scenario that some command has made, shows it, and keeps what was found.
pub(super) fn execute(
    mut scenario: Scenario,
    common: &Common,
    subscribers: bool,
    notes: Vec<String>,
) -> Result {
    scenario.checks.extend(common.checks.iter().cloned());
    scenario.grace_us = common.grace.unwrap_or(scenario.grace_us);
    scenario.tls = common.trust()?;
    let options = common.options(subscribers, notes)?;
    // Before the run: an hour of load must not end with a folder that cannot be written.
    if let Some(folder) = &common.out {
        make_folder(folder)?;
    }
    let mut show = Show::new(&scenario, common)?;
    let finished = match (&common.agents[..], &common.agents_token) {
        ([], _) | (_, None) => run_observed(&scenario, &options, &mut show).map_err(cannot_run),
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

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("cannot make the folder {}: {error}", folder.display()),
        )
    })
}

fn write_files(folder: &Path, finished: &Finished) -> Result<()> {
    let files = throng_bench_report::files(&finished.results, finished.log())
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write results: {error}")))?;
    for file in files {
        let path = folder.join(file.name);
        std::fs::write(&path, file.bytes).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("cannot write {}: {error}", path.display()),
            )
            .advise("make room there, or name another folder: --out DIR")
            .advise("--json prints the results instead")
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
    let report = throng_doctor::assess(&throng_doctor::Machine::read(Path::new("/")), &plan);
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
