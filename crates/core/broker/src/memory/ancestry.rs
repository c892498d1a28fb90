//! Translates positions that earlier processes gave out. The rule, and why it holds, stand at the
//! head of `store.rs`.

use std::collections::BTreeMap;

use throng_types::{Epoch, Position};

use crate::Lineage;

/// The nonces of earlier epochs, and up to which offset each stream is the same in them.
#[derive(Default)]
pub(super) struct Ancestry {
    nonces: Vec<u32>,
    /// For each stream, by key: (nonce, offset) of earlier epochs, up to which the stream is the
    /// same. The newest nonce is not here: `Stream::start` has its offset. Bound: `ANCESTORS_MAX`
    /// per loaded stream.
    tops: BTreeMap<u32, Box<[(u32, u64)]>>,
}

impl Ancestry {
    /// The nonces, the oldest first.
    pub(super) fn nonces(&self) -> &[u32] {
        &self.nonces
    }

    /// Takes the nonces of another process.
    pub(super) fn set_nonces(&mut self, lineage: &Lineage) {
        self.nonces.clone_from(&lineage.ancestors);
    }

    fn older(&self, key: u32) -> &[(u32, u64)] {
        self.tops.get(&key).map_or(&[], |tops| tops)
    }

    /// Up to where a stream that began this epoch at `start` is the same in earlier epochs, the
    /// oldest first.
    pub(super) fn tops(&self, key: u32, start: u64) -> Vec<(u32, u64)> {
        let newest = self.nonces.last().filter(|_| start > 0);
        let newest = newest.map(|nonce| (*nonce, start));
        self.older(key).iter().copied().chain(newest).collect()
    }

    /// Sets the offsets of earlier epochs, of those nonces that are known and for positions behind
    /// `before`. Gives where the stream began this epoch.
    pub(super) fn set_tops(&mut self, key: u32, mut tops: Vec<(u32, u64)>, before: u64) -> u64 {
        let newest = self.nonces.last().copied();
        let start = { tops.iter() }.find(|(nonce, _)| Some(*nonce) == newest);
        let start = start.map_or(0, |(_, top)| *top);
        tops.retain(|(nonce, top)| {
            Some(*nonce) != newest && *top >= before && self.nonces.contains(nonce)
        });
        if !tops.is_empty() {
            self.tops.insert(key, tops.into());
        }
        start
    }

    /// Forgets what is known of a stream.
    pub(super) fn remove(&mut self, key: u32) {
        if !self.tops.is_empty() {
            self.tops.remove(&key);
        }
    }

    /// Translates a position of an earlier epoch into the stream that stands `here` and began this
    /// epoch at `start`, if both are the same there.
    pub(super) fn translate(
        &self,
        since: Position,
        (here, start): (Position, u64),
        key: u32,
    ) -> Position {
        let (nonce, generation) = ((since.epoch.0 >> 32) as u32, since.epoch.0 as u32);
        if self.nonces.is_empty()
            || generation != here.epoch.0 as u32
            || !self.nonces.contains(&nonce)
        {
            return since;
        }
        let top = if self.nonces.last() == Some(&nonce) {
            start
        } else {
            let mut tops = self.older(key).iter();
            let top = tops.find(|(known, _)| *known == nonce);
            top.map_or(0, |(_, top)| *top)
        };
        let is_same = since.offset <= top;
        let epoch = if is_same { here.epoch } else { since.epoch };
        Position { epoch, ..since }
    }
}

/// Generation and offset of a position.
pub(super) const fn place_of(position: Position) -> (u32, u64) {
    (position.epoch.0 as u32, position.offset)
}

pub(super) const fn epoch_of(nonce: u32, generation: u32) -> Epoch {
    Epoch((nonce as u64) << 32 | generation as u64)
}
