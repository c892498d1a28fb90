//! Content of one message, and the position of a stream after it. Pure.

use throng_broker::{Draft, Version};
use throng_remote::RequestId;
use throng_types::{Epoch, Position};

use crate::record::{BEFORE_MAX, FORMERS_MAX, State};

/// Publications in one message, and their bytes unless a single one has more.
const BATCH_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 128 << 10;

/// Answer to a publisher: its shard, its ticket, the position.
pub(crate) type PublishedAt = (RequestId, Option<Position>);

/// A channel's newest message, as far as this node knows.
pub(crate) struct Known {
    pub(crate) seq: u64,
    pub(crate) state: State,
}

/// Room that is left in a message.
#[derive(Default)]
pub(crate) struct Batch {
    drafts: usize,
    bytes: usize,
    is_closed: bool,
}

impl Batch {
    /// Whether one more fits. A publication with an idempotency key goes alone, since a message has
    /// one.
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

pub(crate) struct Opening {
    /// The server process that stores now.
    pub(crate) server: u64,
    /// An epoch that no stream has.
    pub(crate) fresh: u64,
    pub(crate) now_ms: u64,
    /// Time for which a position is kept.
    pub(crate) keep_ms: u64,
    /// Newest position that subscribers of this node have seen.
    pub(crate) seen: Option<Position>,
    /// Newest first; empty for channels that keep nothing. Bound: [`FORMERS_MAX`].
    pub(crate) empty: Vec<EmptyEpoch>,
}

/// An epoch that a channel without a message may have. See `seeds.rs`.
pub(crate) struct EmptyEpoch {
    pub(crate) epoch: Epoch,
    /// Made by this server process, which has lost nothing of it.
    pub(crate) is_of_this_server: bool,
}

impl Opening {
    /// Opens a stream for the message after the newest one; says whether its state differs from
    /// what the newest says.
    pub(crate) fn open(self, newest: Option<&Known>) -> (State, bool) {
        let Some(Known { seq, state }) = newest else {
            return self.open_empty();
        };
        // A server that has lost messages uses their sequences again.
        let before = state.before.iter().copied().filter(|before| before < seq);
        let before = [*seq].into_iter().chain(before);
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
        // A position that is half forgotten is said again, unless it is of nothing and for nobody.
        let is_old = self.now_ms >= state.time_ms + self.keep_ms / 2;
        let is_needed = self.seen.is_some() || state.offset > 0 || state.version.is_some();
        (next, is_old && is_needed)
    }

    /// Opens a channel without a message: its state differs where other nodes would not come to the
    /// same end.
    fn open_empty(self) -> (State, bool) {
        let newest = self.empty.first().map(|it| it.epoch);
        let is_place = |it: &&EmptyEpoch| {
            let place = Position {
                epoch: it.epoch,
                offset: 0,
            };
            it.is_of_this_server && self.seen == Some(place)
        };
        // Where subscribers of this node stand, if that is good.
        let held = self.empty.iter().find(is_place).map(|it| it.epoch);
        let is_behind =
            { self.seen }.is_some_and(|seen| Some(seen.epoch) == newest && seen.offset > 0);
        let given = held.or(newest).filter(|_| !is_behind);
        let epoch = given.unwrap_or(Epoch(self.fresh));
        let others = self.empty.iter().map(|it| Position {
            epoch: it.epoch,
            offset: 0,
        });
        let others = others.filter(|it| it.epoch != epoch);
        let state = State {
            epoch,
            offset: 0,
            server: self.server,
            formers: others.take(FORMERS_MAX).collect(),
            time_ms: self.now_ms,
            forgotten: 0,
            version: None,
            before: Vec::new(),
        };
        (state, Some(epoch) != newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a stream on another server process.
    fn opened(server: u64, seq: u64, state: &State) -> State {
        let opening = Opening {
            server,
            fresh: 100 + server,
            now_ms: 1,
            keep_ms: 1000,
            seen: None,
            empty: Vec::new(),
        };
        let state = state.clone();
        opening.open(Some(&Known { seq, state })).0
    }

    /// Epochs 9, 8 and 7 for a channel without a message; the oldest is of another server process.
    fn empty(seen: Option<(u64, u64)>) -> (State, bool) {
        let epoch = |epoch| EmptyEpoch {
            epoch: Epoch(epoch),
            is_of_this_server: epoch != 7,
        };
        let opening = Opening {
            server: 0,
            fresh: 100,
            now_ms: 1,
            keep_ms: 1000,
            seen: seen.map(|(epoch, offset)| Position {
                epoch: Epoch(epoch),
                offset,
            }),
            empty: [9, 8, 7].map(epoch).into(),
        };
        opening.open(None)
    }

    #[test]
    fn a_channel_without_a_message_is_in_an_epoch_that_all_nodes_know() {
        for (seen, epoch, formers, is_stored) in [
            (None, 9, vec![8, 7], false),
            (Some((9, 0)), 9, vec![8, 7], false),
            // Subscribers keep their place, and others are told where that is.
            (Some((8, 0)), 8, vec![9, 7], true),
            // What came there may be lost with the server process.
            (Some((7, 0)), 9, vec![8, 7], false),
            (Some((6, 0)), 9, vec![8, 7], false),
            // What was there is gone: its offsets are not used again.
            (Some((9, 3)), 100, vec![9, 8, 7], true),
            (Some((8, 3)), 9, vec![8, 7], false),
        ] {
            let (state, is_new) = empty(seen);
            let before: Vec<u64> = state.formers.iter().map(|it| it.epoch.0).collect();
            let is_none = state.offset == 0 && state.formers.iter().all(|it| it.offset == 0);
            assert_eq!(
                (state.epoch.0, before, is_new, is_none),
                (epoch, formers, is_stored, true),
                "{seen:?}"
            );
        }
    }

    #[test]
    fn a_place_before_the_first_publication_is_said_again_for_subscribers_only() {
        let state = empty(Some((8, 0))).0;
        for (offset, seen, expected) in [(0, false, false), (0, true, true), (1, false, true)] {
            let state = State {
                offset,
                ..state.clone()
            };
            let opening = Opening {
                server: 0,
                fresh: 100,
                now_ms: 600,
                keep_ms: 1000,
                seen: seen.then(|| state.position()),
                empty: Vec::new(),
            };
            assert_eq!(opening.open(Some(&Known { seq: 1, state })).1, expected);
        }
    }

    #[test]
    fn sequences_fall_from_each_message_to_the_one_before() {
        let state = State {
            before: vec![9, 7, 2],
            ..empty(None).0
        };
        assert_eq!(opened(0, 10, &state).before, [10, 9, 7, 2]);
        assert_eq!(opened(0, 7, &state).before, [7, 2]);
    }

    #[test]
    fn a_stream_knows_the_eight_epochs_before_it() {
        let opening = Opening {
            server: 0,
            fresh: 100,
            now_ms: 1,
            keep_ms: 1000,
            seen: None,
            empty: Vec::new(),
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
