//! Lines of text for logs and pipes: one a second, or a block every five.

use std::fmt::Write as _;

use throng_types::units::{format_us, grouped};

use crate::Snapshot;

/// Writer of one line a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgressLines;

impl ProgressLines {
    /// Makes the line of a row, without figures that are zero.
    pub fn line(self, snapshot: &Snapshot<'_>) -> String {
        let sample = snapshot.sample;
        let mut out = format!(
            "{:>5} s  {:<7}  {} alive",
            snapshot.at_ms.div_ceil(1000),
            snapshot.phase.as_str(),
            grouped(sample.alive)
        );
        // Writing to a String does not fail.
        let _ = self.rest(snapshot, &mut out);
        out
    }

    fn rest(self, snapshot: &Snapshot<'_>, out: &mut String) -> std::fmt::Result {
        let sample = snapshot.sample;
        let pending = sample
            .attempted
            .saturating_sub(sample.upgraded + sample.failed);
        if pending > 0 {
            write!(out, ", {} on their way", grouped(pending))?;
        }
        if sample.failed > 0 {
            write!(out, ", {} failed", grouped(sample.failed))?;
        }
        if sample.lost > 0 {
            write!(out, ", {} lost", grouped(sample.lost))?;
        }
        let per_s = |count: u64| grouped(sample.per_s(count));
        if sample.published > 0 {
            write!(out, ", {}/s published", per_s(sample.published))?;
        }
        if sample.received > 0 {
            write!(out, ", {}/s received", per_s(sample.received))?;
        }
        if let Some([p50, _, p99, _, max]) = sample.latency_us {
            let [p50, p99, max] = [p50, p99, max].map(|us| format_us(us as f64));
            write!(out, ", p50 {p50} p99 {p99} max {max}")?;
        }
        Ok(())
    }
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
