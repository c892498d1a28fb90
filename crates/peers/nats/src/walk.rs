//! A channel's history, read from its newest message back.
//!
//! Each message knows the sequences of those before it, so that many are asked for at once. Offsets
//! show whether they follow each other: the walk ends where one is missing, or cannot be read.

use std::collections::HashMap;
use std::sync::Arc;

use throng_broker::ChannelOptions;
use throng_remote::Query;
use throng_remote::agent::{HistoryMatch, Looked, Mode, REFILL_BYTES_MAX};
use throng_types::{ChannelName, Position, Publication};

use crate::api::ChannelMessage;
use crate::record::{Record, State};

/// Whether what follows the position is what follows it in this epoch.
fn is_known(query: &Query, state: &State) -> bool {
    query.since.is_none_or(|since| {
        since.epoch == Position::START.epoch || since.epoch == state.epoch || {
            state.formers.iter()
        }
        .any(|former| former.epoch == since.epoch && since.offset <= former.offset)
    })
}

/// Every publication that may be wanted has a higher offset.
pub(crate) fn floor(query: &Query, state: &State) -> u64 {
    let top = state.offset;
    let limit = query.limit as u64;
    let since = query.since.map(|since| since.offset);
    if !is_known(query, state) {
        return top;
    }
    match query.mode {
        Mode::Top => top,
        Mode::Since => match since {
            Some(since) if since <= top && top - since <= limit => since,
            _ => top,
        },
        Mode::Newest => {
            let to = since.map_or(top, |since| since.saturating_sub(1).min(top));
            to.saturating_sub(limit)
        }
        Mode::Oldest if limit == 0 => top,
        Mode::Oldest => since.unwrap_or(0),
    }
}

/// The answer, from what was found: publications without a gap up to the top, oldest first.
pub(crate) fn answer(query: &Query, state: &State, found: &[Arc<Publication>]) -> Looked {
    let position = state.position();
    let looked = |status, publications| Looked {
        position,
        status,
        publications,
    };
    let since = query.since.map(|since| since.offset);
    let is_known = is_known(query, state);
    let offset = |it: &Arc<Publication>| it.position.map_or(0, |at| at.offset);
    let mut sum = 0;
    let mut fits = |n: usize, it: &Arc<Publication>| {
        sum += it.payload.bytes.len() + 128;
        n == 0 || sum <= query.bytes
    };
    match query.mode {
        Mode::Top => looked(HistoryMatch::Fits, Vec::new()),
        Mode::Since => {
            let since = since.unwrap_or(0);
            let after: Vec<_> = { found.iter() }
                .filter(|it| offset(it) > since)
                .cloned()
                .collect();
            let missed = state.offset.checked_sub(since);
            let is_whole = is_known
                && missed == Some(after.len() as u64)
                && after.len() <= query.limit
                && after.iter().enumerate().all(|(n, it)| fits(n, it));
            if is_whole {
                looked(HistoryMatch::Fits, after)
            } else {
                looked(HistoryMatch::Lost, Vec::new())
            }
        }
        _ if !is_known || since.is_some_and(|since| since > state.offset + 1) => {
            looked(HistoryMatch::NoSuchPosition, Vec::new())
        }
        Mode::Newest => {
            let newest = found.iter().rev();
            let newest = newest.filter(|it| since.is_none_or(|since| offset(it) < since));
            let newest = newest.take(query.limit).enumerate();
            let newest = newest.take_while(|(n, it)| fits(*n, it));
            looked(
                HistoryMatch::Fits,
                newest.map(|(_, it)| it.clone()).collect(),
            )
        }
        Mode::Oldest => {
            let oldest = found.iter();
            let oldest = oldest.filter(|it| since.is_none_or(|since| offset(it) > since));
            let oldest = oldest.take(query.limit).enumerate();
            let oldest = oldest.take_while(|(n, it)| fits(*n, it));
            looked(
                HistoryMatch::Fits,
                oldest.map(|(_, it)| it.clone()).collect(),
            )
        }
    }
}

/// A walk back from the newest message of a channel.
pub(crate) struct Walk {
    pub(crate) state: State,
    /// Publications that were found, newest first. Bound: [`REFILL_BYTES_MAX`].
    found: Vec<Arc<Publication>>,
    bytes: usize,
    /// Up to this offset nothing is wanted.
    floor: u64,
    /// Time before which a publication is too old.
    alive_ms: u64,
    /// The offset below which the next is looked for.
    next: u64,
    /// Sequences that were asked for, newest first. Bound: [`crate::record::BEFORE_MAX`].
    asked: Vec<u64>,
    /// Answers by their sequences. Bound: `asked`.
    got: HashMap<u64, ChannelMessage>,
    before: Vec<u64>,
    is_over: bool,
}

impl Walk {
    /// Begins with nothing found: the newest message is to be added, if there is one.
    pub(crate) fn new(state: &State, options: &ChannelOptions, floor: u64, now_ms: u64) -> Self {
        let retention = options.retention;
        let oldest = state
            .offset
            .saturating_sub(retention.publications_max.into());
        Self {
            state: state.clone(),
            found: Vec::new(),
            bytes: 0,
            floor: floor.max(state.forgotten).max(oldest),
            alive_ms: (now_ms + 1).saturating_sub(retention.ttl_ms),
            next: state.offset,
            asked: Vec::new(),
            got: HashMap::new(),
            before: Vec::new(),
            is_over: true,
        }
    }

    /// Puts a message before what was found, if it belongs there.
    pub(crate) fn add(&mut self, channel: &ChannelName, record: &Record) {
        let Some(state) = record.state.as_ref().filter(|it| it.offset == self.next) else {
            self.is_over = true;
            return;
        };
        self.before.clone_from(&state.before);
        if record.time_ms < self.alive_ms {
            self.is_over = true;
            return;
        }
        let Some(publications) = record.publications(channel, Some(self.state.epoch)) else {
            self.is_over = true;
            return;
        };
        for publication in publications.into_iter().rev() {
            let Some(position) = publication.position else {
                continue;
            };
            self.next = position.offset - 1;
            if position.offset > self.floor {
                self.bytes += publication.cost_bytes();
                self.found.push(publication);
            }
        }
        self.is_over = self.next <= self.floor || self.bytes > REFILL_BYTES_MAX;
    }

    /// The sequences to ask for next; none if the walk is over.
    pub(crate) fn ask(&mut self) -> Vec<u64> {
        if self.is_over {
            return Vec::new();
        }
        let most = usize::try_from(self.next - self.floor).unwrap_or(usize::MAX);
        // Some of them may be without publications.
        self.before.truncate(most.saturating_add(2));
        self.asked = std::mem::take(&mut self.before);
        self.got.clear();
        self.asked.clone()
    }

    /// Takes what was asked for. True once it has all of that.
    pub(crate) fn got(&mut self, channel: &ChannelName, seq: u64, found: ChannelMessage) -> bool {
        self.got.insert(seq, found);
        if self.got.len() < self.asked.len() {
            return false;
        }
        for seq in std::mem::take(&mut self.asked) {
            match self.got.remove(&seq) {
                _ if self.is_over => {}
                Some(ChannelMessage::Record(_, record, _)) => self.add(channel, &record),
                _ => self.is_over = true,
            }
        }
        true
    }

    /// The publications that were found, oldest first.
    pub(crate) fn publications(mut self) -> (State, Vec<Arc<Publication>>) {
        self.found.reverse();
        (self.state, self.found)
    }
}
