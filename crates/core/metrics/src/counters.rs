//! The cells that one shard counts in.
//!
//! Invariants
//! - A set of counters has exactly one writing thread, the shard's own. So adding is a load and a
//!   store and not a locked instruction; a second writer would lose counts (and nothing worse).
//! - Any thread may read at any time. Cells are read one by one: a sum of several cells is not a
//!   picture of one moment, and each cell on its own is exact.
//! - Two sets of counters never share a cache line, so that shards do not slow each other down.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::histogram::{BUCKETS, Buckets, bucket_of};
use crate::names::CELLS;
use crate::{Counter, Gauge, Histogram, NamespaceMetric};

/// One shard's cells. The alignment is two cache lines, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    counters: [AtomicU64; Counter::COUNT],
    gauges: [AtomicU64; Gauge::COUNT],
    histograms: [Cells; Histogram::COUNT],
    namespaces: [[AtomicU64; NamespaceMetric::COUNT]; CELLS],
}

#[derive(Debug)]
struct Cells {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Counters {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counters: [const { AtomicU64::new(0) }; Counter::COUNT],
            gauges: [const { AtomicU64::new(0) }; Gauge::COUNT],
            histograms: [const {
                Cells {
                    counts: [const { AtomicU64::new(0) }; BUCKETS],
                    sum_us: AtomicU64::new(0),
                }
            }; Histogram::COUNT],
            namespaces: [const { [const { AtomicU64::new(0) }; NamespaceMetric::COUNT] }; CELLS],
        }
    }

    /// Counts one. For the one writer only.
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts several at once. For the one writer only.
    pub fn add(&self, counter: Counter, by: u64) {
        raise(&self.counters[counter.index()], by);
    }

    /// Raises a gauge. For the one writer only.
    pub fn rise(&self, gauge: Gauge, by: u64) {
        raise(&self.gauges[gauge.index()], by);
    }

    /// Lowers a gauge, not below zero. For the one writer only.
    pub fn fall(&self, gauge: Gauge, by: u64) {
        let cell = &self.gauges[gauge.index()];
        let value = cell.load(Relaxed);
        debug_assert!(by <= value, "{gauge:?} falls by {by} from {value}");
        cell.store(value.saturating_sub(by), Relaxed);
    }

    /// Sets a gauge. For the one writer only.
    pub fn set(&self, gauge: Gauge, value: u64) {
        self.gauges[gauge.index()].store(value, Relaxed);
    }

    /// Records a duration. For the one writer only.
    pub fn record(&self, histogram: Histogram, us: u64) {
        self.record_many(histogram, us, 1);
    }

    /// Records the same duration several times, for the deliveries of one write pass. For the
    /// one writer only.
    pub fn record_many(&self, histogram: Histogram, us: u64, times: u64) {
        let cells = &self.histograms[histogram.index()];
        raise(&cells.counts[bucket_of(us)], times);
        raise(&cells.sum_us, us.saturating_mul(times));
    }

    /// Counts several for a namespace, by its label. For the one writer only.
    pub fn add_for(&self, label: u8, metric: NamespaceMetric, by: u64) {
        let cells = self.namespaces.get(usize::from(label));
        if let Some(cell) = cells.and_then(|cells| cells.get(metric.index())) {
            raise(cell, by);
        }
    }

    /// A namespace's value, by its label. For any thread.
    pub(crate) fn of_namespace(&self, label: usize, metric: NamespaceMetric) -> u64 {
        self.namespaces[label][metric.index()].load(Relaxed)
    }

    /// A counter's value. For any thread.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter.index()].load(Relaxed)
    }

    /// A gauge's value. For any thread.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge.index()].load(Relaxed)
    }

    /// A histogram's values. For any thread.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> Buckets {
        let cells = &self.histograms[histogram.index()];
        let mut buckets = Buckets {
            sum_us: cells.sum_us.load(Relaxed),
            ..Buckets::default()
        };
        for (count, cell) in buckets.counts.iter_mut().zip(&cells.counts) {
            *count = cell.load(Relaxed);
        }
        buckets
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<Self> for Counters {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Not `fetch_add`: with one writer the pair below loses nothing and costs no bus lock.
/// Wrapping, as Prometheus expects a counter to start over rather than to stop.
fn raise(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_not_touch_each_other() {
        let counters = Counters::new();
        for (value, &counter) in Counter::ALL.iter().enumerate() {
            counters.add(counter, value as u64 + 1);
        }
        for (value, &gauge) in Gauge::ALL.iter().enumerate() {
            counters.set(gauge, value as u64 + 1000);
        }
        for (value, &histogram) in Histogram::ALL.iter().enumerate() {
            counters.record_many(histogram, 60, value as u64 + 1);
        }
        for (value, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(counters.counter(counter), value as u64 + 1, "{counter:?}");
        }
        for (value, &gauge) in Gauge::ALL.iter().enumerate() {
            assert_eq!(counters.gauge(gauge), value as u64 + 1000, "{gauge:?}");
        }
        for (value, &histogram) in Histogram::ALL.iter().enumerate() {
            let buckets = counters.histogram(histogram);
            assert_eq!(buckets.counts[1], value as u64 + 1, "{histogram:?}");
            assert_eq!(buckets.sum_us, 60 * (value as u64 + 1), "{histogram:?}");
        }
    }

    #[test]
    fn gauges_rise_and_fall() {
        let counters = Counters::new();
        counters.rise(Gauge::Subscriptions, 5);
        counters.fall(Gauge::Subscriptions, 3);
        assert_eq!(counters.gauge(Gauge::Subscriptions), 2);
    }

    #[test]
    fn boards_fill_whole_pairs_of_cache_lines() {
        assert_eq!(align_of::<Counters>(), 128);
        assert_eq!(size_of::<Counters>() % 128, 0);
    }
}
