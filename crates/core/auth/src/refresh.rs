//! Times to fetch a set of keys: regularly, and when a token names a key that is not in it.
//!
//! Owns the times of the last fetch. Never: fetches, or reads a clock.
//!
//! Invariant: two fetches begin at least [`RefreshOptions::interval_min_ms`] apart, whatever keys
//! tokens name: strangers choose those.

use throng_types::Millis;

/// Intervals between fetches of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshOptions {
    /// Milliseconds from the end of one good fetch to the next.
    pub interval_ms: u64,
    /// Minimum milliseconds from the beginning of one fetch to the next. After failures the pause
    /// grows from here to [`RefreshOptions::interval_ms`].
    pub interval_min_ms: u64,
}

/// Schedule of a set that is fetched from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Refresh {
    options: RefreshOptions,
    began: Option<Millis>,
    /// Time of the next fetch if no token asks for an earlier one.
    next: Millis,
    /// Number of failures in a row.
    failures: u32,
}

impl Refresh {
    /// Schedules the first fetch at once.
    #[must_use]
    pub const fn new(options: RefreshOptions) -> Self {
        Self {
            options,
            began: None,
            next: Millis(0),
            failures: 0,
        }
    }

    /// Time of the next fetch; `is_wanted` is set after a token has named a key that is not there.
    #[must_use]
    pub fn due(&self, is_wanted: bool) -> Millis {
        let Some(began) = self.began else {
            return Millis(0);
        };
        let earliest = began + self.options.interval_min_ms;
        match is_wanted {
            true => earliest,
            false => Millis(self.next.0.max(earliest.0)),
        }
    }

    /// Notes that a fetch begins.
    pub const fn begin(&mut self, now: Millis) {
        self.began = Some(now);
    }

    /// Notes that the fetch has ended.
    pub fn end(&mut self, is_good: bool, now: Millis) {
        let RefreshOptions {
            interval_ms,
            interval_min_ms,
        } = self.options;
        let pause_ms = if is_good {
            self.failures = 0;
            interval_ms
        } else {
            let times = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
            self.failures = self.failures.saturating_add(1);
            interval_min_ms.saturating_mul(times).min(interval_ms)
        };
        self.next = now + pause_ms;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPTIONS: RefreshOptions = RefreshOptions {
        interval_ms: 600_000,
        interval_min_ms: 10_000,
    };

    #[test]
    fn it_is_fetched_at_once_and_then_at_the_interval() {
        let mut refresh = Refresh::new(OPTIONS);
        assert_eq!(refresh.due(false), Millis(0));
        refresh.begin(Millis(50));
        refresh.end(true, Millis(80));
        assert_eq!(refresh.due(false), Millis(600_080));
    }

    #[test]
    fn an_unknown_key_brings_it_forward_and_not_without_bound() {
        let mut refresh = Refresh::new(OPTIONS);
        refresh.begin(Millis(50));
        // Also while a fetch is under way: its result may be from before the key.
        assert_eq!(refresh.due(true), Millis(10_050));
        refresh.end(true, Millis(80));
        assert_eq!(refresh.due(true), Millis(10_050));
    }

    #[test]
    fn after_failures_the_pause_grows_to_the_interval() {
        let mut refresh = Refresh::new(OPTIONS);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            refresh.begin(Millis(1000));
            refresh.end(false, Millis(1000));
            pauses.push(refresh.due(false).0 - 1000);
        }
        let seconds = [10, 20, 40, 80, 160, 320, 600, 600, 600];
        assert_eq!(pauses, seconds.map(|s| s * 1000));
        refresh.begin(Millis(1000));
        refresh.end(true, Millis(1000));
        refresh.end(false, Millis(1000));
        assert_eq!(refresh.due(false), Millis(11_000));
    }

    proptest! {
        /// With any requests from tokens, fetches begin so far apart; and one is always due in the
        /// end.
        #[test]
        fn fetches_are_apart(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..5000), 1..200),
        ) {
            let mut refresh = Refresh::new(OPTIONS);
            let (mut now, mut last) = (Millis(0), None::<Millis>);
            for (is_wanted, is_good, takes_ms) in steps {
                let due = refresh.due(is_wanted);
                prop_assert!(due.0 <= now.0 + OPTIONS.interval_ms);
                now = Millis(now.0.max(due.0));
                if let Some(last) = last {
                    prop_assert!(now.0 - last.0 >= OPTIONS.interval_min_ms);
                }
                refresh.begin(now);
                last = Some(now);
                now.0 += takes_ms;
                refresh.end(is_good, now);
            }
        }
    }
}
