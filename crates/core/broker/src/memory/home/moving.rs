//! A home as bytes, for a process that takes over: streams with their positions and epochs, what
//! they keep, idempotency keys, and who is present. And a home from what its store has.
//!
//! In a hand-over times are those of the first process: the zero of the clock is handed over, too.
//! Of a store, expired entries are left out. What does not fit into the budget goes, and the
//! positions of its stream stay.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{
    ChannelName, Load, Millis, Now, Parts, Position, Publication, Publisher, Save, Saved,
};

use super::{Home, NEVER, POSITION_TTL_MS, STREAM_BYTES, Stream};
use crate::memory::budget::Share;
use crate::memory::keys::{KEYS_MAX, Keys, TTL_MS};
use crate::memory::stream::{Kept, epoch_of};
use crate::store::{Loaded, UsedKey};
use crate::{Lineage, Restored, Version};

const HEAD: u8 = 0;
const STREAM: u8 = 1;
const KEY: u8 = 2;
const MEMBER: u8 = 3;

#[derive(Save)]
struct Moved {
    channel: ChannelName,
    interest: u64,
    top: u64,
    generation: u32,
    due: Millis,
    version: Option<Version>,
    tops: Vec<(u32, u64)>,
    log: Vec<(Millis, Arc<Publication>)>,
}

impl Home {
    fn save_stream(&self, key: u32, parts: &mut Parts<'_>) {
        let Some((channel, stream)) = self.streams.at(key) else {
            return;
        };
        let log = stream.log.iter().flat_map(|log| log.iter());
        let moved = Moved {
            channel: channel.clone(),
            interest: stream.interest,
            top: stream.top,
            generation: stream.generation,
            due: stream.due,
            version: self.versions.get(&key).cloned(),
            tops: self.ancestry.tops(key, stream.start()),
            log: { log }
                .map(|kept| (kept.at, kept.publication.clone()))
                .collect(),
        };
        parts.item(STREAM, &moved);
    }

    /// Saves everything. Forgets each stream's history once it is saved, and the rest at the end,
    /// without a record in the store. The granted budget stays, so that everything has room if it
    /// comes back.
    pub(in crate::memory) fn give_up(&mut self, parts: &mut Parts<'_>) {
        // Streams may come back with other keys, so a copy begins anew.
        self.end_copy();
        parts.item(HEAD, &(self.lineage(), (self.forgotten, self.shift)));
        for key in 0..self.streams.bound() {
            self.save_stream(key, parts);
            if let Some(stream) = self.streams.at_mut(key) {
                stream.log = None;
            }
        }
        for (at, key, position) in self.keys.all() {
            parts.item(KEY, &(at, key, position));
        }
        for (channel, who) in self.members.all() {
            parts.item(MEMBER, &(channel, who));
        }
        self.share.forget();
        let empty = Share::new(self.options.history.clone());
        let mut new = Self::new(self.options.clone());
        new.share = std::mem::replace(&mut self.share, empty);
        new.journal = self.journal.take();
        *self = new;
    }

    pub(in crate::memory) fn load(&mut self, kind: u8, from: &mut Saved<'_>) -> Option<()> {
        match kind {
            HEAD => {
                let (lineage, rest) = <(Lineage, (u32, u64))>::load(from)?;
                self.set_lineage(&lineage);
                (self.forgotten, self.shift) = rest;
                self.note_lineage();
            }
            STREAM => self.restore(Moved::load(from)?)?,
            KEY => {
                let (at, key, position) = <(Millis, String, Option<Position>)>::load(from)?;
                self.restore_key(&key, position, at);
            }
            MEMBER => {
                let (channel, who) = <(ChannelName, Arc<Publisher>)>::load(from)?;
                self.members.add(&channel, &who);
            }
            _ => return None,
        }
        Some(())
    }

    fn restore(&mut self, moved: Moved) -> Option<()> {
        let Moved {
            channel,
            interest,
            top,
            generation,
            due,
            version,
            tops,
            log,
        } = moved;
        if self.streams.key(&channel).is_some() {
            return None;
        }
        let mut stream = Stream::new(generation);
        (stream.interest, stream.due) = (interest, due);
        stream.stand(top, 0);
        let first = (top.checked_add(1)?).checked_sub(log.len() as u64)?;
        let mut kept = VecDeque::with_capacity(log.len());
        let mut bytes = STREAM_BYTES + channel.as_str().len();
        for (offset, (at, publication)) in (first..).zip(log) {
            if publication.position.map(|position| position.offset) != Some(offset) {
                return None;
            }
            bytes += publication.cost_bytes();
            // Of a long name there is one copy, as before.
            let publication = Publication {
                channel: channel.clone(),
                ..Arc::unwrap_or_clone(publication)
            };
            let publication = publication.shared();
            kept.push_back(Kept { at, publication });
        }
        // The budget may be smaller here; then positions stay, and history goes.
        if !kept.is_empty() && due != NEVER && self.share.take(bytes) {
            self.history_publications += kept.len();
            stream.log = Some(Box::new(kept));
        } else if !kept.is_empty() {
            stream.due = NEVER;
        }
        self.place(&channel, stream, (version, tops), 0);
        Some(())
    }

