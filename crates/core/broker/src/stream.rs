//! One channel's stream at its home: positions, and the publications still kept.
//!
//! Invariants
//! - Kept publications have the offsets `top - len + 1 ..= top`, without a hole.
//! - `top` is zero exactly while nothing that has a position was ever published in this epoch.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{Epoch, Millis, Position, Publication};

use crate::{HistoryQuery, Recovery, Refusal, Retention};

/// A publication and when it was accepted.
struct Kept {
    at: Millis,
    publication: Arc<Publication>,
}

/// The alarm of a stream that has none.
pub(crate) const NO_ALARM: Millis = Millis(u64::MAX);

/// A stream. The log is boxed because most channels of a big server hold none.
pub(crate) struct Stream {
    /// Bit `n` is set while shard `n` has subscribers.
    pub(crate) interest: u64,
    /// Offset of the newest publication.
    pub(crate) top: u64,
    /// The low half of the epoch; the high half is the process's.
    pub(crate) generation: u32,
    /// When the home looks at this stream next; an alarm with another time is stale.
    pub(crate) alarm_at: Millis,
    #[expect(
        clippy::box_collection,
        reason = "8 bytes instead of 32 in the streams that keep none"
    )]
    log: Option<Box<VecDeque<Kept>>>,
}

impl Stream {
    pub(crate) const fn new(generation: u32) -> Self {
        Self {
            interest: 0,
            top: 0,
            generation,
            alarm_at: NO_ALARM,
            log: None,
        }
    }

    pub(crate) const fn position(&self, nonce: u32) -> Position {
        let epoch = Epoch((nonce as u64) << 32 | self.generation as u64);
        Position {
            epoch,
            offset: self.top,
        }
    }

    pub(crate) fn kept(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.len())
    }

    /// When the oldest kept publication was accepted.
    pub(crate) fn oldest_at(&self) -> Option<Millis> {
        self.log.as_ref()?.front().map(|kept| kept.at)
    }

    /// Appends the publication that was given offset `top`; returns the bytes that trimming freed.
    pub(crate) fn append(
        &mut self,
        publication: Arc<Publication>,
        retention: Retention,
        now: Millis,
    ) -> usize {
        debug_assert_eq!(
            publication.position.map(|position| position.offset),
            Some(self.top)
        );
        let log = self.log.get_or_insert_default();
        log.push_back(Kept {
            at: now,
            publication,
        });
        let mut freed_bytes = 0;
        while log.len() > retention.publications_max as usize {
            freed_bytes += pop(log);
        }
        freed_bytes + self.expire(retention, now)
    }

    /// Forgets what is older than the retention allows; returns the bytes freed.
    pub(crate) fn expire(&mut self, retention: Retention, now: Millis) -> usize {
        let Some(log) = self.log.as_mut() else {
            return 0;
        };
        let mut freed_bytes = 0;
        while log
            .front()
            .is_some_and(|kept| now.since(kept.at) >= retention.ttl_ms)
        {
            freed_bytes += pop(log);
        }
        self.release_if_empty();
        freed_bytes
    }

    /// Forgets the oldest publication, whatever its age; returns the bytes freed.
    pub(crate) fn evict_oldest(&mut self) -> usize {
        let freed_bytes = self.log.as_mut().map_or(0, |log| pop(log));
        self.release_if_empty();
        freed_bytes
    }

    fn release_if_empty(&mut self) {
        if self.log.as_ref().is_some_and(|log| log.is_empty()) {
            self.log = None;
        }
    }

    /// Everything after `since`, or nothing at all: a partial answer would hide a gap.
    pub(crate) fn recover(&self, since: Position, nonce: u32) -> Recovery {
        let here = self.position(nonce);
        if since.epoch != here.epoch || since.offset > here.offset {
            return Recovery::Lost;
        }
        let missed = here.offset - since.offset;
        match usize::try_from(missed) {
            Ok(missed) if missed <= self.kept() => Recovery::Whole(self.newest(missed)),
            _ => Recovery::Lost,
        }
    }

    fn newest(&self, count: usize) -> Vec<Arc<Publication>> {
        let Some(log) = self.log.as_ref() else {
            return Vec::new();
        };
        log.range(log.len().saturating_sub(count)..)
            .map(|kept| kept.publication.clone())
            .collect()
    }

    /// A page of the past, after (or, reversed, before) `query.since`.
    pub(crate) fn page(
        &self,
        query: HistoryQuery,
        nonce: u32,
    ) -> Result<Vec<Arc<Publication>>, Refusal> {
        let here = self.position(nonce);
        if let Some(since) = query.since
            && (since.epoch != here.epoch || since.offset > here.offset.saturating_add(1))
        {
            return Err(Refusal::UnrecoverablePosition);
        }
        let Some(log) = self.log.as_ref() else {
            return Ok(Vec::new());
        };
        let first = self.top + 1 - log.len() as u64;
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        let take = |kept: &Kept| kept.publication.clone();
        Ok(if query.reverse {
            let end = query.since.map_or(log.len(), |since| {
                usize::try_from(since.offset.saturating_sub(first))
                    .map_or(log.len(), |at| at.min(log.len()))
            });
            log.range(..end).rev().take(limit).map(take).collect()
        } else {
            let start = query.since.map_or(0, |since| {
                usize::try_from((since.offset + 1).saturating_sub(first))
                    .map_or(log.len(), |at| at.min(log.len()))
            });
            log.range(start..).take(limit).map(take).collect()
        })
    }
}

fn pop(log: &mut VecDeque<Kept>) -> usize {
    log.pop_front()
        .map_or(0, |kept| kept.publication.cost_bytes())
}
