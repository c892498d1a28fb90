//! Restores a home from what its store has.
//!
//! Expired entries are left out. What does not fit into the budget goes, and the positions
//! of its stream stay.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{ChannelName, Millis, Now, Position};

use super::{Home, NEVER, POSITION_TTL_MS, STREAM_BYTES, Stream};
use crate::memory::ancestry::epoch_of;
use crate::memory::keys::{KEYS_MAX, Keys, TTL_MS};
use crate::memory::stream::Kept;
use crate::store::{KeptKey, Loaded};
use crate::{Lineage, Restored};

impl Home {
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
        let is_known = |key: &&KeptKey| now.unix_ms.saturating_sub(key.at_unix_ms) < TTL_MS;
        let known = keys.iter().filter(is_known);
        let oldest = times.chain(known.map(|key| key.at_unix_ms)).min();
        self.shift = now.unix_ms.saturating_sub(oldest.unwrap_or(now.unix_ms));
        let now = self.shifted(now);
        for (channel, loaded) in streams {
            self.restore_stream(&channel, loaded, now);
        }
        let known = keys.iter().filter(is_known).rev().take(KEYS_MAX);
        let known: Vec<&KeptKey> = known.collect();
        for key in known.into_iter().rev() {
            self.restore_key(key, now);
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
        let due = stream.due;
        let key = self.streams.key_or_insert(channel, || stream);
        if keeps {
            self.expiring.insert((due, key));
        } else {
            self.idle.insert((due, key));
        }
        if let Some(version) = version {
            self.versions.insert(key, version);
        }
        let before = if keeps { top - count } else { top };
        let start = self.ancestry.set_tops(key, tops, before);
        if let Some(stream) = self.streams.at_mut(key) {
            stream.stand(top, start);
        }
    }

    fn restore_key(&mut self, key: &KeptKey, now: Now) {
        let text = &*key.text;
        if self.keys.find(text).is_none() && self.share.take(Keys::cost_bytes(text)) {
            let nonce = self.options.nonce;
            let position = key.position.map(|(generation, offset)| Position {
                epoch: epoch_of(nonce, generation),
                offset,
            });
            self.keys
                .insert(text, position, before(now, key.at_unix_ms));
        }
    }
}

/// Time of the home's clock for a moment of the wall clock; never later than now.
fn before(now: Now, unix_ms: u64) -> Millis {
    let age = now.unix_ms.saturating_sub(unix_ms);
    Millis(now.mono.0.saturating_sub(age))
}
