//! How fast is published, and when each publication is due.

/// What is to be published from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Publications a second, of all machines together.
    pub per_s: f64,
    /// When the first is due, in µs.
    pub begin_us: u64,
    /// None is due from here on, in µs.
    pub end_us: u64,
    /// Its messages warm, and are not counted.
    pub warm_up: bool,
}

/// When the k-th event of a pace is due; none after its end.
pub(super) fn due_at(pace: &Pace, k: u64) -> Option<u64> {
    let due_us = pace.begin_us + (k as f64 / pace.per_s * 1e6) as u64;
    (due_us < pace.end_us).then_some(due_us)
}

/// How many events of a pace are due before a moment.
pub(super) fn due_until(pace: &Pace, until_us: u64) -> u64 {
    let span_us = until_us.saturating_sub(pace.begin_us);
    (span_us as f64 / 1e6 * pace.per_s).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_has_its_events_and_no_more() {
        let pace = Pace {
            per_s: 1000.0,
            begin_us: 5_000_000,
            end_us: 6_000_000,
            warm_up: false,
        };
        assert_eq!(due_at(&pace, 0), Some(5_000_000));
        assert_eq!(due_at(&pace, 999), Some(5_999_000));
        assert_eq!(due_at(&pace, 1000), None);
        assert_eq!(due_until(&pace, 6_000_000), 1000);
        assert_eq!(due_until(&pace, 5_500_000), 500);
        assert_eq!(due_until(&pace, 1), 0);
    }
}
