//! Latencies in µs, every one of them, in histograms that add up.
//!
//! Owns: recording, merging, summing up, the wire form and the log form of latencies.
//!
//! Invariants
//! - Every recorded value is in the histogram; a value above the highest trackable one is clamped
//!   and counted as such.
//! - The true maximum and minimum are kept beside the histogram, whose buckets round.
//! - A negative value (two clocks that disagree) is recorded as 0 and counted, never dropped.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

pub const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Highest latency told apart from higher ones: one hour.
const HIGHEST_US: u64 = 3_600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one kind. Two are equal when their summaries are.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    min_us: u64,
    max_us: u64,
    negative: u64,
    clamped: u64,
}

impl Default for Latency {
    /// Makes an empty histogram: 3 significant digits, 1 µs to one hour. It grows with its values.
    fn default() -> Self {
        let mut histogram = Histogram::new_with_bounds(1, 2, SIGNIFICANT_DIGITS)
            .expect("constant bounds are in order");
        histogram.auto(true);
        Self {
            histogram,
            min_us: u64::MAX,
            max_us: 0,
            negative: 0,
            clamped: 0,
        }
    }
}

impl Latency {
    /// Records the µs between two readings of the run's clock; a negative time counts as 0 and is
    /// noted.
    pub fn record_between(&mut self, due_us: u64, arrived_us: u64) {
        if arrived_us < due_us {
            self.negative += 1;
        }
        self.record_us(arrived_us.saturating_sub(due_us));
    }

    pub fn record_us(&mut self, us: u64) {
        self.clamped += u64::from(us > HIGHEST_US);
        self.min_us = self.min_us.min(us);
        self.max_us = self.max_us.max(us);
        // Up to HIGHEST_US the histogram grows by itself, so recording cannot fail.
        let recorded = self.histogram.record(us.min(HIGHEST_US));
        debug_assert!(recorded.is_ok());
    }

    pub fn merge(&mut self, other: &Self) {
        // Both have the same digits and this one grows, so an addition cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok());
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
        self.negative += other.negative;
        self.clamped += other.clamped;
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Value in µs below or at which `percentile` percent of all values are; none without data.
    pub fn percentile_us(&self, percentile: f64) -> Option<u64> {
        // A bucket's upper end may lie above the true maximum.
        (self.count() > 0).then(|| {
            self.histogram
                .value_at_percentile(percentile)
                .min(self.max_us)
        })
    }

    /// True maximum in µs; none without data.
    pub fn max_us(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_us)
    }

    /// Sums up the values for a report; none without data.
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.count() == 0 {
            return None;
        }
        Some(LatencySummary {
            count: self.count(),
            min_us: self.min_us,
            max_us: self.max_us,
            mean_us: self.histogram.mean(),
            stdev_us: self.histogram.stdev(),
            percentiles_us: PERCENTILES
                .iter()
                .map(|&p| (p, self.percentile_us(p).unwrap_or(0)))
                .collect(),
            negative: self.negative,
            clamped: self.clamped,
        })
    }

    /// Points of the percentile curve: (percentile, µs), where the curve turns, up to the maximum.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        if self.count() == 0 {
            return Vec::new();
        }
        self.histogram
            .iter_quantiles(2)
            .map(|step| {
                (
                    step.quantile_iterated_to() * 100.0,
                    step.value_iterated_to().min(self.max_us),
                )
            })
            .collect()
    }

    /// Appends the wire form: its own exact figures, then a V2 histogram.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for figure in [self.min_us, self.max_us, self.negative, self.clamped] {
            out.extend_from_slice(&figure.to_be_bytes());
        }
        // Writing to memory does not fail, and the counts fit their encoding.
        let written = V2Serializer::new().serialize(&self.histogram, out);
        debug_assert!(written.is_ok());
    }

    /// Reads the wire form; refuses what is cut off or has other bounds.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let mut figures = [0_u64; 4];
        for figure in &mut figures {
            let Some((head, tail)) = rest.split_first_chunk() else {
                return Err("unreadable histogram: cut off".into());
            };
            *figure = u64::from_be_bytes(*head);
            rest = tail;
        }
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut rest)
            .map_err(|error| format!("unreadable histogram: {error}"))?;
        if histogram.sigfig() != SIGNIFICANT_DIGITS || histogram.high() > 2 * HIGHEST_US {
            return Err("unreadable histogram: it has other bounds".into());
        }
        let mut latency = Self::default();
        let added = latency.histogram.add(&histogram);
        added.map_err(|error| format!("unreadable histogram: {error}"))?;
        let [min_us, max_us, negative, clamped] = figures;
        Ok(Self {
            min_us,
            max_us,
            negative,
            clamped,
            ..latency
        })
    }
}

impl PartialEq for Latency {
    fn eq(&self, other: &Self) -> bool {
        self.summary() == other.summary()
    }
}

