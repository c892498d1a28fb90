//! Views of a run that goes on: lines, a screen, a page, statsd. Each takes snapshots; none of them
//! changes the run.

mod history;
mod lines;
mod page;
mod prometheus;
mod screen;
mod statsd;

pub use history::History;
pub use lines::{RunningStats, progress_line};
pub use page::Page;
pub use screen::Screen;
pub use statsd::Statsd;

use throng_bench_measure::{Histograms, Sample, Tally};
use throng_bench_plan::Scenario;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    Ramp,
    /// All connections stand; no figure counts yet.
    WarmUp,
    Hold,
    /// Nothing more is sent; deliveries on their way arrive.
    Drain,
}

impl RunPhase {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::WarmUp => "warm-up",
            Self::Hold => "hold",
            Self::Drain => "drain",
        }
    }
}

/// Run that goes on, at the end of a row.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    pub scenario: &'a Scenario,
    pub phase: RunPhase,
    pub at_ms: u64,
    pub sample: &'a Sample,
    pub before: Option<&'a Sample>,
    /// Figures so far; its histograms are those of the row.
    pub tally: &'a Tally,
    /// Histograms since the start; its lag is that of the row.
    pub total: &'a Histograms,
}

/// Callback that sees a run while it goes on: each row as it ends, about once a second.
pub type Observer<'a> = dyn FnMut(&Snapshot<'_>) + 'a;

#[cfg(test)]
mod testing {
    //! A snapshot to look at.

    use crate::{RunPhase, Snapshot};
    use throng_bench_measure::{ConnectFailure, Histograms, Sample, Tally};
    use throng_bench_plan::{Dialect, Scenario, Target, Transport, Workload};

    /// Lends a snapshot of a run with a bit of everything.
    pub(super) fn with_snapshot(look: impl FnOnce(&Snapshot<'_>)) {
        let mut tally = Tally::default();
        (0..3).for_each(|_| tally.counters.on_connect_failure(ConnectFailure::Refused));
        tally.interval.delivery.record_us(1500);
        let sample = Sample {
            at_ms: 7000,
            length_ms: 1000,
            alive: 90,
            received: 5000,
            latency_us: Sample::figures(&tally.interval.delivery),
            ..Sample::default()
        };
        with_figures(&sample, &tally, &tally.interval, look);
    }

    /// Lends a snapshot with these figures.
    pub(super) fn with_figures(
        sample: &Sample,
        tally: &Tally,
        total: &Histograms,
        look: impl FnOnce(&Snapshot<'_>),
    ) {
        let target = Target::parse("ws://127.0.0.1:1/").unwrap();
        let transport = Transport::websocket(Dialect::Plain);
        look(&Snapshot {
            scenario: &Scenario::new(Workload::Hold, vec![target], transport),
            phase: RunPhase::Hold,
            at_ms: 7000,
            sample,
            before: None,
            tally,
            total,
        });
    }
}
