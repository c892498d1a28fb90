//! Exemplars: traces in which durations can be looked at.

use std::collections::BTreeMap;

use crate::Histogram;
use crate::histogram::bucket_of;

/// Duration of a histogram that is part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) trace_id: u128,
    pub(crate) us: u64,
    /// End of the duration.
    pub(crate) unix_ms: u64,
}

/// Last traced duration of each bucket.
#[derive(Debug, Default)]
pub struct Exemplars {
    /// By histogram and bucket. Bound: one for each.
    kept: BTreeMap<(usize, usize), Exemplar>,
}

impl Exemplars {
    /// Takes a duration that has ended at `unix_ms`, in place of the last one of its bucket.
    pub fn put(&mut self, histogram: Histogram, us: u64, trace_id: u128, unix_ms: u64) {
        let exemplar = Exemplar {
            trace_id,
            us,
            unix_ms,
        };
        let place = (histogram.index(), bucket_of(us));
        self.kept.insert(place, exemplar);
    }

    pub(crate) fn get(&self, histogram: Histogram, bucket: usize) -> Option<&Exemplar> {
        self.kept.get(&(histogram.index(), bucket))
    }
}
