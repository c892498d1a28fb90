//! Sums over the counters of all shards; their differences between two moments, and rates.

use crate::histogram::Buckets;
use crate::{Counter, Counters, Gauge, Histogram, Label};

/// The sums over counters, as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    counters: [u64; Counter::COUNT],
    gauges: [u64; Gauge::COUNT],
    histograms: [Buckets; Histogram::COUNT],
    /// CPU time of the process in microseconds, which only the caller knows.
    pub cpu_us: u64,
}

/// One series of the table, and its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Name of its metric, with the prefix.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Word of the text format: `counter` or `gauge`.
    pub(crate) kind: &'static str,
    /// Label of the series, if its metric has several.
    pub(crate) label: Option<Label>,
    pub(crate) value: u64,
}

impl Totals {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counters: [0; Counter::COUNT],
            gauges: [0; Gauge::COUNT],
            histograms: [Buckets {
                counts: [0; crate::histogram::BUCKETS],
                sum_us: 0,
            }; Histogram::COUNT],
            cpu_us: 0,
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
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample> {
        let counters = Counter::ALL.iter().map(|&counter| Sample {
            name: counter.name(),
            help: counter.help(),
            kind: "counter",
            label: counter.label(),
            value: self.counter(counter),
        });
        counters.chain(Gauge::ALL.iter().map(|&gauge| Sample {
            name: gauge.name(),
            help: gauge.help(),
            kind: "gauge",
            label: gauge.label(),
            value: self.gauge(gauge),
        }))
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self::new()
    }
}

/// The difference between two [`Totals`] of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    earlier: Totals,
    later: Totals,
    elapsed_ms: u64,
}

impl Delta {
    /// From `earlier` to `later`, which lie `elapsed_ms` apart.
    #[must_use]
    pub fn between(earlier: Totals, later: Totals, elapsed_ms: u64) -> Self {
        Self {
            earlier,
            later,
            elapsed_ms,
        }
    }

    /// Number of events in between. Right even when the counter started over.
    fn count(&self, counter: Counter) -> u64 {
        self.later
            .counter(counter)
            .wrapping_sub(self.earlier.counter(counter))
    }

    /// Number of events over all series of the metric that `any` belongs to.
    fn count_all(&self, any: Counter) -> u64 {
        self.later
            .counter_all(any)
            .wrapping_sub(self.earlier.counter_all(any))
    }

    /// Events per second, rounded to the nearest; zero while no time has passed.
    #[must_use]
    pub fn per_second(&self, counter: Counter) -> u64 {
        rate(self.count(counter), self.elapsed_ms)
    }

    /// Events per second over all series of the metric that `any` belongs to.
    #[must_use]
    pub fn per_second_all(&self, any: Counter) -> u64 {
        rate(self.count_all(any), self.elapsed_ms)
    }

    /// The durations recorded in between.
    #[must_use]
    pub fn histogram(&self, histogram: Histogram) -> Buckets {
        let later = self.later.histogram(histogram);
        later.since(self.earlier.histogram(histogram))
    }

    /// CPU time of the process in between, in thousandths of one core.
    #[must_use]
    pub fn cpu_per_mille(&self) -> u64 {
        let used_us = self.later.cpu_us.saturating_sub(self.earlier.cpu_us);
        used_us / self.elapsed_ms.max(1)
    }
}

fn rate(count: u64, elapsed_ms: u64) -> u64 {
    let elapsed_ms = u128::from(elapsed_ms);
    let rounded = (u128::from(count) * 1000 + elapsed_ms / 2).checked_div(elapsed_ms);
    u64::try_from(rounded.unwrap_or(0)).unwrap_or(u64::MAX)
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
    fn rates_are_per_second() {
        let counters = Counters::new();
        counters.add(Counter::Deliveries, u64::MAX - 4);
        counters.record(Histogram::TurnDuration, 10);
        let earlier = Totals::sum([&counters]);
        counters.add(Counter::Deliveries, 15);
        counters.add(Counter::PublicationsApi, 2);
        counters.add(Counter::PublicationsClient, 1);
        counters.record(Histogram::TurnDuration, 600);
        let delta = Delta::between(earlier.clone(), Totals::sum([&counters]), 2000);
        assert_eq!(delta.count(Counter::Deliveries), 15);
        assert_eq!(delta.per_second(Counter::Deliveries), 8);
        assert_eq!(delta.per_second(Counter::PublicationsApi), 1);
        assert_eq!(delta.count_all(Counter::PublicationsGrip), 3);
        assert_eq!(delta.per_second_all(Counter::PublicationsGrip), 2);
        assert_eq!(delta.per_second(Counter::BytesIn), 0);
        let latency = delta.histogram(Histogram::TurnDuration);
        assert_eq!(
            (latency.count(), latency.sum_us, latency.quantile_us(500)),
            (1, 600, Some(1000))
        );

        let no_time = Delta::between(earlier, Totals::sum([&counters]), 0);
        assert_eq!(no_time.per_second(Counter::Deliveries), 0);
        assert_eq!((rate(u64::MAX, 1), rate(1, u64::MAX)), (u64::MAX, 0));
    }
}
