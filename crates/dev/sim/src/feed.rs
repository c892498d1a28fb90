//! What one connection of a client has been given of each channel, checked as it comes.

use std::collections::{BTreeMap, BTreeSet};

use crate::payload::{self, Got};
use crate::witness::Witness;

/// One subscription.
#[derive(Debug)]
struct Track {
    /// The newest place that came.
    last: usize,
    /// Up to this place only publications with a position are owed: they were missed, and
    /// recovered.
    recovered_to: usize,
    active: bool,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    tracks: BTreeMap<usize, Track>,
    /// Publications that did not come although later ones did.
    missed: u64,
    /// Deliveries that the server said it had dropped.
    pub(crate) told: u64,
    /// Some subscription ended, or began anew, so that what was dropped cannot be counted exactly.
    blurred: bool,
    /// Channels that the server API took away before the first words. What was held back for
    /// them may still come: it was on its way.
    taken_early: BTreeSet<usize>,
    /// A channel of this connection allows deliveries to be dropped.
    lossy: bool,
}

impl Feed {
    /// The client asks for a channel. From then on its deliveries share the connection's queue;
    /// where it may drop the oldest, the connection's cursor may pass over them.
    pub(crate) fn asks(&mut self, channel: usize, witness: &Witness) {
        self.lossy |= witness.is_lossy(channel);
    }

    /// A subscription begins behind place `last`; what is owed up to `recovered_to` was missed.
    pub(crate) fn begin(
        &mut self,
        channel: usize,
        last: usize,
        recovered_to: usize,
        witness: &Witness,
    ) {
        let track = Track {
            last,
            recovered_to,
            active: true,
        };
        let before = self.tracks.insert(channel, track);
        self.blurred |= before.is_some();
        let twice = before.is_some_and(|before| before.active);
        assert!(!twice, "{}: subscribed twice", witness.name(channel));
    }

    /// A subscription has ended before the client was told of it.
    pub(crate) fn end_early(&mut self, channel: usize) {
        self.blurred = true;
        self.taken_early.insert(channel);
    }

    /// Whether a delivery may be one that was on its way to a subscription that never began.
    pub(crate) fn is_stray(&self, channel: usize) -> bool {
        self.taken_early.contains(&channel) && !self.is_active(channel)
    }

    /// A subscription has ended.
    pub(crate) fn end(&mut self, channel: usize) {
        self.blurred = true;
        if let Some(track) = self.tracks.get_mut(&channel) {
            track.active = false;
        }
    }

    pub(crate) fn is_active(&self, channel: usize) -> bool {
        self.tracks.get(&channel).is_some_and(|track| track.active)
    }

    /// Whether deliveries of some channel of this connection may be dropped.
    pub(crate) const fn is_lossy(&self) -> bool {
        self.lossy
    }

    pub(crate) fn has_begun(&self, channel: usize) -> bool {
        self.tracks.contains_key(&channel)
    }

    /// The channel of a publication in a protocol that does not say: its number is in one alone.
    pub(crate) fn channel_of(&self, got: &Got<'_>, witness: &Witness) -> usize {
        let n = payload::number_of(got).unwrap_or_else(|| panic!("data of nobody: {got:?}"));
        let mut active = self.tracks.iter().filter(|(_, track)| track.active);
        let found = active.find(|(channel, _)| witness.place(**channel, n).is_some());
        let (&channel, _) = found.unwrap_or_else(|| panic!("n={n} is of no channel here"));
        channel
    }

    /// Takes a publication; returns its place. `offset` is what the protocol shows, if it does.
    pub(crate) fn publication(
        &mut self,
        channel: usize,
        got: &Got<'_>,
        offset: Option<Option<u64>>,
        witness: &mut Witness,
    ) -> usize {
        let name = witness.name(channel);
        let n =
            payload::number_of(got).unwrap_or_else(|| panic!("{name}: data of nobody: {got:?}"));
        let place = witness.place(channel, n);
        let place = place.unwrap_or_else(|| panic!("{name}: n={n} was never accepted"));
        let track = self.tracks.get_mut(&channel).filter(|track| track.active);
        let track = track.unwrap_or_else(|| panic!("{name}: n={n} without a subscription"));
        let expected = witness.next_place(channel, track.last, track.recovered_to);
        assert!(
            place >= expected,
            "{name}: n={n} at place {place} is doubled or late, expected {expected}: {track:?}"
        );
        assert!(
            place == expected || witness.is_lossy(channel),
            "{name}: lost {expected} to {}, got n={n}: {track:?}",
            place - 1
        );
        self.missed += (place - expected) as u64;
        track.last = place;
        witness.check(channel, place, got, offset);
        witness.received += 1;
        place
    }

    /// Checks, when everything has come to rest, that nothing is owed.
    pub(crate) fn settle(&self, witness: &Witness) {
        let mut owed = self.missed;
        for (&channel, track) in self.tracks.iter().filter(|(_, track)| track.active) {
            let next = witness.next_place(channel, track.last, track.recovered_to);
            let late = witness.last_place(channel) + 1 - next;
            assert!(
                late == 0 || witness.is_lossy(channel),
                "{}: {late} are owed: {track:?}",
                witness.name(channel)
            );
            owed += late as u64;
        }
        if !self.blurred {
            assert_eq!(owed, self.told, "what was dropped was told");
        }
    }
}
