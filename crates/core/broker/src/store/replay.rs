//! Rebuilds streams and keys from a log.
//!
//! Owns the streams while the log is read, trimmed as it goes by what their channels keep and by
//! age, so it holds no more than homes would. Invalid bytes change nothing.
//!
//! Invariant: the publications of a stream have the offsets up to its `top`, without a hole. Where
//! the log has one, what is kept begins behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{ChannelName, Publication, PublicationKind, ShardId};

use super::item::{LogEntry, UsedKey};
use super::segment::{ANCESTORS_MAX, Begins, Head, Lineage};
use crate::{ChannelMap, NamespaceOptions, Version};

/// Maximum number of idempotency keys that are read; the newest stay.
const KEYS_MAX: usize = 1 << 20;

pub(crate) struct Loaded {
    pub(crate) generation: u32,
    pub(crate) top: u64,
    pub(crate) version: Option<Version>,
    /// Up to which offset each earlier nonce is the same stream. Bound: [`ANCESTORS_MAX`].
    pub(crate) tops: Vec<(u32, u64)>,
    /// Publications, oldest first, without their positions. Bound: what the channel keeps.
    pub(crate) log: VecDeque<Publication>,
}

pub struct Restored {
    pub(crate) lineage: Lineage,
    pub(crate) forgotten: u32,
    /// Bound: what the segments hold.
    pub(crate) streams: Vec<(ChannelName, Loaded)>,
    /// Oldest first. Bound: [`KEYS_MAX`].
    pub(crate) keys: Vec<UsedKey>,
}

impl Restored {
    /// Number of streams, and of the publications that they keep.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let publications = self.streams.iter().map(|(_, stream)| stream.log.len());
        (self.streams.len(), publications.sum())
    }
}

pub struct Replay {
    namespaces: Arc<NamespaceOptions>,
    hash_seed: u64,
    now_unix_ms: u64,
    lineage: Option<Lineage>,
    forgotten: u32,
    streams: ChannelMap<Loaded>,
    /// Idempotency keys, oldest first. Bound: [`KEYS_MAX`].
    keys: VecDeque<UsedKey>,
    is_closed: bool,
}

