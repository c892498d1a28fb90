//! Time as a value. Pure code is told the time; only the shard loop reads a clock.

use std::ops::{Add, Sub};

use crate::Save;

/// A moment on the monotonic clock, in milliseconds since the process started.
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
