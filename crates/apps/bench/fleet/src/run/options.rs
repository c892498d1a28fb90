//! Options of a run besides its scenario, and its end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use throng_bench_measure::{GeneratorLimits, LogWriter};
use throng_bench_plan::Target;
use throng_bench_plan::check::BenchExit;
use throng_bench_report::Results;

use super::server::WatchServer;
use super::tls::ControllerTls;

/// Options of a run besides its scenario.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Title of the run; by default the scenario's name.
    pub title: Option<String>,
    /// Command line, for the manifest.
    pub command: Vec<String>,
    /// Number of threads that open connections; by default at most that of processors.
    pub threads: Option<usize>,
    /// True to open the scenario's clients; publishing alone needs them only to know the channels.
    pub subscribers: bool,
    /// Way to observe the server.
    pub watch: WatchServer,
    /// Metrics page of the server itself.
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
            lag_share_max: GeneratorLimits::default().lag_share_max,
            notes: Vec::new(),
            stop: Arc::default(),
        }
    }
}

/// Run that has come to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Figures, checks and notes of the run.
    pub results: Results,
    pub(super) log: Arc<LogWriter>,
    /// True if it was ended before its time.
    pub interrupted: bool,
}

impl Finished {
    /// Histograms of all intervals, as the log that HdrHistogram's own tools read.
    pub fn log(&self) -> &LogWriter {
        &self.log
    }

    /// Chooses the exit code of the process.
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
        BenchExit::of_run(&outcomes, self.results.verdict.is_valid())
    }
}
