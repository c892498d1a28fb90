//! The streams of the channels whose home is one shard.
//!
//! Owns: positions, history, and which shards have subscribers. Never: subscribers, queues, clock.
//!
//! Invariants
//! - The share of the history budget that is in use equals the cost of all kept publications,
//!   of the streams that keep any, and of the remembered idempotency keys.
//! - A stream that keeps publications is in `expiring`; one that keeps none and has no
//!   subscribers is in `idle`; no other is in either. It is there once, under its `due`.
//! - A stream that was forgotten after it had publications never returns with the
//!   same epoch: `forgotten` rises first.

mod kept;
mod moving;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_types::{ChannelName, Millis, Now, Position, Publication, PublicationKind, ShardId};

use super::budget::{Budget, Share};
use super::keys::{Keys, key_of};
use super::members::Members;
use super::stream::{Ancestry, NEVER, Stream};
use crate::{
    ChannelMap, Draft, HistoryPage, HistoryQuery, LiveOptions, NamespaceOptions, Overflow, Present,
    Recovery, Refusal, ReplyLimit, Retention, Store, Subscribed, Version,
};

/// Milliseconds for which a stream without subscribers and history remembers its position.
const POSITION_TTL_MS: u64 = 3_600_000;
/// Bytes that a stream with history costs besides its name and its publications: its place, its log
/// and its entry in `expiring`.
const STREAM_BYTES: usize = 256;

#[must_use]
pub fn home_of(channel: &ChannelName, shards: u8) -> ShardId {
    if shards <= 1 {
        return ShardId(0);
    }
    // The high half: FNV's low bits are the weaker ones.
    ShardId(((channel.stable_hash() >> 32) % u64::from(shards.max(1))) as u8)
}

#[derive(Clone)]
pub struct MemoryOptions {
    /// Identifies this process in epochs; differs from start to start.
    pub nonce: u32,
    /// Seeds the hash of channel names, which come from strangers.
    pub hash_seed: u64,
    /// Budget of bytes for history and idempotency keys, for all homes that share it.
    pub history: Arc<Budget>,
    pub live: LiveOptions,
}

