//! Counting of a run: deliveries, connections, latency, and the generator's own health.
//!
//! Owns: the counting. Never: reads a clock or a socket, prints. Everything here merges: a worker
//! owns its numbers without a lock, and what is shown is their sum. Percentiles are never averaged;
//! histograms are added up.

/// Adds fields of one struct to those of another.
macro_rules! add_fields {
    ($into:ident, $from:ident: $($field:ident)+) => {
        $($into.$field += $from.$field;)+
    };
}

mod counters;
mod generator;
mod latency;
mod running;
mod sequence;
mod tally;

pub use counters::{ConnectFailure, LostReason, RunCounters};
pub use generator::{GeneratorHealth, LAG_SHARE_MAX, RunVerdict};
pub use latency::{Latency, LatencySummary, LogWriter, PERCENTILES};
pub use running::RunningSummary;
pub use sequence::{DeliveryCounts, SequenceOutcome, TRACKS_MAX, Tracker, Tracks};
pub use tally::{Histograms, Sums, Tally};
pub use tally::{Sample, ServerSample};
