//! Views of a run that goes on: lines, a screen, a page, statsd. Each takes snapshots; none of them
//! changes the run.

mod history;
mod page;
mod prometheus;
mod screen;
mod statsd;

use std::fmt::Write as _;

use throng_bench_measure::{Histograms, Sample, Tally};
use throng_bench_plan::Scenario;
use throng_types::coded_enum;
use throng_types::units::{format_us, grouped};

use crate::text::written;

pub use history::LiveHistory;
pub use page::{LivePage, METRICS_TYPE, read_get, whole};
pub use screen::Screen;
pub use statsd::Statsd;

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RunPhase {
        fn as_str;
        Ramp = "ramp";
        /// All connections stand; no figure counts yet.
        WarmUp = "warm-up";
        Hold = "hold";
        /// Nothing more is sent; deliveries on their way arrive.
        Drain = "drain";
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
    use throng_bench_plan::{ClientTransport, Dialect, Scenario, Target, Workload};

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

    pub(super) fn with_figures(
        sample: &Sample,
        tally: &Tally,
        total: &Histograms,
        look: impl FnOnce(&Snapshot<'_>),
    ) {
        let target = Target::parse("ws://127.0.0.1:1/").unwrap();
        let transport = ClientTransport::websocket(Dialect::Plain);
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

/// Makes the line of a row, without figures that are zero.
pub fn progress_line(snapshot: &Snapshot<'_>) -> String {
    written(|out| write_line(snapshot, out))
}

fn write_line(snapshot: &Snapshot<'_>, out: &mut String) -> std::fmt::Result {
    let sample = snapshot.sample;
    let (seconds, phase) = (snapshot.at_ms.div_ceil(1000), snapshot.phase.as_str());
    let alive = grouped(sample.alive);
    write!(out, "{seconds:>5} s  {phase:<7}  {alive} alive")?;
    let pending = sample
        .attempted
        .saturating_sub(sample.upgraded + sample.failed);
    for (count, what) in [
        (pending, "on their way"),
        (sample.failed, "failed"),
        (sample.lost, "lost"),
    ] {
        if count > 0 {
            write!(out, ", {} {what}", grouped(count))?;
        }
    }
    for (count, what) in [
        (sample.published, "published"),
        (sample.received, "received"),
    ] {
        if count > 0 {
            write!(out, ", {}/s {what}", grouped(sample.per_s(count)))?;
        }
    }
    if let Some([p50, _, p99, _, max]) = sample.latency_us {
        let [p50, p99, max] = [p50, p99, max].map(|us| format_us(us as f64));
        write!(out, ", p50 {p50} p99 {p99} max {max}")?;
    }
    Ok(())
}

/// Interval at which MigratoryData's benchmark prints its block, in ms.
const BLOCK_EVERY_MS: u64 = 5_000;

/// Writer of MigratoryData's running statistics, every five seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningStats {
    printed_ms: u64,
    counted: u64,
}

impl RunningStats {
    pub fn block(&mut self, snapshot: &Snapshot<'_>) -> Option<String> {
        let since_ms = snapshot.at_ms.saturating_sub(self.printed_ms);
        if since_ms < BLOCK_EVERY_MS {
            return None;
        }
        let running = snapshot.tally.running.unwrap_or_default();
        let new = running.count().saturating_sub(self.counted);
        let per_s = new as f64 * 1000.0 / since_ms as f64;
        self.printed_ms = snapshot.at_ms;
        self.counted = running.count();
        let mut out = String::new();
        running.write_lines(snapshot.at_ms / 1000, per_s, &mut out);
        Some(out)
    }
}
