//! Snapshot of a run that goes on, at the end of each row.

use throng_bench_measure::{Histograms, Sample, Tally};
use throng_bench_plan::Scenario;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// Connections are being opened.
    Ramp,
    /// All connections stand; no figure counts yet.
    WarmUp,
    /// Figures are being taken.
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

/// Observer of a run that goes on.
pub trait Observer {
    /// Takes a row that has ended, about once a second.
    fn on_row(&mut self, snapshot: &Snapshot<'_>);
}

impl<F: FnMut(&Snapshot<'_>)> Observer for F {
    fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        self(snapshot);
    }
}
