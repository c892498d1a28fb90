//! Counters of several threads on a board that wants one writer.

use std::sync::{Arc, Mutex};

use throng_metrics::{Board, Counter, Gauge};

/// See the module's head. Counted are events and questions, not deliveries, so the lock is rarely
/// asked for.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Arc<Board>>>);

impl Meter {
    /// Counts on this board, to which nobody else may write.
    #[must_use]
    pub fn new(board: Arc<Board>) -> Self {
        Self(Arc::new(Mutex::new(board)))
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(crate) fn add(&self, counter: Counter, by: u64) {
        if let Ok(board) = self.0.lock() {
            board.add(counter, by);
        }
    }

    pub(crate) fn set(&self, gauge: Gauge, value: u64) {
        if let Ok(board) = self.0.lock() {
            board.set(gauge, value);
        }
    }
}
