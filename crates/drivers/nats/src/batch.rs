//! What goes into one message, and where a stream stands after it. Pure.

use throng_broker::{Draft, Ticket, Version};
use throng_types::{Epoch, Position};

use crate::record::{BEFORE_MAX, FORMERS_MAX, State};

/// Publications in one message, and their bytes unless a single one has more.
const BATCH_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 128 << 10;

/// What a publisher is told: its shard, its ticket, the position.
pub(crate) type Told = (u8, Ticket, Option<Position>);

/// A channel's newest message, as far as this node knows.
pub(crate) struct Known {
    pub(crate) seq: u64,
    pub(crate) state: State,
}

/// How much is in a message.
#[derive(Default)]
pub(crate) struct Batch {
    drafts: usize,
    bytes: usize,
    is_closed: bool,
}

impl Batch {
    /// Whether one more fits. What has an idempotency key goes alone, since a message has one.
    pub(crate) fn takes(&mut self, draft: &Draft) -> bool {
        let bytes = draft.cost_bytes();
        let has_key = draft.idempotency_key.is_some();
        let is_full = self.drafts >= BATCH_MAX || self.bytes + bytes > BATCH_BYTES_MAX;
        if self.is_closed || self.drafts > 0 && (is_full || has_key) {
            return false;
        }
        self.is_closed = has_key;
        self.drafts += 1;
        self.bytes += bytes;
        true
    }
}

/// Whether a draft is newer than the newest of its stream.
pub(crate) fn is_newer(state: &State, version: Option<&Version>) -> bool {
    match (&state.version, version) {
        (Some((number, epoch)), Some(version)) => {
            let is_compared = version.epoch.is_empty() || version.epoch == *epoch;
            !is_compared || version.number > *number
        }
        _ => true,
    }
}

/// What decides whether a stream goes on.
pub(crate) struct Opening {
    /// The server process that stores now.
    pub(crate) server: u64,
    /// An epoch that nobody has.
    pub(crate) fresh: u64,
    pub(crate) now_ms: u64,
    /// How long a position is kept.
    pub(crate) keep_ms: u64,
    /// What subscribers of this node have seen.
    pub(crate) seen: Option<Position>,
}

impl Opening {
    /// Where a stream stands for the message after the newest one, and whether that differs from
    /// what the newest says.
    pub(crate) fn open(self, newest: Option<&Known>) -> (State, bool) {
        let known = newest.filter(|it| self.now_ms < it.state.time_ms + self.keep_ms);
        let Some(Known { seq, state }) = known else {
            let state = State {
                epoch: Epoch(self.fresh),
                offset: 0,
                server: self.server,
                formers: Vec::new(),
                time_ms: self.now_ms,
                forgotten: 0,
                version: None,
                before: Vec::new(),
            };
            return (state, true);
        };
        let before = [*seq].into_iter().chain(state.before.iter().copied());
        let mut next = State {
            before: before.take(BEFORE_MAX).collect(),
            time_ms: self.now_ms.max(state.time_ms),
            ..state.clone()
        };
        // Another process may have begun from an older copy, and then positions that others have
        // are of publications that no longer exist.
        let is_behind = { self.seen }
            .is_some_and(|seen| seen.epoch == state.epoch && seen.offset > state.offset);
        if state.server != self.server || is_behind {
            next.epoch = Epoch(self.fresh);
            next.server = self.server;
            next.formers.insert(0, state.position());
            next.formers.truncate(FORMERS_MAX);
            return (next, true);
        }
        // A position that is half forgotten is said again.
        let is_old = self.now_ms >= state.time_ms + self.keep_ms / 2;
        (next, is_old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a stream stands on another server process.
    fn opened(server: u64, seq: u64, state: &State) -> State {
        let opening = Opening {
            server,
            fresh: 100 + server,
            now_ms: 1,
            keep_ms: 1000,
            seen: None,
        };
        let state = state.clone();
        opening.open(Some(&Known { seq, state })).0
    }

    #[test]
    fn a_stream_knows_the_eight_epochs_before_it() {
        let opening = Opening {
            server: 0,
            fresh: 100,
            now_ms: 1,
            keep_ms: 1000,
            seen: None,
        };
        let mut state = opening.open(None).0;
        for server in 1..=10 {
            state.offset += 3;
            state = opened(server, server, &state);
        }
        let formers: Vec<(u64, u64)> = { state.formers.iter() }
            .map(|it| (it.epoch.0, it.offset))
            .collect();
        let expected: Vec<(u64, u64)> = (2..10).rev().map(|n| (100 + n, 3 * (n + 1))).collect();
        assert_eq!(formers, expected);
        assert_eq!(opened(10, 11, &state).formers, state.formers);
    }
}