impl Replay {
    /// Starts to read a log. Publications older than their channel keeps them are left out.
    #[must_use]
    pub fn new(namespaces: Arc<NamespaceOptions>, hash_seed: u64, now_unix_ms: u64) -> Self {
        Self {
            namespaces,
            hash_seed,
            now_unix_ms,
            lineage: None,
            forgotten: 0,
            streams: ChannelMap::new(hash_seed),
            keys: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Epochs of the last head; `None` if there was none.
    #[must_use]
    pub const fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    /// Returns how the next process begins behind this log, and its epochs, given a random nonce.
    #[must_use]
    pub fn next(&self, nonce: u32) -> (Begins, Lineage) {
        let fresh = || Lineage {
            nonce,
            ancestors: Vec::new(),
        };
        match &self.lineage {
            None => (Begins::Fresh, fresh()),
            Some(before) => (Begins::NextEpochs, before.next(nonce)),
        }
    }

    /// Whether the record that was read last is that of a clean end.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn head(&mut self, head: &Head) {
        self.is_closed = false;
        match head.begins {
            Begins::Continues => {}
            Begins::NextEpochs => self.next_epochs(),
            Begins::Fresh => {
                self.streams = ChannelMap::new(self.hash_seed);
                self.keys.clear();
            }
        }
        self.lineage = Some(head.lineage.clone());
    }

    /// Starts new epochs: each stream is known up to where it stands.
    fn next_epochs(&mut self) {
        let Some(Lineage { nonce, .. }) = self.lineage else {
            return;
        };
        let keys: Vec<u32> = self.streams.entries().map(|(key, ..)| key).collect();
        for key in keys {
            if let Some(stream) = self.streams.at_mut(key) {
                let top = stream.top;
                stream.tops.push((nonce, top));
                // Where the log was damaged it may say less than a process before has read.
                stream
                    .tops
                    .iter_mut()
                    .for_each(|(_, at)| *at = top.min(*at));
                let beyond = stream.tops.len().saturating_sub(ANCESTORS_MAX);
                stream.tops.drain(..beyond);
            }
        }
    }

    /// Takes a record behind a head; false if it is not valid.
    pub fn record(&mut self, record: &[u8]) -> bool {
        self.is_closed = false;
        let Some(item) = LogEntry::of_record(record) else {
            return false;
        };
        self.take(item);
        true
    }

    fn take(&mut self, item: LogEntry) {
        match item {
            LogEntry::Base {
                channel,
                generation,
                offset,
                version,
                tops,
            } => {
                self.counts(generation);
                let mut base = Loaded {
                    generation,
                    top: offset,
                    version,
                    tops,
                    log: VecDeque::new(),
                };
                if let Some(key) = self.streams.key(&channel)
                    && let Some((_, before)) = self.streams.remove(key)
                    && before.generation == generation
                    && before.top >= offset
                {
                    // Part of a copy: the records before it in the log count until the copy repeats
                    // them.
                    (base.top, base.log) = (before.top, before.log);
                    let keeps = usize::try_from(base.top - offset).unwrap_or(usize::MAX);
                    let beyond = base.log.len().saturating_sub(keeps);
                    base.log.drain(..beyond);
                }
                self.streams.key_or_insert(&channel, || base);
            }
            LogEntry::Published {
                channel,
                generation,
                offset,
                version,
                payload,
                publisher,
                tags,
                time_unix_ms,
            } => {
                let publication = Publication {
                    channel,
                    told: PublicationKind::Data,
                    position: None,
                    payload,
                    publisher,
                    tags,
                    time_unix_ms,
                    trace: None,
                };
                self.published(publication, (generation, offset), version);
            }
            LogEntry::Forgotten { channel, count } => {
                self.counts(count);
                if let Some(key) = self.streams.key(&channel) {
                    self.streams.remove(key);
                }
            }
            LogEntry::Count(count) => self.counts(count),
            LogEntry::Key(key) => {
                if self.keys.len() == KEYS_MAX {
                    self.keys.pop_front();
                }
                self.keys.push_back(key);
            }
            LogEntry::Closed => self.is_closed = true,
        }
    }

    fn counts(&mut self, generation: u32) {
        self.forgotten = self.forgotten.max(generation);
    }

    fn published(
        &mut self,
        publication: Publication,
        (generation, offset): (u32, u64),
        version: Option<Version>,
    ) {
        self.counts(generation);
        let channel = publication.channel.clone();
        let retention = { self.namespaces.find(&channel) }.map(|options| options.retention);
        let retention = retention.unwrap_or_default();
        let fresh = || Loaded {
            generation,
            top: offset - 1,
            version: None,
            tops: Vec::new(),
            log: VecDeque::new(),
        };
        if offset == 0 {
            return;
        }
        let key = self.streams.key_or_insert(&channel, fresh);
        let Some(stream) = self.streams.at_mut(key) else {
            return;
        };
        if stream.generation != generation {
            *stream = fresh();
        }
        if offset <= stream.top {
            return;
        }
        if offset != stream.top + 1 {
            // Publications before it are missing.
            stream.log.clear();
        }
        stream.top = offset;
        stream.version = version;
        stream.log.push_back(publication);
        let is_over = |publication: &Publication| {
            self.now_unix_ms.saturating_sub(publication.time_unix_ms) >= retention.ttl_ms
        };
        while stream.log.len() > retention.publications_max as usize
            || stream.log.front().is_some_and(is_over)
        {
            stream.log.pop_front();
        }
    }

    /// Ends the log. New epochs begin, as `lineage` has them; each stream is known up to where it
    /// stands. Gives each shard what is at home there.
    pub fn finish(
        mut self,
        lineage: &Lineage,
        shards: u8,
        home_of: impl Fn(&ChannelName, u8) -> ShardId,
    ) -> Vec<Restored> {
        self.next_epochs();
        let all: Vec<u32> = self.streams.entries().map(|(key, ..)| key).collect();
        let mut ended = false;
        let mut homes: Vec<Restored> = (0..shards.max(1))
            .map(|_| Restored {
                lineage: lineage.clone(),
                forgotten: 0,
                streams: Vec::new(),
                keys: Vec::new(),
            })
            .collect();
        for key in all {
            let Some((channel, stream)) = self.streams.remove(key) else {
                continue;
            };
            let options = self.namespaces.find(&channel);
            if !options.is_some_and(|options| options.retention.keeps()) {
                // It keeps nothing any more; what follows begins anew.
                ended = true;
                continue;
            }
            let home = home_of(&channel, shards).index();
            homes[home].streams.push((channel, stream));
        }
        for key in self.keys {
            let channel = key.text.split('\n').next().unwrap_or_default();
            if let Ok(channel) = ChannelName::with_bound(channel, usize::MAX) {
                homes[home_of(&channel, shards).index()].keys.push(key);
            }
        }
        for home in &mut homes {
            home.forgotten = self.forgotten.wrapping_add(u32::from(ended));
        }
        homes
    }
}
