//! What an app holds on this node: channels with subscribers, and the newest events of its cache
//! channels, as far as they came through this node.
//!
//! Rule for "full": the subscribe, or the call, is refused.
//!
//! Invariants
//! - `channels` has each subscription of a session whose shard knows of a limit, and no other.
//! - `bytes` is the sum of `caches`, and `ends` has each of them once.

#![expect(
    clippy::disallowed_types,
    reason = "all shards of a node share what an app holds"
)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use throng_broker::Draft;
use throng_types::{ChannelName, Millis, lock};

use crate::names::{CACHE_TTL_MS, is_cache};

#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Subscriptions of each channel. Bound: `channels_max`, and those from before a limit.
    channels: Mutex<HashMap<ChannelName, u32>>,
    caches: Mutex<Caches>,
}

#[derive(Debug, Default)]
struct Caches {
    /// Bytes that each has, with their end. Bound: `history_bytes_max`, of which each has a part.
    caches: HashMap<ChannelName, (u64, Millis)>,
    /// Channels by their ends. Bound: `caches`.
    ends: BTreeSet<(Millis, ChannelName)>,
    bytes: u64,
}

impl Held {
    /// Counts a subscription. False, and it is not counted, if its channel would be one more than
    /// `most`.
    pub(crate) fn enter(&self, channel: &ChannelName, most: u64) -> bool {
        let mut channels = lock(&self.channels);
        let has_room = (channels.len() as u64) < most;
        match channels.get_mut(channel) {
            Some(count) => *count += 1,
            None if has_room => drop(channels.insert(channel.clone(), 1)),
            None => return false,
        }
        true
    }

    pub(crate) fn leave(&self, channel: &ChannelName) {
        let mut channels = lock(&self.channels);
        if let Some(count) = channels.get_mut(channel) {
            *count -= 1;
            if *count == 0 {
                channels.remove(channel);
            }
        }
    }

    /// Counts the events of cache channels in the place of those before. Error: seconds until one
    /// ends; nothing is counted then.
    pub(crate) fn keep(&self, drafts: &[Draft], most: u64, now: Millis) -> Result<(), u64> {
        let mut caches = lock(&self.caches);
        caches.end(now);
        let mut before = Vec::new();
        for Draft {
            channel, payload, ..
        } in drafts.iter().filter(|it| is_cache(&it.channel))
        {
            let bytes = (channel.as_str().len() + payload.bytes.len()) as u64;
            let new = Some((bytes, now + CACHE_TTL_MS));
            before.push((channel, caches.put(channel, new)));
        }
        if before.is_empty() || caches.bytes <= most {
            return Ok(());
        }
        for (channel, old) in before.into_iter().rev() {
            caches.put(channel, old);
        }
        let first = caches.ends.first();
        let end = first.map_or(now + CACHE_TTL_MS, |(end, _)| *end);
        Err((end.0 - now.0).div_ceil(1000))
    }

    /// Forgets all that is in caches.
    pub(crate) fn forget_caches(&self) {
        *lock(&self.caches) = Caches::default();
    }
}

impl Caches {
    /// Puts what a channel has in the place of what it had, which is returned.
    fn put(&mut self, channel: &ChannelName, new: Option<(u64, Millis)>) -> Option<(u64, Millis)> {
        let old = match new {
            Some(new) => self.caches.insert(channel.clone(), new),
            None => self.caches.remove(channel),
        };
        if let Some((bytes, end)) = old {
            self.bytes -= bytes;
            self.ends.remove(&(end, channel.clone()));
        }
        if let Some((bytes, end)) = new {
            self.bytes += bytes;
            self.ends.insert((end, channel.clone()));
        }
        old
    }

    fn end(&mut self, now: Millis) {
        while let Some((_, channel)) = self.ends.first().filter(|(end, _)| *end <= now).cloned() {
            self.put(&channel, None);
        }
    }
}
