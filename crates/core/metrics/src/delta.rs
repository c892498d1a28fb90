//! Differences between two moments, and rates: for live pages.

use crate::histogram::Buckets;
use crate::{Counter, Histogram, Totals};

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

    /// The time between the two, in milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// Number of events in between. Right even when the counter started over.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        self.later
            .counter(counter)
            .wrapping_sub(self.earlier.counter(counter))
    }

    /// Number of events over all series of the metric that `any` belongs to.
    #[must_use]
    pub fn count_all(&self, any: Counter) -> u64 {
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
}

fn rate(count: u64, elapsed_ms: u64) -> u64 {
    let elapsed_ms = u128::from(elapsed_ms);
    let rounded = (u128::from(count) * 1000 + elapsed_ms / 2).checked_div(elapsed_ms);
    u64::try_from(rounded.unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counters;

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
