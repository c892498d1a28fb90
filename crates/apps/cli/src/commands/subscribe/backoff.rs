//! Backoff before a reconnect. Pure: chance comes in as a number.

use std::time::Duration;

const FIRST_MS: u64 = 200;
const LAST_MS: u64 = 15_000;

/// Backoff that doubles from try to try, and starts anew after a success.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Starts anew after a connection that worked.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// Wait before the next try. `asked_ms` is the wait that the server asked for, and
    /// holds for the first one.
    ///
    /// Between half and all of the time, by chance, so that the clients of a server that went away
    /// do not come back together.
    pub(crate) fn next(&mut self, asked_ms: Option<u64>, chance: u64) -> Duration {
        let own = FIRST_MS << self.tries.min(16);
        let whole = match asked_ms {
            Some(asked) if self.tries == 0 => asked.max(FIRST_MS),
            _ => own,
        }
        .min(LAST_MS);
        self.tries = self.tries.saturating_add(1);
        let half = whole / 2;
        Duration::from_millis(half + chance % (whole - half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_anew() {
        let mut backoff = Backoff::default();
        let mut bounds = |asked| {
            let (mut low, mut high) = (
                Backoff {
                    tries: backoff.tries,
                },
                Backoff {
                    tries: backoff.tries,
                },
            );
            let pair = (low.next(asked, 0), high.next(asked, u64::MAX));
            let _ = backoff.next(asked, 7);
            pair
        };
        let ms = Duration::from_millis;
        assert_eq!(bounds(None).0, ms(100));
        assert_eq!(bounds(None).0, ms(200));
        for _ in 0..70 {
            let (low, high) = bounds(None);
            assert!(
                ms(200) <= low && low <= high && high <= ms(15_000),
                "{low:?} {high:?}"
            );
        }
        assert_eq!(
            bounds(Some(3_000)).0,
            ms(7_500),
            "a server that is gone asks for nothing"
        );
        backoff.reset();
        let wait = backoff.next(Some(3_000), 0);
        assert_eq!(wait, ms(1_500));
        backoff.reset();
        assert!(backoff.next(Some(u64::MAX), u64::MAX) <= ms(15_000));
    }
}
