//! Numbers of subscribers, of which the subscribers of a channel are told after a change.
//!
//! A shard passes the channels that changed on to the shards that they are at home on. There, once
//! a second, all shards and nodes are asked for the numbers of those that changed, and each number
//! is published in its channel. Two nodes on which a channel changes both tell of it.
//!
//! Invariant: a channel that has changed is in one of the sets until all have answered for it, but
//! for those above [`CHANNELS_MAX`], whose subscribers hear of the next change.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::home_of;
use throng_session::{Survey, SurveyReply};
use throng_types::{ChannelName, Millis};

/// Bound of each set of channels.
const CHANNELS_MAX: usize = 65_536;
/// Channels of one question to all shards and nodes.
const ASKED_MAX: usize = 1024;
/// Subscribers above which a channel's number is told less often, as by Pusher.
const MANY: u32 = 100;
/// Time between two of these numbers, in milliseconds.
const MANY_PAUSE_MS: u64 = 5000;

#[derive(Default)]
pub(crate) struct Counts {
    /// Channels that changed on this shard, until their homes know. Bound: [`CHANNELS_MAX`].
    changed: BTreeSet<ChannelName>,
    /// Channels at home here that have changed. Queue: `numbers to tell`, [`CHANNELS_MAX`].
    due: BTreeSet<ChannelName>,
    /// Those of them whose turn has come; it is empty before others have theirs. Bound: `due`.
    next: BTreeSet<ChannelName>,
    /// Channels that all shards are being asked for. Bound: [`ASKED_MAX`].
    asked: Vec<ChannelName>,
    /// Channels with many subscribers, and the time until which nothing is told. Bound: what is
    /// asked for in [`MANY_PAUSE_MS`].
    paused: BTreeMap<ChannelName, Millis>,
}

fn put(channel: ChannelName, set: &mut BTreeSet<ChannelName>) {
    if set.len() < CHANNELS_MAX {
        set.insert(channel);
    }
}

impl Counts {
    /// Notes a channel that changed on this shard.
    pub(crate) fn note(&mut self, channel: ChannelName) {
        put(channel, &mut self.changed);
    }

    /// Takes channels at home here that changed on another shard.
    pub(crate) fn take(&mut self, channels: Vec<ChannelName>) {
        for channel in channels {
            put(channel, &mut self.due);
        }
    }

    /// Whether a channel changed on this shard since the last call of [`Self::take_changed`].
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes what changed on this shard since the last call, for each home.
    pub(crate) fn take_changed(&mut self, shards: u8) -> BTreeMap<u8, Vec<ChannelName>> {
        let mut by_home: BTreeMap<u8, Vec<_>> = BTreeMap::new();
        for channel in std::mem::take(&mut self.changed) {
            let home = home_of(&channel, shards);
            by_home.entry(home.0).or_default().push(channel);
        }
        by_home
    }

    /// Question for the numbers that are to be told, unless others are being asked for.
    pub(crate) fn ask(&mut self, now: Millis) -> Option<Survey> {
        if !self.asked.is_empty() {
            return None;
        }
        self.paused.retain(|_, until| *until > now);
        if self.next.is_empty() {
            self.next = std::mem::take(&mut self.due);
        }
        while self.asked.len() < ASKED_MAX
            && let Some(channel) = self.next.pop_first()
        {
            match self.paused.contains_key(&channel) {
                true => put(channel, &mut self.due),
                false => self.asked.push(channel),
            }
        }
        (!self.asked.is_empty()).then(|| Survey::Subscribers(self.asked.clone()))
    }

    /// Tells the numbers that were asked for; they are asked for again if a node does not
    /// answer. `is_told` tells one, and is false if it is to be told later.
    pub(crate) fn tell(
        &mut self,
        replies: Vec<SurveyReply>,
        now: Millis,
        mut is_told: impl FnMut(&ChannelName, u32) -> bool,
    ) {
        let asked = std::mem::take(&mut self.asked);
        let (own, Some(others)) = SurveyReply::split(replies) else {
            return self.take(asked);
        };
        let sums = SurveyReply::sum_channels((own, others), |_| true);
        for channel in asked {
            let count = sums.get(&channel).copied().unwrap_or_default();
            if !is_told(&channel, count) {
                put(channel, &mut self.due);
            } else if count > MANY {
                self.paused.insert(channel, now + MANY_PAUSE_MS);
            }
        }
    }
}
