//! Recent events, for clients that reconnect and ask for what they missed.
//!
//! Off for connections of clients that do not ask. One that opens with `?recover=` gets, after
//! `connected` (or, if it subscribes by message, after its first `subscribe`), a frame
//! `{"type":"recovery","data":{"position":"EPOCH-OFFSET","recovered":false}}`, and each `event` has
//! a `position` in its `data`. One that reconnects with `?recover=EPOCH-OFFSET`, the last position
//! that it has seen, gets `"recovered":true` and every event since that its new subscriptions match
//! and its current roles allow; or `"recovered":false` and nothing, if some of them are no longer
//! kept or the feed itself may have lost some.
//!
//! Rule for "full": the oldest goes, by age and by the bytes of all events together. The events are
//! shared with the other shards, whose histories hold the same.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_appwrite::FeedMessage;
use throng_types::{Epoch, Millis, Position};

/// Bytes that an event takes beside its payload, estimated.
const EVENT_BYTES: usize = 1024;

/// Events by which one shard may be behind another. A client that names a later position hears that
/// it has lost something.
const LAG_MAX: u64 = 4096;

struct Entry {
    event: Arc<FeedMessage>,
    offset: u64,
    at: Millis,
}

/// The latest events, for clients that come back.
pub(super) struct History {
    history_ms: u64,
    bytes_max: usize,
    /// Bound: `bytes_max` of the options, and the age of `history_ms`.
    entries: VecDeque<Entry>,
    bytes: usize,
    pub(super) last: Position,
}

impl History {
    /// Creates a history bounded by age and by bytes; zero keeps none.
    pub(super) const fn new(history_ms: u64, bytes_max: usize) -> Self {
        Self {
            history_ms,
            bytes_max,
            entries: VecDeque::new(),
            bytes: 0,
            last: Position {
                epoch: Epoch(0),
                offset: 0,
            },
        }
    }

    /// Starts a new epoch: earlier events have a gap behind them.
    pub(super) fn begin(&mut self, position: Position) {
        self.entries = VecDeque::new();
        self.bytes = 0;
        self.last = position;
    }

    pub(super) fn push(&mut self, event: &Arc<FeedMessage>, position: Position, now: Millis) {
        if position.epoch != self.last.epoch || position.offset != self.last.offset + 1 {
            self.begin(position);
        }
        self.last = position;
        if self.history_ms == 0 {
            return;
        }
        self.bytes += bytes_of(event);
        self.entries.push_back(Entry {
            event: event.clone(),
            offset: position.offset,
            at: now,
        });
        self.forget(now);
    }

    pub(super) fn forget(&mut self, now: Millis) {
        while let Some(oldest) = self.entries.front() {
            let old = now.since(oldest.at) > self.history_ms;
            if !old && self.bytes <= self.bytes_max {
                return;
            }
            self.bytes -= bytes_of(&oldest.event);
            self.entries.pop_front();
        }
        self.entries.shrink_to(64);
    }

    /// Whether a position is one that another shard has reached before this one.
    pub(super) const fn lags(&self, behind: Position) -> bool {
        behind.epoch.0 == self.last.epoch.0
            && behind.offset > self.last.offset
            && behind.offset - self.last.offset <= LAG_MAX
    }

    /// Everything since a position, with its own; `None` if not all of it is here.
    pub(super) fn since(&self, since: Position) -> Option<Vec<(Arc<FeedMessage>, Position)>> {
        if since.epoch != self.last.epoch || since.offset > self.last.offset {
            return None;
        }
        let missed = self.last.offset - since.offset;
        let from = self
            .entries
            .len()
            .checked_sub(usize::try_from(missed).ok()?)?;
        let entries = self.entries.iter().skip(from).map(|entry| {
            let position = Position {
                epoch: self.last.epoch,
                offset: entry.offset,
            };
            (entry.event.clone(), position)
        });
        Some(entries.collect())
    }
}

fn bytes_of(event: &FeedMessage) -> usize {
    event.payload().len() + EVENT_BYTES
}
