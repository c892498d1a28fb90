//! Topics for publishers: the channels that have subscribers.

use throng_session::{Flow, Shard};
use throng_types::{ChannelName, ConnId, ShardId};

use crate::grip::Grip;
use crate::mail::Mail;

/// Milliseconds between two looks for channels without subscribers.
const LOOK_MS: u64 = 10_000;

impl Grip {
    /// A session here subscribes to a channel.
    pub(crate) fn subscribed(&mut self, channel: &ChannelName, shard: &mut impl Shard<Self>) {
        if self.topics.own.insert(channel.clone()) {
            self.tell_topic(channel, true, shard);
        }
    }

    fn tell_topic(&mut self, channel: &ChannelName, is_wanted: bool, shard: &mut impl Shard<Self>) {
        shard.mail_all(|| Mail::Topic {
            channel: channel.clone(),
            is_wanted,
        });
        self.topic(shard.this(), channel, is_wanted, shard);
    }

    /// A shard has subscribers of a channel, or none any more.
    pub(crate) fn topic(
        &mut self,
        from: ShardId,
        channel: &ChannelName,
        is_wanted: bool,
        shard: &mut impl Shard<Self>,
    ) {
        let wanted = self.topics.wanted.entry(channel.clone()).or_default();
        let before = wanted.shards;
        if is_wanted {
            wanted.shards |= 1 << from.0;
        } else {
            wanted.shards &= !(1 << from.0);
        }
        let after = wanted.shards;
        if before == 0 {
            wanted.told = self.shared.topic_told();
        }
        if after == 0 {
            self.topics.wanted.remove(channel);
        }
        if (before == 0) != (after == 0) {
            for &conn in &self.topics.listeners {
                shard.with(conn, |session, cx| {
                    session.topic(channel, is_wanted, cx);
                    Flow::Stay
                });
            }
        }
    }

    /// Adds a publisher that listens to topics.
    pub(crate) fn listen(&mut self, conn: ConnId, shard: &mut impl Shard<Self>) {
        self.topics.listeners.push(conn);
        let wanted = &self.topics.wanted;
        shard.with(conn, |session, cx| {
            for channel in wanted.keys() {
                session.topic(channel, true, cx);
            }
            Flow::Stay
        });
    }

    /// Reports channels without subscribers here.
    pub(crate) fn forget_topics(&mut self, shard: &mut impl Shard<Self>) {
        let now = shard.now().mono;
        if now < self.topics.look_at || self.topics.own.is_empty() {
            return;
        }
        self.topics.look_at = now + LOOK_MS;
        let hub = shard.hub();
        let left = self.topics.own.iter();
        let left: Vec<ChannelName> = left
            .filter(|channel| !hub.has_channel(channel))
            .cloned()
            .collect();
        for channel in left {
            self.topics.own.remove(&channel);
            self.tell_topic(&channel, false, shard);
        }
    }
}
