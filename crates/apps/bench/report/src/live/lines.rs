//! One line a second, for logs and pipes.

use std::fmt::Write as _;

use crate::Snapshot;
use throng_types::units::format_us;
use throng_types::units::grouped;

/// Makes the lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines;

impl Lines {
    /// The line of a row: only what there is to say.
    #[must_use]
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
        let per_s = |count: u64| {
            let rate = (count * 1000).checked_div(sample.length_ms).unwrap_or(0);
            grouped(rate)
        };
        if sample.published > 0 {
            write!(out, ", {}/s published", per_s(sample.published))?;
        }
        if sample.received > 0 {
            write!(out, ", {}/s received", per_s(sample.received))?;
        }
        if let Some([p50, _, p99, _, max]) = sample.latency_us {
            write!(
                out,
                ", p50 {} p99 {} max {}",
                format_us(p50 as f64),
                format_us(p99 as f64),
                format_us(max as f64)
            )?;
        }
        Ok(())
    }
}

/// How often MigratoryData's benchmark prints its block, in seconds.
const BLOCK_EVERY_MS: u64 = 5_000;

/// MigratoryData's running statistics, every five seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningStats {
    printed_ms: u64,
    counted: u64,
}

impl RunningStats {
    /// The block, if it is time for one.
    pub fn block(&mut self, snapshot: &Snapshot<'_>) -> Option<String> {
        let since_ms = snapshot.at_ms.saturating_sub(self.printed_ms);
        if since_ms < BLOCK_EVERY_MS {
            return None;
        }
        let running = snapshot.running.copied().unwrap_or_default();
        let new = running.count().saturating_sub(self.counted);
        let per_s = new as f64 * 1000.0 / since_ms as f64;
        self.printed_ms = snapshot.at_ms;
        self.counted = running.count();
        let mut out = String::new();
        running.write_lines(snapshot.at_ms / 1000, per_s, &mut out);
        Some(out)
    }
}
