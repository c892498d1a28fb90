//! Log lines of which one stands for many.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(5);

/// When the last line was, and how many were left out since.
#[derive(Default)]
pub(crate) struct Sampled(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<Instant>,
    unsaid: u64,
}

impl Sampled {
    /// Whether a line is due; it is to say how many were left out before it.
    pub(crate) fn next(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now < last + PAUSE) {
            state.unsaid += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stands_for_many() {
        let (sampled, start) = (Sampled::default(), Instant::now());
        assert_eq!(sampled.next(start), Some(0));
        assert_eq!(sampled.next(start), None);
        assert_eq!(sampled.next(start + PAUSE / 2), None);
        assert_eq!(sampled.next(start + PAUSE), Some(2));
    }
}
