//! Counters of several threads on a set of counters that wants one writer.

use std::sync::{Arc, Mutex};

use throng_metrics::{Counter, Counters, Gauge};

/// Counts events and look-ups for the metrics, from several threads. These are few, so the lock
/// is free almost always.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Arc<Counters>>>);

impl Meter {
    /// Counts on this counters, to which nobody else may write.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Self {
        Self(Arc::new(Mutex::new(counters)))
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(crate) fn add(&self, counter: Counter, by: u64) {
        if let Ok(counters) = self.0.lock() {
            counters.add(counter, by);
        }
    }

    pub(crate) fn set(&self, gauge: Gauge, value: u64) {
        if let Ok(counters) = self.0.lock() {
            counters.set(gauge, value);
        }
    }
}
