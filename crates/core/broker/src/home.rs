//! The memory broker: the streams of the channels whose home is this shard.
//!
//! Owns: positions, history, and which shards have subscribers. Never: subscribers,
//! queues, the clock.
//!
//! Invariants
//! - `history_bytes` equals the cost of all kept publications and, after each call,
//!   is at most `history_bytes_max` (one publication larger than that is not kept).
//! - A stream that was forgotten after it had publications never returns with the
//!   same epoch: `forgotten` rises first.
//! - A stream that keeps a log, or that only its age holds, has an alarm at `alarm_at`
//!   in the list; entries with another time are stale and ignored.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::sync::Arc;

use hashbrown::HashMap;
use throng_types::{ChannelName, Millis, Now, Position, Publication, ShardId};

use crate::stream::{NO_ALARM, Stream};
use crate::{
    ChannelMap, Draft, HistoryPage, HistoryQuery, Namespaces, Recovery, Refusal, Retention,
    Subscribed,
};

/// How long a stream without subscribers and history remembers where it stood, so that
/// a client that missed nothing is told so. In milliseconds.
const POSITION_TTL_MS: u64 = 3_600_000;
/// How long an idempotency key is remembered, in milliseconds (Centrifugo: five minutes).
const IDEMPOTENCY_TTL_MS: u64 = 300_000;
/// How many idempotency keys are remembered; when full, the oldest goes early.
const IDEMPOTENCY_KEYS_MAX: usize = 65_536;

/// The shard that is home to a channel.
#[must_use]
pub fn home_of(channel: &ChannelName, shards: u8) -> ShardId {
    // The high half: FNV's low bits are the weaker ones.
    ShardId(((channel.stable_hash() >> 32) % u64::from(shards.max(1))) as u8)
}

/// What a home is made of.
#[derive(Clone)]
pub struct HomeOptions {
    /// Names this process in epochs: differs from start to start.
    pub nonce: u32,
    /// Seeds the hash of channel names, which come from strangers.
    pub hash_seed: u64,
    /// History is kept within this many bytes, per home.
    pub history_bytes_max: usize,
    /// The options of channels.
    pub namespaces: Arc<Namespaces>,
}

/// Sizes for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeStats {
    /// Streams that are remembered.
    pub streams: usize,
    /// Publications kept.
    pub history_publications: usize,
    /// Their cost.
    pub history_bytes: usize,
}

/// An accepted publication and who must get it.
#[derive(Clone, Debug)]
pub struct Published {
    /// The publication with its position, or `None` for a repeated idempotency key.
    pub publication: Option<Arc<Publication>>,
    /// The position it has (for a repetition, the first one's).
    pub position: Option<Position>,
    /// Bit `n` is set if shard `n` has subscribers.
    pub interest: u64,
}

/// See the module's head.
pub struct Home {
    options: HomeOptions,
    streams: ChannelMap<Stream>,
    alarms: BinaryHeap<Reverse<(Millis, ChannelName)>>,
    history_bytes: usize,
    history_publications: usize,
    forgotten: u32,
    keys: HashMap<Box<str>, Option<Position>, foldhash::fast::FixedState>,
    keys_by_age: VecDeque<(Millis, Box<str>)>,
}

impl Home {
    /// A home without streams.
    #[must_use]
    pub fn new(options: HomeOptions) -> Self {
        let hasher = foldhash::fast::FixedState::with_seed(options.hash_seed);
        Self {
            streams: ChannelMap::new(options.hash_seed),
            keys: HashMap::with_hasher(hasher),
            options,
            alarms: BinaryHeap::new(),
            history_bytes: 0,
            history_publications: 0,
            forgotten: 0,
            keys_by_age: VecDeque::new(),
        }
    }

    /// Sizes for metrics.
    #[must_use]
    pub fn stats(&self) -> HomeStats {
        HomeStats {
            streams: self.streams.len(),
            history_publications: self.history_publications,
            history_bytes: self.history_bytes,
        }
    }

    /// Which shards have subscribers of a channel, as bits.
    #[must_use]
    pub fn interest(&self, channel: &ChannelName) -> u64 {
        self.streams
            .get(channel)
            .map_or(0, |stream| stream.interest)
    }

    fn retention(&self, channel: &ChannelName) -> Retention {
        self.options
            .namespaces
            .find(channel)
            .map(|options| options.retention)
            .unwrap_or_default()
    }

