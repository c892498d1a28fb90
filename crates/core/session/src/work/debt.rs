//! Debts in time: the amount owed, and the part that time has paid back.

use throng_types::Millis;

/// The most that may be owed before work is refused, in microseconds.
pub const BURST_US: u32 = 2_000_000;
/// Maximum of a debt after work that was already done, in microseconds.
pub(super) const DEBT_MAX_US: u32 = 10_000_000;

/// Returns the debt left after the time since `at_ms`, in microseconds.
pub(super) const fn left(owed_us: u32, at_ms: u32, now_ms: u32) -> u32 {
    // A connection that is silent for 49 days may seem to have been silent for less.
    owed_us.saturating_sub(now_ms.wrapping_sub(at_ms).saturating_mul(1000))
}

/// Low half of a timestamp, enough to measure how long ago it was.
pub(super) const fn low_ms(now: Millis) -> u32 {
    now.0 as u32
}
