//! One channel's stream at its home: positions, and the publications still kept.
//!
//! Invariants
//! - Kept publications have the offsets `top - len + 1 ..= top`, without a hole.
//! - `top` is zero exactly while nothing that has a position was ever published in this stream.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{Epoch, Millis, Position, Publication};

use crate::{HistoryQuery, Recovery, Refusal, ReplyLimit};

/// A publication and when it was accepted.
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
    /// Offset of the newest publication.
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
        let epoch = Epoch((nonce as u64) << 32 | self.generation as u64);
        Position {
            epoch,
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

    /// Bytes that the kept publications cost.
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
