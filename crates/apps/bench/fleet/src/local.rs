//! Run on this machine: its threads, its course, its figures.
//!
//! Owns: the number of threads, and the check that this machine can hold the connections.

use std::sync::Arc;

use throng_bench_plan::Scenario;
use throng_bench_report::{Observer, RunPhase, Snapshot};
use throng_bench_worker::{Clock, PrepareError, RunShare, Script, WorkerOptions, Workers};

use super::collect::{Collector, MemoryReading, own_memory};
use super::drive::{RunCourse, RunDriver};
use super::server::ServerWatch;
use super::{Finished, RunOptions};

/// Connections that one thread opens and keeps before another one helps it.
const CLIENTS_PER_THREAD: u64 = 20_000;
/// Time from the start of the workers to the first connection.
const BEGIN_IN_US: u64 = 100_000;
/// Descriptors that the process needs besides its connections.
const OTHER_DESCRIPTORS: u64 = 64;

pub fn run_scenario(scenario: &Scenario, options: &RunOptions) -> Result<Finished, PrepareError> {
    run_observed(scenario, options, &mut |_: &Snapshot<'_>| {})
}

/// Runs a scenario on this machine, with an observer that sees a row each second.
pub fn run_observed(
    scenario: &Scenario,
    options: &RunOptions,
    observer: &mut Observer<'_>,
) -> Result<Finished, PrepareError> {
    let clock = Clock::start();
    let script = Arc::new(Script::new(scenario, RunShare::WHOLE)?);
    let course = RunCourse {
        clock,
        begin_us: None,
        settles: true,
        orders: None,
    };
    carry_out(&script, options, &course, observer)
}

/// Refuses more connections than this machine can hold.
pub(super) fn check_here(script: &Script, options: &RunOptions) -> Result<(), PrepareError> {
    let connections = if options.subscribers {
        script.connections()
    } else {
        0
    };
    let publish = script.scenario.publish.as_ref();
    check_descriptors(connections + publish.map_or(0, |publish| u64::from(publish.publishers)))
}

/// Runs a scenario's part on this machine, as `course` says.
pub(super) fn carry_out(
    script: &Arc<Script>,
    options: &RunOptions,
    course: &RunCourse<'_>,
    observer: &mut Observer<'_>,
) -> Result<Finished, PrepareError> {
    let scenario = &script.scenario;
    check_here(script, options)?;
    let targets: Vec<_> = script.addresses().collect();
    let mut watch = ServerWatch::new(&options.watch, options.metrics.clone(), &targets);
    let mut collector = Collector::new(scenario, options, watch.name());
    let clock = course.clock;
    // Finding the server's processes may have taken a while.
    let begin_us = course
        .begin_us
        .unwrap_or_else(|| clock.now_us() + BEGIN_IN_US);
    let openers = match options.subscribers {
        true => threads(options.threads, script.clients()),
        false => 0,
    };
    let running = options.running;
    let start = WorkerOptions {
        clock,
        begin_us,
        openers,
        running,
    };
    let mut local = Workers::start(script, &start)?;
    collector.before = MemoryReading {
        generator_bytes: own_memory(),
        server: watch.sample(),
        alive: 0,
    };
    let interrupted = RunDriver {
        scenario,
        local: &mut local,
        collector: &mut collector,
        watch: &mut watch,
        begin_us,
        stop: &options.stop,
        course,
        observer,
        next_row_us: begin_us + 1_000_000,
        next_ask_us: 0,
        phase: RunPhase::Ramp,
        draining: false,
    }
    .run();
    let last = local.finish();
    collector.take(last);
    let at_ms = clock.now_us().saturating_sub(begin_us) / 1000;
    let readings = (watch.sample(), own_memory());
    collector.observe_row(RunPhase::Drain, at_ms, readings, observer);
    Ok(collector.finish(interrupted))
}

fn threads(asked: Option<usize>, clients: u64) -> usize {
    let wanted = clients.div_ceil(CLIENTS_PER_THREAD) as usize;
    let most = asked.unwrap_or_else(|| wanted.min(throng_sys::cpu::count()));
    most.clamp(1, 64)
}

/// Raises the soft limit of descriptors as far as it may, and refuses what does not fit.
fn check_descriptors(connections: u64) -> Result<(), PrepareError> {
    let needed = connections + OTHER_DESCRIPTORS;
    let mut limit = throng_sys::limits::nofile().soft;
    if limit < needed {
        limit = throng_sys::limits::raise_nofile().map_or(limit, |raised| raised.soft);
    }
    if limit < needed {
        return Err(PrepareError::Limit {
            limit: "nofile",
            sentence: format!(
                "this process may open {limit} descriptors and the run needs {needed}; raise the \
                 hard limit (ulimit -Hn, LimitNOFILE)"
            ),
        });
    }
    Ok(())
}
