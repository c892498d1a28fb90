//! How often the network and the kernels fail, in a run.

use throng_types::Rng;

/// Chance of each fault, in percent of the calls that can meet it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) split: usize,
    pub(crate) short_write: usize,
    pub(crate) no_room: usize,
    pub(crate) late_event: usize,
    pub(crate) spurious: usize,
    pub(crate) interrupted: usize,
    pub(crate) stale_room: usize,
    pub(crate) late_wake: usize,
    pub(crate) accept: usize,
    /// Percentage of events that report only what changed, and not all that is ready.
    pub(crate) terse: usize,
}

impl Odds {
    /// Those of a run: none, few or many of each kind.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut one = |most: usize| [0, most / 8, most][rng.below(3) as usize];
        Self {
            split: one(90),
            short_write: one(60),
            no_room: one(30),
            late_event: one(80),
            spurious: one(20),
            interrupted: one(20),
            stale_room: one(80),
            late_wake: one(80),
            accept: one(30),
            terse: one(100),
        }
    }
}
