//! Mean and spread of every value, and the lines that MigratoryData's benchmark prints.
//!
//! Owns: the running figures and their text. The confidence interval treats the values as
//! independent, which latencies are not; it is printed because people compare by it, and is never a
//! headline.

use std::fmt::Write as _;

use throng_types::units::grouped;

/// Running statistics over all values: no sampling, so the maximum is the true one.
///
/// The mean and the squared distances are updated value by value (Welford's method).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningSummary {
    count: u64,
    min: f64,
    max: f64,
    mean: f64,
    squares: f64,
}

impl RunningSummary {
    pub fn record(&mut self, ms: f64) {
        if self.count == 0 {
            (self.min, self.max) = (ms, ms);
        }
        self.count += 1;
        self.min = self.min.min(ms);
        self.max = self.max.max(ms);
        let delta = ms - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (ms - self.mean);
    }

    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.squares += other.squares + delta * delta * ours * theirs / (ours + theirs);
        self.mean += delta * theirs / (ours + theirs);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Mean in ms; none without data.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Standard deviation in ms, in its population form; none without data.
    pub fn stdev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// Appends the block that MigratoryData's client benchmark prints every five seconds.
    ///
    /// `uptime_s` since the start, `per_s` the frequency over the last interval.
    pub fn write_lines(&self, uptime_s: u64, per_s: f64, out: &mut String) {
        // Writing to a String does not fail.
        let _ = self.try_write_lines(uptime_s, per_s, out);
    }

    fn try_write_lines(&self, uptime_s: u64, per_s: f64, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Uptime: {} s", grouped(uptime_s))?;
        if let (Some(mean), Some(stdev)) = (self.mean(), self.stdev()) {
            writeln!(out, "Latency min: {} ms", grouped_signed(self.min))?;
            writeln!(out, "Latency max: {} ms", grouped_signed(self.max))?;
            writeln!(out, "Latency mean: {mean:.2} ms")?;
            writeln!(out, "Latency standard deviation: {stdev:.2} ms")?;
            for (level, z) in [(90, 1.645), (95, 1.96)] {
                // Half the width of the interval; z is the normal quantile.
                let half = z * stdev / (self.count as f64).sqrt();
                writeln!(
                    out,
                    "{level}% CI for the mean: [{:.2} - {:.3}] ms",
                    mean - half,
                    mean + half
                )?;
            }
        } else {
            writeln!(out, "Latency: no messages yet")?;
        }
        writeln!(out, "Total messages: {}", grouped(self.count))?;
        let whole = per_s.trunc() as u64;
        let hundredths = ((per_s - per_s.trunc()) * 100.0).round().min(99.0) as u64;
        writeln!(
            out,
            "Frequency: {}.{hundredths:02} messages/sec",
            grouped(whole)
        )
    }
}

fn grouped_signed(ms: f64) -> String {
    let sign = if ms < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(ms.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    #[test]
    fn the_interval_is_that_of_the_published_block() {
        // n, mean and deviation of a published run, and the 90 % and 95 % intervals printed with
        // it.
        let running = RunningSummary {
            count: 7_089_699,
            min: 0.0,
            max: 2024.0,
            mean: 269.68,
            squares: 420.36 * 420.36 * 7_089_699.0,
        };
        let mut text = String::new();
        running.write_lines(1607, 20_905.8, &mut text);
        for line in [
            "Uptime: 1,607 s\n",
            "Latency min: 0 ms\n",
            "Latency max: 2,024 ms\n",
            "Latency mean: 269.68 ms\n",
            "Latency standard deviation: 420.36 ms\n",
            "90% CI for the mean: [269.42 - 269.94",
            "95% CI for the mean: [269.37 - 269.98",
            "Total messages: 7,089,699\n",
            "Frequency: 20,905.80 messages/sec\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn figures_of_a_known_set() {
        let mut running = RunningSummary::default();
        for ms in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            running.record(ms);
        }
        assert_eq!(running.mean(), Some(5.0));
        assert_eq!(running.stdev(), Some(2.0));
    }

    #[test]
    fn without_messages_there_is_no_latency() {
        let mut text = String::new();
        RunningSummary::default().write_lines(5, 0.0, &mut text);
        assert_eq!(
            text,
            "Uptime: 5 s\nLatency: no messages yet\nTotal messages: 0\nFrequency: 0.00 \
             messages/sec\n"
        );
    }

    proptest! {
        #[test]
        fn merging_equals_recording_in_one(
            left in proptest::collection::vec(-5.0_f64..5000.0, 0..50),
            right in proptest::collection::vec(-5.0_f64..5000.0, 0..50),
        ) {
            let of = |values: &[f64]| {
                let mut running = RunningSummary::default();
                values.iter().for_each(|&ms| running.record(ms));
                running
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let whole = of(&[left, right].concat());
            prop_assert!(merged.count() == whole.count());
            if let (Some(a), Some(b)) = (merged.mean(), whole.mean()) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            if let (Some(a), Some(b)) = (merged.stdev(), whole.stdev()) {
                prop_assert!((a - b).abs() < 1e-6);
            }
        }
    }
}
