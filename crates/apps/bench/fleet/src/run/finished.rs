//! What a run leaves behind.

use std::sync::Arc;

use throng_bench_measure::LogWriter;
use throng_bench_plan::check::Exit;
use throng_bench_report::Results;

/// A run that has come to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What was found.
    pub results: Results,
    /// All latencies, interval by interval.
    pub(super) log: Arc<LogWriter>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
}

impl Finished {
    /// The histograms of all intervals, as the log that HdrHistogram's own tools read.
    #[must_use]
    pub fn log(&self) -> &LogWriter {
        &self.log
    }

    /// How the process should end.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.interrupted {
            return Exit::Interrupted;
        }
        let counters = &self.results.totals.counters;
        let nothing = counters.attempted > 0 && counters.upgraded == 0;
        let unheard = counters.published > 0 && counters.publish_failed >= counters.published;
        if nothing || unheard {
            return Exit::Error;
        }
        let outcomes: Vec<_> = self
            .results
            .checks
            .iter()
            .map(|check| check.outcome)
            .collect();
        Exit::of_run(&outcomes, self.results.verdict.is_valid())
    }
}