    /// Puts a stream among the others. It keeps nothing up to offset `before`, if that is known.
    fn place(
        &mut self,
        channel: &ChannelName,
        stream: Stream,
        (version, tops): (Option<Version>, Vec<(u32, u64)>),
        before: u64,
    ) {
        let (top, due, keeps) = (stream.top, stream.due, stream.kept() > 0);
        let key = self.streams.key_or_insert(channel, || stream);
        if let Some(version) = version {
            self.versions.insert(key, version);
        }
        let start = self.ancestry.set_tops(key, tops, before);
        if let Some(stream) = self.streams.at_mut(key) {
            stream.stand(top, start);
        }
        if keeps {
            self.expiring.insert((due, key));
        } else if due != NEVER {
            self.idle.insert((due, key));
        } else {
            self.rest(key, Millis(0));
        }
    }

    /// Epochs that this home gives out, and those before.
    pub(super) fn lineage(&self) -> Lineage {
        Lineage {
            nonce: self.options.nonce,
            ancestors: self.ancestry.nonces().to_vec(),
        }
    }

    pub(super) fn set_lineage(&mut self, lineage: &Lineage) {
        self.options.nonce = lineage.nonce;
        self.ancestry.set_nonces(lineage);
    }

    /// Loads what an earlier process wrote; call it before anything else.
    pub(in crate::memory) fn restore_all(&mut self, restored: Restored, now: Now) {
        let Restored {
            lineage,
            forgotten,
            streams,
            keys,
        } = restored;
        self.set_lineage(&lineage);
        self.forgotten = forgotten;
        let logs = streams.iter().flat_map(|(_, stream)| &stream.log);
        let times = logs.map(|publication| publication.time_unix_ms);
        let is_known = |key: &&UsedKey| now.unix_ms.saturating_sub(key.at_unix_ms) < TTL_MS;
        let known = keys.iter().filter(is_known);
        let oldest = times.chain(known.map(|key| key.at_unix_ms)).min();
        self.shift = now.unix_ms.saturating_sub(oldest.unwrap_or(now.unix_ms));
        let now = self.shifted(now);
        for (channel, loaded) in streams {
            self.restore_stream(&channel, loaded, now);
        }
        let known = keys.iter().filter(is_known).rev().take(KEYS_MAX);
        let known: Vec<&UsedKey> = known.collect();
        for key in known.into_iter().rev() {
            let nonce = self.options.nonce;
            let position = key.position.map(|(generation, offset)| Position {
                epoch: epoch_of(nonce, generation),
                offset,
            });
            self.restore_key(&key.text, position, before(now, key.at_unix_ms));
        }
    }

    fn restore_stream(&mut self, channel: &ChannelName, loaded: Loaded, now: Now) {
        let Loaded {
            generation,
            top,
            version,
            tops,
            log,
        } = loaded;
        let count = log.len() as u64;
        if top == 0 || top == u64::MAX || count > top || self.streams.key(channel).is_some() {
            return;
        }
        let mut stream = Stream::new(generation);
        stream.stand(top, 0);
        let cost = log.iter().map(|publication| publication.cost_bytes());
        let bytes = STREAM_BYTES + channel.as_str().len() + cost.sum::<usize>();
        let keeps = !log.is_empty() && self.share.take(bytes);
        if keeps {
            let ttl_ms = self.retention(channel).ttl_ms;
            let epoch = epoch_of(self.options.nonce, generation);
            let mut kept = VecDeque::with_capacity(log.len());
            for (offset, mut publication) in (top + 1 - count..).zip(log) {
                publication.position = Some(Position { epoch, offset });
                let at = before(now, publication.time_unix_ms);
                // A long name is stored once.
                publication.channel = channel.clone();
                let publication = Arc::new(publication);
                kept.push_back(Kept { at, publication });
            }
            self.history_publications += kept.len();
            stream.due = kept.front().map_or(NEVER, |oldest| oldest.at + ttl_ms);
            stream.log = Some(Box::new(kept));
        } else {
            stream.due = now.mono + POSITION_TTL_MS;
        }
        let before = if keeps { top - count } else { top };
        self.place(channel, stream, (version, tops), before);
    }

    fn restore_key(&mut self, text: &str, position: Option<Position>, at: Millis) {
        // One that is there already is not counted twice.
        if self.keys.find(text).is_none() && self.share.take(Keys::cost_bytes(text)) {
            self.keys.insert(text, position, at);
        }
    }
}

/// Time of the home's clock for a moment of the wall clock; never later than now.
fn before(now: Now, unix_ms: u64) -> Millis {
    let age = now.unix_ms.saturating_sub(unix_ms);
    Millis(now.mono.0.saturating_sub(age))
}
