//! Run from a scenario to its results: on this machine, or on several (`fleet`, with an `agent` on
//! each).
//!
//! Owns: the threads of a run, its course (ramp, warm-up, hold, drain), one row of figures a
//! second, the search for a rate, the observation of the server, and the agents on other machines:
//! their protocol and both of its sides (`agents`).
//!
//! Never: prints, or writes a file; a `throng_bench_report::Observer` sees the run while it goes
//! on. Nothing here uses a hub, a session or a server of ours: the generator shares no code with
//! the server except the wire formats and the reactor.
//!
//! ```no_run
//! use throng_bench_plan::{Dialect, Workload, Scenario, Target, ClientTransport};
//! use throng_bench_fleet::{RunOptions, run_scenario};
//!
//! let target = Target::parse("ws://127.0.0.1:8000/ws?channel={channel:url}")?;
//! let transport = ClientTransport::websocket(Dialect::Plain);
//! let mut scenario = Scenario::new(Workload::Hold, vec![target], transport);
//! scenario.channels = vec!["group-{n%10}".into()];
//! scenario.set_clients(1000, 500.0);
//! let finished = run_scenario(&scenario, &RunOptions::default())?;
//! assert_eq!(finished.results.totals.counters.alive(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod agents;
mod collect;
mod drive;
mod fleet;
mod local;
mod server;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use throng_bench_measure::{LAG_SHARE_MAX, LogWriter, RunVerdict};
use throng_bench_plan::Target;
use throng_bench_plan::check::{BenchExit, Unit};
use throng_bench_report::Results;

pub use self::agent::{AGENT_PORT, AgentOptions, serve_agent};
pub use self::fleet::{FleetError, run_on_agents};
pub use self::local::{run_observed, run_scenario};
pub use self::server::WatchServer;
pub use self::wire::{AgentTls, ControllerTls, TlsError};

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub title: Option<String>,
    pub command: Vec<String>,
    /// Number of threads that open connections; by default at most that of processors.
    pub threads: Option<usize>,
    /// True to open the scenario's clients; publishing alone needs them only to know the channels.
    pub subscribers: bool,
    pub watch: WatchServer,
    pub metrics: Option<Target>,
    /// True to keep mean and spread of all latencies, for MigratoryData's lines.
    pub running: bool,
    /// Certificates of agents to accept; none speaks to them without TLS.
    pub agents_tls: Option<ControllerTls>,
    /// Largest lag of the generator, as a share of the measured 99th percentile: 0.1 is a tenth.
    pub lag_share_max: f64,
    /// Sentences that a reader of the report must know.
    pub notes: Vec<String>,
    /// Flag that ends the run early; the results are written all the same.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            title: None,
            command: Vec::new(),
            threads: None,
            subscribers: true,
            watch: WatchServer::Auto,
            metrics: None,
            running: false,
            agents_tls: None,
            lag_share_max: LAG_SHARE_MAX,
            notes: Vec::new(),
            stop: Arc::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub results: Results,
    log: Arc<LogWriter>,
    pub interrupted: bool,
}

impl Finished {
    /// Histograms of all intervals, as the log that HdrHistogram's own tools read.
    pub fn log(&self) -> &LogWriter {
        &self.log
    }

    pub fn exit(&self) -> BenchExit {
        if self.interrupted {
            return BenchExit::Interrupted;
        }
        let counters = &self.results.totals.counters;
        let nothing = counters.attempted > 0 && counters.upgraded == 0;
        let unheard = counters.published > 0 && counters.publish_failed >= counters.published;
        if nothing || unheard {
            return BenchExit::Error;
        }
        let outcomes: Vec<_> = self
            .results
            .checks
            .iter()
            .map(|check| check.outcome)
            .collect();
        BenchExit::of_run(&outcomes, self.counts())
    }

    /// Returns true if the figures count that the run is for. Where a generator was late and
    /// nothing worse, those that are no times do.
    fn counts(&self) -> bool {
        let Results {
            verdict,
            checks,
            scenario,
            totals,
            ..
        } = &self.results;
        let search = scenario.publish.as_ref().and_then(|it| it.until.as_ref());
        let asked = checks.iter().map(|judged| &judged.check);
        let mut asked = asked.chain(search.map(|search| &search.check));
        let for_times = match asked.next() {
            None => totals.delivery.is_some(),
            Some(first) => std::iter::once(first)
                .chain(asked)
                .any(|check| check.metric().unit() == Unit::Time),
        };
        match verdict {
            RunVerdict::Valid => true,
            RunVerdict::Invalid { latency_alone, .. } => *latency_alone && !for_times,
        }
    }
}

#[cfg(test)]
mod tests {
    use throng_bench_measure::Latency;
    use throng_bench_plan::{ClientTransport, Dialect, Scenario, Workload};

    use super::*;

    #[test]
    fn a_late_generator_spoils_times_alone() {
        for (checks, delivers, latency_alone, exit) in [
            (&[][..], false, true, BenchExit::Ok),
            (&[], true, true, BenchExit::GeneratorSaturated),
            (&[], false, false, BenchExit::GeneratorSaturated),
            (&["attempted>=0"], true, true, BenchExit::Ok),
            (
                &["attempted>=0"],
                true,
                false,
                BenchExit::GeneratorSaturated,
            ),
            (
                &["attempted>=0", "max<1s"],
                true,
                true,
                BenchExit::GeneratorSaturated,
            ),
            (&["max<1us"], true, true, BenchExit::CheckFailed),
            (&["connect_max<1s"], true, true, BenchExit::CheckNoData),
        ] {
            let target = Target::parse("ws://127.0.0.1:1/").unwrap();
            let transport = ClientTransport::websocket(Dialect::Plain);
            let mut scenario = Scenario::new(Workload::Hold, vec![target], transport);
            scenario.checks = checks.iter().map(|check| check.parse().unwrap()).collect();
            let mut results = Results::empty(&scenario);
            let mut delivery = Latency::default();
            delivery.record_us(1000);
            results.totals.delivery = delivery.summary().filter(|_| delivers);
            results.totals.counters.attempted = 1;
            results.totals.counters.upgraded = 1;
            results.judge();
            results.verdict = RunVerdict::Invalid {
                reasons: Vec::new(),
                latency_alone,
            };
            let log = Arc::new(LogWriter::new(0));
            let finished = Finished {
                results,
                log,
                interrupted: false,
            };
            assert_eq!(finished.exit(), exit, "{checks:?} {latency_alone}");
        }
    }
}
