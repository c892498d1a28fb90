//! Lines of text for logs and pipes: one a second, or a block every five.

use std::fmt::Write as _;

use throng_types::units::{format_us, grouped};

use crate::Snapshot;
use crate::text::written;

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