    /// Notes that shard `from` has subscribers and says where the stream stands.
    pub fn subscribe(
        &mut self,
        from: ShardId,
        channel: &ChannelName,
        since: Option<Position>,
        now: Now,
    ) -> Subscribed {
        let retention = self.retention(channel);
        let recovery_on = self
            .options
            .namespaces
            .find(channel)
            .is_some_and(|options| options.recovery);
        let nonce = self.options.nonce;
        let stream = self
            .streams
            .get_or_insert(channel, || Stream::new(self.forgotten));
        stream.interest |= 1 << from.0;
        if !retention.keeps() {
            let recovery = if since.is_some() {
                Recovery::Lost
            } else {
                Recovery::NotAsked
            };
            return Subscribed {
                position: None,
                recovery,
            };
        }
        let before = stream.kept();
        self.history_bytes -= stream.expire(retention, now.mono);
        self.history_publications -= before - stream.kept();
        let recovery = match since {
            None => Recovery::NotAsked,
            Some(since) if recovery_on => stream.recover(since, nonce),
            Some(_) => Recovery::Lost,
        };
        Subscribed {
            position: Some(stream.position(nonce)),
            recovery,
        }
    }

    /// Notes that shard `from` has no subscribers any more.
    pub fn leave(&mut self, from: ShardId, channel: &ChannelName, now: Now) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        stream.interest &= !(1 << from.0);
        if stream.interest != 0 || stream.alarm_at != NO_ALARM {
            return;
        }
        if stream.top == 0 {
            self.forget(channel);
        } else {
            let at = now.mono + POSITION_TTL_MS;
            set_alarm(&mut self.alarms, stream, at, channel.clone());
        }
    }

    fn forget(&mut self, channel: &ChannelName) {
        if let Some(key) = self.streams.key(channel) {
            self.streams.remove(key);
        }
    }

    /// Gives a draft its position, keeps it, and says which shards must deliver it.
    pub fn publish(&mut self, draft: Draft, now: Now) -> Published {
        let key = draft
            .idempotency_key
            .as_deref()
            .map(|key| key_of(&draft.channel, key));
        if let Some(&position) = key.as_deref().and_then(|key| self.keys.get(key)) {
            return Published {
                publication: None,
                position,
                interest: 0,
            };
        }
        let retention = self.retention(&draft.channel);
        let keep = retention.keeps() && !draft.skip_history;
        let publication = |position| {
            Publication {
                channel: draft.channel.clone(),
                position,
                payload: draft.payload,
                publisher: draft.publisher,
                tags: draft.tags,
                time_unix_ms: now.unix_ms,
            }
            .shared()
        };
        let published = if keep {
            let stream = self
                .streams
                .get_or_insert(&draft.channel, || Stream::new(self.forgotten));
            stream.top += 1;
            let position = Some(stream.position(self.options.nonce));
            let interest = stream.interest;
            let publication = publication(position);
            self.keep(&draft.channel, publication.clone(), retention, now);
            Published {
                publication: Some(publication),
                position,
                interest,
            }
        } else {
            let interest = self.interest(&draft.channel);
            Published {
                publication: Some(publication(None)),
                position: None,
                interest,
            }
        };
        if let Some(key) = key {
            self.remember_key(key, published.position, now.mono);
        }
        published
    }

    fn keep(
        &mut self,
        channel: &ChannelName,
        publication: Arc<Publication>,
        retention: Retention,
        now: Now,
    ) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        let before = stream.kept();
        self.history_bytes += publication.cost_bytes();
        self.history_bytes -= stream.append(publication, retention, now.mono);
        self.history_publications = self.history_publications + stream.kept() - before;
        let expires_at = now.mono + retention.ttl_ms;
        if expires_at < stream.alarm_at {
            set_alarm(&mut self.alarms, stream, expires_at, channel.clone());
        }
        self.evict(now);
    }

    /// Frees history until it is within its budget, from the streams whose turn to expire comes
    /// first.
    fn evict(&mut self, now: Now) {
        while self.history_bytes > self.options.history_bytes_max {
            let Some(Reverse((at, channel))) = self.alarms.pop() else {
                return;
            };
            let stream = self.streams.get_mut(&channel);
            let Some(stream) = stream.filter(|stream| stream.alarm_at == at) else {
                continue;
            };
            let before = stream.kept();
            self.history_bytes -= stream.evict_oldest();
            self.history_publications -= before - stream.kept();
            self.rearm(at.max(now.mono), channel);
        }
    }

    /// Sets the next alarm of a stream whose alarm has just been taken off the list, or forgets the
    /// stream.
    fn rearm(&mut self, now: Millis, channel: ChannelName) {
        let retention = self.retention(&channel);
        let Some(stream) = self.streams.get_mut(&channel) else {
            return;
        };
        stream.alarm_at = NO_ALARM;
        if let Some(oldest_at) = stream.oldest_at() {
            let at = oldest_at + retention.ttl_ms;
            set_alarm(&mut self.alarms, stream, at, channel);
        } else if stream.interest == 0 {
            set_alarm(&mut self.alarms, stream, now + POSITION_TTL_MS, channel);
        }
    }

    /// Expires history and forgets idle streams, at most `budget` of them; true if more are due.
    pub fn sweep(&mut self, now: Now, budget: usize) -> bool {
        self.forget_keys(now.mono);
        for _ in 0..budget {
            let first = self.alarms.peek_mut();
            let Some(due) = first.filter(|alarm| alarm.0.0 <= now.mono) else {
                return false;
            };
            let Reverse((at, channel)) = PeekMut::pop(due);
            self.alarm(at, channel, now);
        }
        true
    }

    fn alarm(&mut self, at: Millis, channel: ChannelName, now: Now) {
        let retention = self.retention(&channel);
        let stream = self.streams.get_mut(&channel);
        let Some(stream) = stream.filter(|stream| stream.alarm_at == at) else {
            return;
        };
        let before = stream.kept();
        let freed_bytes = stream.expire(retention, now.mono);
        let had_log = before > 0;
        self.history_bytes -= freed_bytes;
        self.history_publications -= before - stream.kept();
        if stream.kept() == 0 && stream.interest == 0 && !had_log {
            // Only its age held it. What comes after must not look like a continuation.
            self.forget(&channel);
            self.forgotten = self.forgotten.wrapping_add(1);
            return;
        }
        self.rearm(now.mono, channel);
    }

    /// Reads the past of a channel.
    pub fn history(
        &mut self,
        channel: &ChannelName,
        query: HistoryQuery,
        now: Now,
    ) -> Result<HistoryPage, Refusal> {
        let retention = self.retention(channel);
        if !retention.keeps() {
            return Err(Refusal::NotAvailable);
        }
        let nonce = self.options.nonce;
        let forgotten = self.forgotten;
        let Some(stream) = self.streams.get_mut(channel) else {
            // Nobody has used it yet: where it would begin, without making it.
            let nothing = Stream::new(forgotten);
            let publications = nothing.page(query, nonce)?;
            return Ok(HistoryPage {
                position: Some(nothing.position(nonce)),
                publications,
            });
        };
        let before = stream.kept();
        self.history_bytes -= stream.expire(retention, now.mono);
        self.history_publications -= before - stream.kept();
        let publications = stream.page(query, nonce)?;
        Ok(HistoryPage {
            position: Some(stream.position(nonce)),
            publications,
        })
    }

    fn remember_key(&mut self, key: Box<str>, position: Option<Position>, now: Millis) {
        if self.keys_by_age.len() >= IDEMPOTENCY_KEYS_MAX
            && let Some((_, oldest)) = self.keys_by_age.pop_front()
        {
            self.keys.remove(&oldest);
        }
        self.keys.insert(key.clone(), position);
        self.keys_by_age.push_back((now, key));
    }

    fn forget_keys(&mut self, now: Millis) {
        while let Some((at, _)) = self.keys_by_age.front()
            && now.since(*at) >= IDEMPOTENCY_TTL_MS
        {
            if let Some((_, key)) = self.keys_by_age.pop_front() {
                self.keys.remove(&key);
            }
        }
    }
}

fn set_alarm(
    alarms: &mut BinaryHeap<Reverse<(Millis, ChannelName)>>,
    stream: &mut Stream,
    at: Millis,
    channel: ChannelName,
) {
    stream.alarm_at = at;
    alarms.push(Reverse((at, channel)));
}

/// A control character cannot stand in a channel name, so the pair is unambiguous.
fn key_of(channel: &ChannelName, key: &str) -> Box<str> {
    format!("{channel}\n{key}").into()
}

#[cfg(test)]
#[path = "home/tests.rs"]
mod tests;
