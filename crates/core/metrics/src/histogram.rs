//! Fixed buckets for durations in microseconds.
//!
//! Invariant: `counts` has one more entry than [`BOUNDS_US`]; the last takes what is longer than
//! all bounds.

/// The upper bounds of the buckets, in microseconds and inclusive.
pub const BOUNDS_US: [u64; 17] = [
    50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

pub(crate) const BUCKETS: usize = BOUNDS_US.len() + 1;

/// The bucket that a duration falls into.
pub(crate) fn bucket_of(us: u64) -> usize {
    BOUNDS_US.partition_point(|&bound| bound < us)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Number of durations in each bucket; not cumulative.
    pub counts: [u64; BUCKETS],
    /// All durations together, in microseconds.
    pub sum_us: u64,
}

impl Buckets {
    /// Number of all durations; saturates.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The mean in microseconds, rounded down; none without durations.
    #[must_use]
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.count())
    }

    /// The bound under which `permille` of a thousand durations lie: the upper bound of the bucket
    /// that holds the quantile, so it errs to the long side. None without durations, and when the
    /// quantile is longer than the last bound.
    #[must_use]
    pub fn quantile_us(&self, permille: u64) -> Option<u64> {
        let count = u128::from(self.count());
        let wanted = (count * u128::from(permille.min(1000)))
            .div_ceil(1000)
            .max(1);
        let mut seen = 0_u128;
        for (&bound, &in_bucket) in BOUNDS_US.iter().zip(&self.counts) {
            seen += u128::from(in_bucket);
            if seen >= wanted {
                return Some(bound);
            }
        }
        None
    }

    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = *self;
        for (count, before) in delta.counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(before);
        }
        delta.sum_us = delta.sum_us.saturating_sub(earlier.sum_us);
        delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(durations_us: &[u64]) -> Buckets {
        let mut buckets = Buckets::default();
        for &us in durations_us {
            buckets.counts[bucket_of(us)] += 1;
            buckets.sum_us += us;
        }
        buckets
    }

    #[test]
    fn bounds_are_inclusive_and_rise() {
        assert!(BOUNDS_US.is_sorted_by(|a, b| a < b));
        assert_eq!((bucket_of(0), bucket_of(50), bucket_of(51)), (0, 0, 1));
        assert_eq!((bucket_of(10_000_000), bucket_of(10_000_001)), (16, 17));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_err_to_the_long_side() {
        assert_eq!((of(&[]).quantile_us(500), of(&[]).mean_us()), (None, None));
        let buckets = of(&[40, 60, 60, 300]);
        assert_eq!(buckets.quantile_us(0), Some(50));
        assert_eq!(buckets.quantile_us(250), Some(50));
        assert_eq!(buckets.quantile_us(251), Some(100));
        assert_eq!(buckets.quantile_us(750), Some(100));
        assert_eq!(buckets.quantile_us(1000), Some(500));
        assert_eq!(buckets.mean_us(), Some(115));
        assert_eq!(of(&[20_000_000]).quantile_us(500), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_a_bound_of_the_true_one(
            mut durations_us in proptest::collection::vec(0_u64..10_000_000, 1..50),
            permille in 1_u64..=1000,
        ) {
            let found = of(&durations_us).quantile_us(permille).expect("all lie within the bounds");
            durations_us.sort_unstable();
            let permille = usize::try_from(permille).expect("small");
            let rank = (durations_us.len() * permille).div_ceil(1000);
            let exact = durations_us[rank - 1];
            prop_assert_eq!(found, BOUNDS_US[bucket_of(exact)]);
        }
    }
}