/// Writes Base64 of [`Latency::encode`].
impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        STANDARD.encode(bytes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        Self::decode(&bytes).map_err(D::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    pub count: u64,
    pub min_us: u64,
    pub max_us: u64,
    pub mean_us: f64,
    /// Standard deviation in µs (population form).
    pub stdev_us: f64,
    /// Pairs of percentile and µs, rising.
    pub percentiles_us: Vec<(f64, u64)>,
    /// Values that were negative because two clocks disagreed; recorded as 0.
    pub negative: u64,
    /// Values above one hour; recorded as one hour.
    pub clamped: u64,
}

impl LatencySummary {
    /// Finds one of the [`PERCENTILES`], in µs.
    pub fn percentile_us(&self, percentile: f64) -> Option<u64> {
        self.percentiles_us
            .iter()
            .find(|(p, _)| (p - percentile).abs() < 1e-9)
            .map(|(_, us)| *us)
    }
}

/// Writes interval histograms as the text log that HdrHistogram's own tools read (format 1.2, V2
/// deflate).
#[derive(Debug)]
pub struct LogWriter {
    text: Vec<u8>,
}

impl LogWriter {
    /// Begins a log at this wall-clock time. Values are in µs; maxima in the log are in ms.
    pub fn new(start_unix_ms: u64) -> Self {
        let start = UNIX_EPOCH + Duration::from_millis(start_unix_ms);
        let mut text = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        // The writer itself borrows its output for its life, so it is made anew for each interval,
        // and only the first one writes the header.
        let header = IntervalLogWriterBuilder::new()
            .add_comment("throng bench; values in us, maxima in ms")
            .with_start_time(start)
            .with_base_time(start)
            .with_max_value_divisor(1000.0)
            .begin_log_with(&mut text, &mut serializer)
            .map(|_| ());
        debug_assert!(header.is_ok());
        Self { text }
    }

    /// Appends one interval: its start from the log's start, its length, its kind as the tag
    /// (letters and `-`).
    pub fn push(&mut self, start_ms: u64, length_ms: u64, kind: &str, latency: &Latency) {
        let mut serializer = V2DeflateSerializer::new();
        let mut lines = Vec::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.with_max_value_divisor(1000.0);
        if let Ok(mut writer) = builder.begin_log_with(&mut lines, &mut serializer) {
            let written = writer.write_histogram(
                &latency.histogram,
                Duration::from_millis(start_ms),
                Duration::from_millis(length_ms),
                Tag::new(kind),
            );
            debug_assert!(written.is_ok());
        }
        // Every line before the last is the header again.
        let line = lines
            .split_inclusive(|&byte| byte == b'\n')
            .next_back()
            .unwrap_or_default();
        if !line.starts_with(b"#") {
            self.text.extend_from_slice(line);
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        for us in values {
            latency.record_us(us);
        }
        latency
    }

    #[test]
    fn percentiles_are_within_a_thousandth_and_the_maximum_is_true() {
        let summary = of(1..=100_000).summary().unwrap();
        assert_eq!((summary.min_us, summary.max_us), (1, 100_000));
        for (p, us) in &summary.percentiles_us {
            let exact = p * 1000.0;
            assert!(
                (*us as f64 - exact).abs() <= exact / 1000.0 + 1.0,
                "{p}: {us}"
            );
        }
        assert!((summary.mean_us - 50_000.5).abs() < 50.0);
        assert_eq!(
            summary.percentile_us(99.9),
            summary
                .percentiles_us
                .iter()
                .find(|(p, _)| *p == 99.9)
                .map(|(_, us)| *us)
        );
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let mut merged = of([5, 900, 70_000]);
        merged.merge(&of([1, 3_000_000]));
        let whole = of([5, 900, 70_000, 1, 3_000_000]);
        assert_eq!(merged.summary(), whole.summary());
        assert_eq!(merged.percentile_us(50.0), Some(900));
    }

    #[test]
    fn no_data_is_not_zero() {
        let empty = Latency::default();
        assert_eq!(empty.summary(), None);
        assert_eq!(empty.percentile_us(99.0), None);
        assert_eq!(empty.max_us(), None);
        assert!(empty.curve().is_empty());
    }

    #[test]
    fn clocks_that_disagree_and_absurd_values_are_counted() {
        let mut latency = Latency::default();
        latency.record_between(100, 90);
        latency.record_between(100, 350);
        latency.record_us(u64::MAX);
        let summary = latency.summary().unwrap();
        assert_eq!(
            (summary.negative, summary.clamped, summary.count),
            (1, 1, 3)
        );
        assert_eq!((summary.min_us, summary.max_us), (0, u64::MAX));
    }

    #[test]
    fn the_wire_form_comes_back_and_garbage_is_refused() {
        let latency = of([0, 17, 4000, 12_000_000]);
        let mut wire = Vec::new();
        latency.encode(&mut wire);
        assert_eq!(Latency::decode(&wire).unwrap().summary(), latency.summary());
        for cut in 0..wire.len() {
            assert!(Latency::decode(&wire[..cut]).is_err(), "cut at {cut}");
        }
        let foreign: Histogram<u64> = Histogram::new(2).unwrap();
        let mut wire = vec![0; 32];
        V2Serializer::new().serialize(&foreign, &mut wire).unwrap();
        assert!(Latency::decode(&wire).is_err());
    }

    #[test]
    fn the_log_is_read_by_the_format_s_own_reader() {
        let mut log = LogWriter::new(1_600_000_000_123);
        log.push(0, 1000, "delivery", &of([5, 10_000]));
        log.push(1000, 1000, "delivery", &of([7]));
        let entries: Vec<_> = IntervalLogIterator::new(log.as_bytes())
            .map(Result::unwrap)
            .collect();
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[1].start_timestamp(), Duration::from_secs(1));
        assert_eq!(intervals[0].tag().unwrap().as_str(), "delivery");
        let started = Duration::from_millis(1_600_000_000_123);
        let is_start =
            |entry: &LogEntry<'_>| matches!(entry, LogEntry::StartTime(at) if *at == started);
        assert!(entries.iter().any(is_start));
    }

    #[test]
    fn the_curve_rises_to_the_maximum() {
        let curve = of((0..5000).map(|k| k * k)).curve();
        assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!(curve.last().unwrap(), &(100.0, 4999 * 4999));
    }
}
