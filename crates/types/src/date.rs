//! Time as a value, and moments of the calendar as other programs and people read them. Pure code
//! is told the time; only the shard loop reads a clock.

use std::ops::{Add, Sub};

use time::UtcDateTime;

use crate::Save;

/// A moment on the monotonic clock, in milliseconds since the process started. Its `+` and `-` stop
/// at the bounds, as [`Millis::since`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Save)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds from `earlier` to `self`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Millis {
    type Output = Self;

    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl Sub<Self> for Millis {
    type Output = u64;

    fn sub(self, earlier: Self) -> u64 {
        self.since(earlier)
    }
}

/// Both clocks, read once per turn: monotonic for intervals, wall for tokens and people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic milliseconds: for deadlines and ages.
    pub mono: Millis,
    /// Unix time in milliseconds: for `exp`, `nbf` and time stamps shown to people.
    pub unix_ms: u64,
}

impl Now {
    pub const fn new(mono_ms: u64, unix_ms: u64) -> Self {
        let mono = Millis(mono_ms);
        Self { mono, unix_ms }
    }

    /// Unix time in whole seconds, the unit of JWT claims (RFC 7519 section 2, `NumericDate`).
    #[must_use]
    pub const fn unix_s(self) -> u64 {
        self.unix_ms / 1000
    }
}

/// A moment in UTC. Milliseconds that no calendar reaches are its last day.
fn at(unix_ms: u64) -> UtcDateTime {
    let ns = i128::from(unix_ms) * 1_000_000;
    UtcDateTime::from_unix_timestamp_nanos(ns).unwrap_or(UtcDateTime::MAX)
}

/// As RFC 3339 has it, to the millisecond: `2026-08-21T12:42:57.123+00:00`.
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    let moment = at(unix_ms);
    let (hour, minute, second, ms) = moment.as_hms_milli();
    let date = moment.date();
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// As people write it: `2026-08-21 12:42 UTC`.
#[must_use]
pub fn minute(unix_ms: u64) -> String {
    let moment = at(unix_ms);
    let (hour, minute, _) = moment.as_hms();
    format!("{} {hour:02}:{minute:02} UTC", moment.date())
}

/// As the header `Date` has it (RFC 9110 section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn http(unix_ms: u64) -> String {
    let moment = at(unix_ms);
    let (hour, minute, second) = moment.as_hms();
    let date = moment.date();
    let (weekday, month) = (date.weekday().to_string(), date.month().to_string());
    format!(
        "{weekday:.3}, {:02} {month:.3} {:04} {hour:02}:{minute:02}:{second:02} GMT",
        date.day(),
        date.year()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (951_868_799_999, "2000-02-29T23:59:59.999+00:00"),
            (1_704_067_199_000, "2023-12-31T23:59:59.000+00:00"),
            (1_787_316_177_123, "2026-08-21T12:42:57.123+00:00"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999+00:00"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000+00:00"),
            (u64::MAX, "9999-12-31T23:59:59.999+00:00"),
        ] {
            assert_eq!(rfc3339(unix_ms), text);
        }
        assert_eq!(minute(1_709_251_199_999), "2024-02-29 23:59 UTC");
    }

    #[test]
    fn headers_have_their_own_form() {
        for (unix_ms, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_709_251_199_999, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(http(unix_ms), text);
        }
    }
}
