//! Sums over the counters of all shards.

use crate::histogram::Buckets;
use crate::{Counter, Counters, Gauge, Histogram, Label};

/// The sums over counters, as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    counters: [u64; Counter::COUNT],
    gauges: [u64; Gauge::COUNT],
    histograms: [Buckets; Histogram::COUNT],
}

/// One number of [`Totals::for_each`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The metric, with the prefix.
    pub name: &'static str,
    /// Label of the series, if its metric has several.
    pub label: Option<Label>,
    pub value: u64,
}

impl Totals {
    /// Totals with every number at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counters: [0; Counter::COUNT],
            gauges: [0; Gauge::COUNT],
            histograms: [Buckets {
                counts: [0; crate::histogram::BUCKETS],
                sum_us: 0,
            }; Histogram::COUNT],
        }
    }

    /// Adds up counters. Gauges that no shard knows (memory, descriptors, uptime) stay zero: see
    /// [`Totals::set`].
    pub fn sum<B: AsRef<Counters>>(counters: impl IntoIterator<Item = B>) -> Self {
        let mut totals = Self::new();
        for counters in counters {
            totals.include(counters.as_ref());
        }
        totals
    }

    fn include(&mut self, counters: &Counters) {
        for (sum, &counter) in self.counters.iter_mut().zip(Counter::ALL) {
            *sum = sum.wrapping_add(counters.counter(counter));
        }
        for (sum, &gauge) in self.gauges.iter_mut().zip(Gauge::ALL) {
            *sum = sum.saturating_add(counters.gauge(gauge));
        }
        for (sum, &histogram) in self.histograms.iter_mut().zip(Histogram::ALL) {
            let buckets = counters.histogram(histogram);
            for (count, more) in sum.counts.iter_mut().zip(buckets.counts) {
                *count = count.wrapping_add(more);
            }
            sum.sum_us = sum.sum_us.wrapping_add(buckets.sum_us);
        }
    }

    /// Sets a gauge that only the caller knows.
    pub fn set(&mut self, gauge: Gauge, value: u64) {
        self.gauges[gauge.index()] = value;
    }

    /// Sum of one counter's series over all shards.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter.index()]
    }

    /// Sum of one gauge's series over all shards.
    #[must_use]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge.index()]
    }

    /// Sum of one histogram over all shards.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> &Buckets {
        &self.histograms[histogram.index()]
    }

    /// Sum over all series of the metric that `any` belongs to, such as refusals for all reasons.
    #[must_use]
    pub fn counter_all(&self, any: Counter) -> u64 {
        let series = Counter::ALL
            .iter()
            .filter(|counter| counter.name() == any.name());
        series.fold(0, |sum, &counter| sum.wrapping_add(self.counter(counter)))
    }

    /// Sum over all series of the metric that `any` belongs to, such as connections of all
    /// transports.
    #[must_use]
    pub fn gauge_all(&self, any: Gauge) -> u64 {
        let series = Gauge::ALL.iter().filter(|gauge| gauge.name() == any.name());
        series.fold(0, |sum, &gauge| sum.saturating_add(self.gauge(gauge)))
    }

    /// Every counter and gauge, in the order of the table.
    pub fn for_each(&self, mut visit: impl FnMut(Sample)) {
        for &counter in Counter::ALL {
            visit(Sample {
                name: counter.name(),
                label: counter.label(),
                value: self.counter(counter),
            });
        }
        for &gauge in Gauge::ALL {
            visit(Sample {
                name: gauge.name(),
                label: gauge.label(),
                value: self.gauge(gauge),
            });
        }
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn boards_add_up() {
        let counters = [Arc::new(Counters::new()), Arc::new(Counters::new())];
        for (times, counters) in counters.iter().enumerate() {
            for (index, &counter) in Counter::ALL.iter().enumerate() {
                counters.add(counter, ((times + 1) * index) as u64);
            }
            counters.rise(Gauge::ConnectionsSse, 4);
            counters.rise(Gauge::ConnectionsHttp, 1);
            counters.record(Histogram::TurnDuration, 70);
            counters.record(Histogram::TurnDuration, 10);
        }
        let totals = Totals::sum(&counters);
        for (index, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(totals.counter(counter), 3 * index as u64, "{counter:?}");
        }
        assert_eq!(totals.gauge(Gauge::ConnectionsSse), 8);
        assert_eq!(totals.gauge_all(Gauge::ConnectionsWebsocket), 10);
        assert_eq!(totals.gauge_all(Gauge::Subscriptions), 0);
        let dropped = [
            Counter::DroppedOldest,
            Counter::DroppedLatestOnly,
            Counter::DroppedClose,
        ];
        let each = dropped.map(|counter| totals.counter(counter));
        assert_eq!(
            totals.counter_all(Counter::DroppedClose),
            each.iter().sum::<u64>()
        );
        let turns = totals.histogram(Histogram::TurnDuration);
        assert_eq!(
            (
                turns.count(),
                turns.sum_us,
                turns.counts[0],
                turns.counts[1]
            ),
            (4, 160, 2, 2)
        );
        assert_eq!(Totals::sum::<Counters>([]), Totals::new());
    }

    #[test]
    fn counters_start_over_rather_than_stop() {
        let counters = Counters::new();
        counters.add(Counter::BytesIn, u64::MAX);
        counters.add(Counter::BytesIn, 3);
        assert_eq!(counters.counter(Counter::BytesIn), 2);
    }

    #[test]
    fn every_series_is_visited_once() {
        let mut totals = Totals::new();
        totals.set(Gauge::UptimeSeconds, 7);
        let mut seen = Vec::new();
        totals.for_each(|sample| seen.push(sample));
        assert_eq!(seen.len(), Counter::COUNT + Gauge::COUNT);
        let uptime = seen.last().expect("there are gauges");
        assert_eq!((uptime.name, uptime.value), ("throng_uptime_seconds", 7));
    }
}
