//! What clients must get: places, positions and data.

use throng_broker::Overflow;
use throng_types::{Epoch, Position};

use super::Witness;
use crate::payload::{self, Got};

impl Witness {
    pub(crate) fn place(&self, channel: usize, n: u64) -> Option<usize> {
        self.channels[channel].places.get(&n).copied()
    }

    /// The newest position at or before a place, as the server should tell it.
    pub(crate) fn position_at(&self, channel: usize, place: usize) -> Option<Position> {
        let channel = &self.channels[channel];
        channel.entries[..place]
            .iter()
            .rev()
            .find_map(|entry| entry.position)
    }

    /// The place of the publication with a position; 0 if there is none.
    pub(crate) fn place_at(&self, channel: usize, position: Option<Position>) -> usize {
        let mut entries = self.channels[channel].entries.iter();
        let at = entries.position(|entry| position.is_some() && entry.position == position);
        at.map_or(0, |at| at + 1)
    }

    /// The position of the publication at a place.
    pub(crate) fn position_of(&self, channel: usize, place: usize) -> Option<Position> {
        self.channels[channel].entries[place - 1].position
    }

    /// The next place after `last` that must come: up to `recovered_to` only what has a position.
    pub(crate) fn next_place(&self, channel: usize, last: usize, recovered_to: usize) -> usize {
        let entries = &self.channels[channel].entries;
        let end = recovered_to.min(entries.len());
        let positioned = (last + 1..=end).find(|at| entries[at - 1].position.is_some());
        positioned.unwrap_or_else(|| last.max(recovered_to) + 1)
    }

    /// The numbers of the publications after one offset, up to another.
    pub(crate) fn numbers_between(
        &self,
        channel: usize,
        epoch: Epoch,
        after: u64,
        to: u64,
    ) -> Vec<u64> {
        let within = |position: Position| {
            position.epoch == epoch && position.offset > after && position.offset <= to
        };
        let entries = self.channels[channel].entries.iter();
        entries
            .filter(|entry| entry.position.is_some_and(within))
            .map(|entry| entry.n)
            .collect()
    }

    /// Checks the data of a publication, and its offset if the protocol shows it.
    pub(crate) fn check(
        &self,
        channel: usize,
        place: usize,
        got: &Got<'_>,
        offset: Option<Option<u64>>,
    ) {
        let entry = &self.channels[channel].entries[place - 1];
        assert!(
            payload::is_same(&entry.payload, got),
            "{}: the data changed on their way",
            self.name(channel)
        );
        if let Some(offset) = offset {
            let expected = entry.position.map(|position| position.offset);
            assert_eq!(
                offset,
                expected,
                "{}: the offset of place {place}",
                self.name(channel)
            );
        }
    }

    /// Whether deliveries of a channel may be forgotten for a slow client.
    pub(crate) fn is_lossy(&self, channel: usize) -> bool {
        self.channels[channel].options.overflow != Overflow::Close
    }
}
