//! A run that goes on, as it is shown at the end of each row.
//!
//! Owns: nothing; a snapshot borrows what the run has counted so far.

use throng_bench_measure::{Counters, DeliveryCounts, Latency, Running, Sample, Tally};
use throng_bench_plan::Scenario;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are being opened.
    Ramp,
    /// All stand; nothing counts yet.
    WarmUp,
    /// Figures count.
    Hold,
    /// Nothing more is sent; what is on its way arrives.
    Drain,
}

impl Phase {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::WarmUp => "warm-up",
            Self::Hold => "hold",
            Self::Drain => "drain",
        }
    }
}

/// A run that goes on, at the end of a row.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// What runs.
    pub scenario: &'a Scenario,
    /// Where it stands.
    pub phase: Phase,
    /// Since the start, in ms.
    pub at_ms: u64,
    /// The row.
    pub sample: &'a Sample,
    /// The row before.
    pub before: Option<&'a Sample>,
    /// Connections and publications so far.
    pub counters: &'a Counters,
    /// Deliveries so far.
    pub deliveries: &'a DeliveryCounts,
    /// Latencies of deliveries so far.
    pub delivery: &'a Latency,
    /// Times to be usable so far.
    pub connect: &'a Latency,
    /// Mean and spread of all latencies, where they are kept.
    pub running: Option<&'a Running>,
    /// Latencies of the row's deliveries.
    pub row_delivery: &'a Latency,
    /// Times to be usable of the row.
    pub row_connect: &'a Latency,
    /// The generator's lag in the row.
    pub row_lag: &'a Latency,
    /// Everything that is summed up so far.
    pub tally: &'a Tally,
}

/// Whoever wants to see a run while it goes on.
pub trait Observer {
    /// A row has ended; about once a second.
    fn on_row(&mut self, snapshot: &Snapshot<'_>);
}

impl<F: FnMut(&Snapshot<'_>)> Observer for F {
    fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        self(snapshot);
    }
}
