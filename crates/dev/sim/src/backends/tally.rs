//! Counts of a run: of what happened, and of what explains that a call fails.

use std::collections::BTreeMap;

/// Number of times that each thing happened.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Things that runs are to have shown, all together.
    pub const ALL: [&'static str; 23] = [
        "a call fails: cut",
        "a call fails: garbage",
        "a call fails: too late",
        "a call fails: unreachable",
        "a call fails: unsent",
        "a call is cancelled",
        "a caller takes nothing for a while",
        "a connection is cut before an answer",
        "a connection is refused",
        "a kept connection is ended",
        "a name has no address",
        "a request is repeated",
        "a server reads nothing for a while",
        "a server says more than it was asked",
        "a tunnel is ended",
        "a whole answer",
        "an answer comes late or never",
        "an answer is cut",
        "an answer is not HTTP",
        "an answer is reset",
        "an answer is whole",
        "an answer may come early",
        "an answer waits for its caller",
    ];

    pub(super) fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Returns how many times something happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }
}

/// Things that explain why a call fails, counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Troubles {
    pub(super) unreachable: u64,
    pub(super) stalls: u64,
    /// Connections that ended in the midst of an answer, or before they carried any.
    pub(super) cuts: u64,
    /// Connections that had carried an answer and ended without a byte of another.
    pub(super) quiet_cuts: u64,
    pub(super) garbage: u64,
}
