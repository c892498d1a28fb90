//! Log lines of which one stands for many.

use throng_types::Millis;

/// Between two lines, in milliseconds.
const PAUSE_MS: u64 = 5000;

/// The time of the last line, and the number of those left out since.
#[derive(Default)]
pub(crate) struct Sampled {
    last: Option<Millis>,
    unsaid: u64,
}

impl Sampled {
    /// Whether a line is due; it is to say how many were left out before it.
    pub(crate) fn next(&mut self, now: Millis) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + PAUSE_MS) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stands_for_many() {
        let (mut sampled, start) = (Sampled::default(), Millis(7));
        assert_eq!(sampled.next(start), Some(0));
        assert_eq!(sampled.next(start), None);
        assert_eq!(sampled.next(start + PAUSE_MS / 2), None);
        assert_eq!(sampled.next(start + PAUSE_MS), Some(2));
    }
}
