//! One channel's stream at its home: positions, and the publications still kept; and the positions
//! that earlier processes gave out. The rule for those, and why it holds, stand at the head of
//! `store.rs`.
//!
//! Invariants
//! - Kept publications have the offsets `top - len + 1 ..= top`, without a hole.
//! - `top` is zero exactly while nothing that has a position was ever published in this stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use throng_types::{Epoch, Millis, Position, Publication};

use crate::{HistoryQuery, Lineage, Recovery, Refusal, ReplyLimit};

pub(super) struct Kept {
    pub(super) at: Millis,
    pub(super) publication: Arc<Publication>,
}

/// Time of a stream that needs no look.
pub(super) const NEVER: Millis = Millis(u64::MAX);

/// A stream. The log is boxed because most channels of a big server hold none.
pub(super) struct Stream {
    /// Bit `n` is set while shard `n` has subscribers.
    pub(super) interest: u64,
    pub(super) top: u64,
    /// The low half of the epoch; the high half is the process's.
    pub(super) generation: u32,
    /// Publications that got their position in this epoch, as far as that can be counted.
    own: u32,
    /// When the home looks at this stream next.
    pub(super) due: Millis,
    /// Publications kept, oldest first. Queue: `history`.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes instead of 32 in the streams that keep none"
    )]
    pub(super) log: Option<Box<VecDeque<Kept>>>,
}

impl Stream {
    pub(super) const fn new(generation: u32) -> Self {
        Self {
            interest: 0,
            top: 0,
            generation,
            own: 0,
            due: NEVER,
            log: None,
        }
    }

    pub(super) const fn position(&self, nonce: u32) -> Position {
        Position {
            epoch: epoch_of(nonce, self.generation),
            offset: self.top,
        }
    }

    /// Moves to the offset of the next publication.
    pub(super) const fn rise(&mut self) {
        self.top += 1;
        self.own = self.own.saturating_add(1);
    }

    /// Sets the newest offset, and where this epoch began.
    pub(super) fn stand(&mut self, top: u64, start: u64) {
        self.top = top;
        self.own = u32::try_from(top.saturating_sub(start)).unwrap_or(u32::MAX);
    }

    /// Offset at which this epoch began; 0 if that is not known.
    pub(super) fn start(&self) -> u64 {
        match self.own {
            u32::MAX => 0,
            own => self.top.saturating_sub(own.into()),
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.len())
    }

    /// The offset of the oldest publication that it keeps, or of the next one if it keeps none.
    pub(super) fn first(&self) -> u64 {
        self.top + 1 - self.kept() as u64
    }

    #[cfg(test)]
    pub(super) fn cost_bytes(&self) -> usize {
        let log = self.log.iter().flat_map(|log| log.iter());
        log.map(|kept| kept.publication.cost_bytes()).sum()
    }

    /// When the oldest kept publication was accepted.
    pub(super) fn oldest_at(&self) -> Option<Millis> {
        self.log.as_ref()?.front().map(|kept| kept.at)
    }

    /// Appends the publication that was given offset `top`.
    pub(super) fn append(&mut self, publication: Arc<Publication>, now: Millis) {
        debug_assert_eq!(
            publication.position.map(|position| position.offset),
            Some(self.top)
        );
        let log = self.log.get_or_insert_default();
        log.push_back(Kept {
            at: now,
            publication,
        });
    }

    /// Forgets the oldest publication, regardless of its age; returns its bytes.
    pub(super) fn forget_oldest(&mut self) -> Option<usize> {
        let log = self.log.as_mut()?;
        let kept = log.pop_front()?;
        if log.is_empty() {
            self.log = None;
        }
        Some(kept.publication.cost_bytes())
    }

    /// Everything after `since`, or nothing at all: a partial answer would hide a gap.
    pub(super) fn recover(&self, since: Position, nonce: u32, limit: ReplyLimit) -> Recovery {
        let here = self.position(nonce);
        if !is_of(here, since) || since.offset > here.offset {
            return Recovery::Lost;
        }
        let missed = usize::try_from(here.offset - since.offset).unwrap_or(usize::MAX);
        if missed > self.kept() {
            return Recovery::Lost;
        }
        let newest = self
            .log
            .iter()
            .flat_map(|log| log.range(log.len() - missed..));
        let publications = limit.cut(newest.map(|kept| &kept.publication), usize::MAX);
        if publications.len() < missed {
            return Recovery::Lost;
        }
        Recovery::Whole(publications)
    }

    /// The newest publication, unless `since` has it.
    pub(super) fn recover_newest(&self, since: Position, nonce: u32) -> Recovery {
        let here = self.position(nonce);
        let newest = self.log.as_ref().and_then(|log| log.back());
        match newest {
            _ if since.offset == here.offset && is_of(here, since) => Recovery::Whole(Vec::new()),
            Some(kept) => Recovery::Whole(vec![kept.publication.clone()]),
            None => Recovery::Lost,
        }
    }

    /// A page of history, after (or, reversed, before) `query.since`.
    pub(super) fn page(
        &self,
        query: HistoryQuery,
        nonce: u32,
        limit: ReplyLimit,
    ) -> Result<Vec<Arc<Publication>>, Refusal> {
        let here = self.position(nonce);
        if let Some(since) = query.since
            && (!is_of(here, since) || since.offset > here.offset.saturating_add(1))
        {
            return Err(Refusal::UnrecoverablePosition);
        }
        let Some(log) = self.log.as_ref() else {
            return Ok(Vec::new());
        };
        let first = self.top + 1 - log.len() as u64;
        let wanted = query.limit.map_or(usize::MAX, |limit| limit as usize);
        let place = |offset: u64| {
            usize::try_from(offset.saturating_sub(first)).map_or(log.len(), |at| at.min(log.len()))
        };
        Ok(if query.reverse {
            let end = query.since.map_or(log.len(), |since| place(since.offset));
            let newest_first = log.range(..end).rev();
            limit.cut(newest_first.map(|kept| &kept.publication), wanted)
        } else {
            let start = query.since.map_or(0, |since| place(since.offset + 1));
            limit.cut(log.range(start..).map(|kept| &kept.publication), wanted)
        })
    }
}

/// Whether a position is one of the stream that stands here.
fn is_of(here: Position, position: Position) -> bool {
    position.epoch == here.epoch || position == Position::START
}

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