impl MemoryOptions {
    /// Options for tests: one megabyte of history in all of so many shards, small bounds.
    #[must_use]
    pub fn for_tests(shards: u8, namespaces: Arc<NamespaceOptions>) -> Self {
        Self {
            nonce: 1,
            hash_seed: 1,
            history: Budget::new(1 << 20, shards),
            live: LiveOptions {
                namespaces,
                reply: ReplyLimit {
                    publications_max: 100,
                    members_max: 100,
                    bytes_max: 1 << 20,
                },
                streams_max: 100,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerStats {
    pub streams: usize,
    pub history_publications: usize,
    /// Bytes of kept publications and their streams.
    pub history_bytes: usize,
    pub members: usize,
}

/// An accepted publication and the shards that must get it.
pub(super) struct Accepted {
    /// The publication with its position, or `None` for a repeated idempotency key.
    pub(super) publication: Option<Arc<Publication>>,
    /// The position it has (for a repetition, the first one's).
    pub(super) position: Option<Position>,
    /// Bit `n` is set if shard `n` has subscribers.
    pub(super) interest: u64,
}

/// Record size in bytes up to which the buffer is reused; a larger buffer is freed.
const RECORD_KEPT_BYTES: usize = 64 << 10;

struct Copy {
    round: u64,
    /// The next key of an idempotency key, by its number.
    next_used: u64,
    /// Key of the next stream.
    next: u32,
    /// The offset that was written last of the stream before `next`, while it is not finished.
    inside: Option<(u32, u64)>,
}

/// Connection of a home to its store.
struct Journal {
    store: Box<dyn Store>,
    record: Vec<u8>,
    /// The last copy that is complete.
    done: u64,
    copy: Option<Copy>,
}

impl Journal {
    /// A journal without records yet.
    fn new(store: Box<dyn Store>) -> Self {
        Self {
            store,
            record: Vec::new(),
            done: 0,
            copy: None,
        }
    }

    /// Appends a record; gives its bytes.
    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.record.clear();
        write(&mut self.record);
        self.store.append(&self.record);
        let bytes = self.record.len();
        if bytes > RECORD_KEPT_BYTES {
            self.record = Vec::new();
        }
        bytes
    }

    /// Whether the copy is inside this stream.
    fn is_inside(&self, key: u32) -> bool {
        let inside = self.copy.as_ref().and_then(|copy| copy.inside);
        inside.is_some_and(|(at, _)| at == key)
    }

    /// Ends the copy's part of a stream: new publications are written one by one again.
    fn leave(&mut self, key: u32) {
        if self.is_inside(key)
            && let Some(copy) = &mut self.copy
        {
            copy.inside = None;
        }
    }
}

pub(super) struct Home {
    options: MemoryOptions,
    streams: ChannelMap<Stream>,
    /// Streams that keep publications, by when to look for old ones. Bound: one a stream.
    expiring: BTreeSet<(Millis, u32)>,
    /// Streams that keep none and have no subscribers, by when to forget them. Bound:
    /// `streams_max`; the oldest is forgotten.
    idle: BTreeSet<(Millis, u32)>,
    share: Share,
    history_publications: usize,
    forgotten: u32,
    keys: Keys,
    /// The newest version in each stream that has any. Bound: one a stream.
    versions: BTreeMap<u32, Version>,
    ancestry: Ancestry,
    journal: Option<Journal>,
    /// Milliseconds added to every time that comes in, so that times from before the start are not
    /// negative.
    shift: u64,
    pub(super) members: Members,
}

impl Home {
    pub(super) fn new(options: MemoryOptions) -> Self {
        Self {
            streams: ChannelMap::new(options.hash_seed),
            expiring: BTreeSet::new(),
            idle: BTreeSet::new(),
            share: Share::new(options.history.clone()),
            history_publications: 0,
            forgotten: 0,
            keys: Keys::new(options.hash_seed),
            versions: BTreeMap::new(),
            ancestry: Ancestry::default(),
            journal: None,
            shift: 0,
            members: Members::new(options.hash_seed),
            options,
        }
    }

    pub(super) fn stats(&self) -> BrokerStats {
        BrokerStats {
            streams: self.streams.len(),
            history_publications: self.history_publications,
            history_bytes: self.share.used() - self.keys.bytes(),
            members: self.members.total(),
        }
    }

    /// Which shards have subscribers of a channel, as bits.
    pub(super) fn interest(&self, channel: &ChannelName) -> u64 {
        self.streams
            .get(channel)
            .map_or(0, |stream| stream.interest)
    }

    /// Retention of a channel; `None` if its namespace is not configured.
    pub(super) fn retention_of(&self, channel: &ChannelName) -> Option<Retention> {
        let options = self.options.live.namespaces.find(channel)?;
        Some(options.retention)
    }

    fn key_or_new(&mut self, channel: &ChannelName) -> u32 {
        let make = || Stream::new(self.forgotten);
        self.streams.key_or_insert(channel, make)
    }

    fn retention(&self, channel: &ChannelName) -> Retention {
        self.retention_of(channel).unwrap_or_default()
    }

    /// Whether comings and goings are announced in a channel. Not where subscribers keep only the
    /// latest delivery: that must be a publication.
    pub(super) fn may_announce(&self, channel: &ChannelName) -> bool {
        let options = self.options.live.namespaces.find(channel);
        options.is_some_and(|options| options.overflow != Overflow::LatestOnly)
    }

    pub(super) fn present(
        &self,
        channel: &ChannelName,
        with_members: bool,
    ) -> Result<Present, Refusal> {
        let Some(options) = self.options.live.namespaces.find(channel) else {
            return Err(Refusal::UnknownChannel);
        };
        if !options.presence.is_listed {
            return Err(Refusal::NotAvailable);
        }
        let members_max = self.options.live.reply.members_max;
        self.members.present(channel, with_members, members_max)
    }

    /// Marks shard `from` as interested, and returns the position of the stream.
    pub(super) fn subscribe(
        &mut self,
        from: ShardId,
        channel: &ChannelName,
        since: Option<Position>,
        now: Now,
    ) -> Subscribed {
        let options = self.options.live.namespaces.find(channel).copied();
        let options = options.unwrap_or_default();
        let now = self.shifted(now);
        let key = self.key_or_new(channel);
        self.expire(key, options.retention, now.mono);
        let stream = self.streams.at_mut(key).expect("a key that was just given");
        stream.interest |= 1 << from.0;
        let here = stream.position(self.options.nonce);
        let here = (here, stream.start());
        let since = since.map(|since| self.ancestry.translate(since, here, key));
        let limit = self.options.live.reply;
        let keeps = options.retention.keeps();
        let recovery = match since {
            None => Recovery::NotAsked,
            Some(since) if keeps && options.recovery && options.cache => {
                stream.recover_newest(since, self.options.nonce)
            }
            Some(since) if keeps && options.recovery => {
                stream.recover(since, self.options.nonce, limit)
            }
            Some(_) => Recovery::Lost,
        };
        let position = keeps.then(|| stream.position(self.options.nonce));
        if stream.kept() == 0 && stream.due != NEVER {
            self.idle.remove(&(stream.due, key));
            stream.due = NEVER;
        }
        Subscribed { position, recovery }
    }

    /// Notes that shard `from` has no subscribers any more.
    pub(super) fn leave(&mut self, from: ShardId, channel: &ChannelName, now: Now) {
        let now = self.shifted(now);
        let Some(key) = self.streams.key(channel) else {
            return;
        };
        let Some(stream) = self.streams.at_mut(key) else {
            return;
        };
        stream.interest &= !(1 << from.0);
        self.rest(key, now.mono);
    }

    /// Queues a stream to be forgotten, if it keeps nothing and has no subscribers.
    fn rest(&mut self, key: u32, now: Millis) {
        let Some(stream) = self.streams.at_mut(key) else {
            return;
        };
        if stream.interest != 0 || stream.due != NEVER {
            return;
        }
        if stream.top == 0 {
            self.versions.remove(&key);
            self.ancestry.remove(key);
            self.streams.remove(key);
            return;
        }
        stream.due = now + POSITION_TTL_MS;
        self.idle.insert((stream.due, key));
        while self.idle.len() > self.options.live.streams_max
            && let Some((_, key)) = self.idle.pop_first()
        {
            self.forget(key);
        }
    }

    /// Forgets a stream that had publications. Raises the generation, so that the next stream does
    /// not look like its continuation.
    fn forget(&mut self, key: u32) {
        self.versions.remove(&key);
        self.ancestry.remove(key);
        let removed = self.streams.remove(key);
        self.forgotten = self.forgotten.wrapping_add(1);
        if let Some((channel, _)) = removed {
            self.note_forgotten(key, &channel);
        }
    }

    /// Gives a draft its position, keeps it, and returns the shards that must deliver it. The
    /// caller has looked up the channel's retention and interest.
    pub(super) fn accept(
        &mut self,
        draft: Draft,
        retention: Retention,
        interest: u64,
        now: Now,
    ) -> Accepted {
        let now = self.shifted(now);
        let key = { draft.idempotency_key.as_deref() }.map(|key| key_of(&draft.channel, key));
        let used = key.as_deref().and_then(|key| self.keys.find(key));
        let before = used.or_else(|| self.overtaken(&draft, retention).map(Some));
        if let Some(position) = before {
            return Accepted {
                publication: None,
                position,
                interest: 0,
            };
        }
        let accepted = if retention.keeps() && !draft.skip_history {
            self.publish_kept(draft, retention, now)
        } else {
            Accepted {
                interest,
                publication: Some(publication(draft, None, now)),
                position: None,
            }
        };
        if let Some(key) = key {
            self.remember_key(&key, accepted.position, now.mono);
            self.note_key(&key, accepted.position, now.unix_ms);
        }
        accepted
    }

    /// Position of a draft's stream, if it has a publication of the same version or of a newer one.
    /// Otherwise records the draft's version.
    fn overtaken(&mut self, draft: &Draft, retention: Retention) -> Option<Position> {
        let version = draft.version.as_deref().filter(|_| retention.keeps())?;
        let key = self.key_or_new(&draft.channel);
        if let Some(newest) = self.versions.get(&key) {
            let is_comparable = version.epoch.is_empty() || version.epoch == newest.epoch;
            if is_comparable && version.number <= newest.number {
                return Some(self.streams.at(key)?.1.position(self.options.nonce));
            }
        }
        self.versions.insert(key, version.clone());
        None
    }

    fn publish_kept(&mut self, draft: Draft, retention: Retention, now: Now) -> Accepted {
        let stream_bytes = STREAM_BYTES + draft.channel.as_str().len();
        let bytes = draft.cost_bytes() + stream_bytes;
        let has_room = self.make_room(&draft.channel, bytes, retention, now.mono);
        let key = self.key_or_new(&draft.channel);
        let stream = self.streams.at_mut(key).expect("a key that was just given");
        stream.rise();
        let position = Some(stream.position(self.options.nonce));
        let interest = stream.interest;
        let publication = publication(draft, position, now);
        if has_room {
            if stream.kept() > 0 {
                self.share.give(stream_bytes);
            } else {
                self.idle.remove(&(stream.due, key));
                stream.due = now.mono + retention.ttl_ms;
                self.expiring.insert((stream.due, key));
            }
            stream.append(publication.clone(), now.mono);
            self.history_publications += 1;
            self.note_published(key, &publication);
        } else {
            // A log without its newest publication would hide a gap.
            while self.drop_oldest(key) {}
            self.note_base(key);
            self.rest(key, now.mono);
        }
        Accepted {
            publication: Some(publication),
            position,
            interest,
        }
    }

    /// Replaces the options; what exceeds them is dropped when it is next looked at.
    ///
    /// Where history is switched off, streams begin anew: publications without a position come
    /// between those that have one and those that will, and no client may take the two for a whole.
    pub(in crate::memory) fn renew(&mut self, options: LiveOptions, now: Millis) {
        let now = now + self.shift;
        let before = std::mem::replace(&mut self.options.live, options);
        if !before
            .namespaces
            .keeps_beyond(&self.options.live.namespaces)
        {
            return;
        }
        let ended = |(channel, stream): &(&ChannelName, &Stream)| {
            stream.top > 0 && !self.retention(channel).keeps()
        };
        let ended: Vec<ChannelName> = { self.streams.iter() }
            .filter(ended)
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in ended {
            let Some(key) = self.streams.key(&channel) else {
                continue;
            };
            while self.drop_oldest(key) {}
            self.versions.remove(&key);
            self.ancestry.remove(key);
            self.forgotten = self.forgotten.wrapping_add(1);
            self.note_forgotten(key, &channel);
            let generation = self.forgotten;
            if let Some(stream) = self.streams.at_mut(key) {
                self.idle.remove(&(stream.due, key));
                let interest = stream.interest;
                *stream = Stream::new(generation);
                stream.interest = interest;
            }
            self.rest(key, now);
        }
    }

    /// Forgets the history of a channel; its stream keeps its position.
    pub(in crate::memory) fn forget_history(
        &mut self,
        channel: &ChannelName,
        now: Now,
    ) -> Result<HistoryPage, Refusal> {
        let Some(retention) = self.retention_of(channel) else {
            return Err(Refusal::UnknownChannel);
        };
        if !retention.keeps() {
            return Err(Refusal::NotAvailable);
        }
        if let Some(key) = self.streams.key(channel) {
            while self.drop_oldest(key) {}
            self.note_base(key);
            let now = self.shifted(now);
            self.rest(key, now.mono);
        }
        Ok(HistoryPage::default())
    }

    pub(in crate::memory) fn history(
        &mut self,
        channel: &ChannelName,
        query: HistoryQuery,
        now: Now,
    ) -> Result<HistoryPage, Refusal> {
        let retention = self.retention(channel);
        if !retention.keeps() {
            return Err(Refusal::NotAvailable);
        }
        let (nonce, limit) = (self.options.nonce, self.options.live.reply);
        let now = self.shifted(now);
        if let Some(key) = self.streams.key(channel) {
            self.expire(key, retention, now.mono);
            self.rest(key, now.mono);
        }
        // A stream that has not been used yet: gives where it would begin, without making it.
        let unused = Stream::new(self.forgotten);
        let key = self.streams.key(channel);
        let stream = key.and_then(|key| self.streams.at(key));
        let stream = stream.map_or(&unused, |(_, stream)| stream);
        let here = stream.position(nonce);
        let translate = |since| {
            let here = (here, stream.start());
            self.ancestry
                .translate(since, here, key.unwrap_or(u32::MAX))
        };
        let query = HistoryQuery {
            since: query.since.map(translate),
            ..query
        };
        Ok(HistoryPage {
            position: Some(here),
            publications: stream.page(query, nonce, limit)?,
        })
    }
}

fn publication(draft: Draft, position: Option<Position>, now: Now) -> Arc<Publication> {
    Publication {
        channel: draft.channel,
        told: PublicationKind::Data,
        position,
        payload: draft.payload,
        publisher: draft.publisher,
        tags: draft.tags,
        time_unix_ms: now.unix_ms,
        trace: draft.trace,
    }
    .shared()
}

#[cfg(test)]
mod tests;
