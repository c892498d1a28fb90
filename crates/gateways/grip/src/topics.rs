//! Channels with subscribers, for publishers that listen to them (ZeroMQ's SUB socket).
//!
//! Each shard tells all others when it gets the first subscriber of a channel, and, a while after
//! the last one has left, that it has none. Nothing is sent unless the socket is configured.

use std::collections::{BTreeMap, BTreeSet};

use throng_session::Flow;
use throng_types::{ChannelName, ConnId, Millis, Save, ShardId};

use crate::GripShard;
use crate::event::Session;
use crate::order::Mail;
use crate::shared::GripShared;

/// Milliseconds between two looks for channels without subscribers.
const LOOK_MS: u64 = 10_000;

/// Channels with subscribers, and the publishers that listen.
#[derive(Default, Save)]
pub(crate) struct Topics {
    /// Bound: the subscriptions of all shards.
    pub(crate) wanted: BTreeMap<ChannelName, Topic>,
    /// Those of this shard. Bound: its subscriptions.
    pub(crate) own: BTreeSet<ChannelName>,
    /// Bound: the connections to the PUB socket. They reconnect to another process, and are told
    /// all topics then.
    #[save(skip)]
    pub(crate) listeners: Vec<ConnId>,
    pub(crate) look_at: Millis,
}

/// Channel that is reported to publishers as having subscribers.
#[derive(Clone, Copy, Default, Save)]
pub(crate) struct Topic {
    /// The shards that have some, as bits.
    pub(crate) shards: u64,
    /// Number of this channel among all reported to publishers, as this shard counts.
    pub(crate) told: u64,
}

impl Topics {
    /// Whether publishers were told of a channel before this number was reached: then they have
    /// published to it ever since.
    pub(crate) fn was_told(&self, channel: &ChannelName, before: u64) -> bool {
        self.wanted
            .get(channel)
            .is_some_and(|wanted| wanted.told <= before)
    }

    pub(crate) fn left(&mut self, conn: ConnId) {
        self.listeners.retain(|known| *known != conn);
    }

    pub(crate) fn subscribed(
        &mut self,
        channel: &ChannelName,
        own: &GripShared,
        shard: &mut impl GripShard,
    ) {
        if self.own.insert(channel.clone()) {
            self.tell_all(channel, true, own, shard);
        }
    }

    fn tell_all(
        &mut self,
        channel: &ChannelName,
        is_wanted: bool,
        own: &GripShared,
        shard: &mut impl GripShard,
    ) {
        shard.mail_all(|| Mail::Topic {
            channel: channel.clone(),
            is_wanted,
        });
        self.told(shard.this(), channel, is_wanted, own, shard);
    }

    /// Notes whether a shard has subscribers of a channel.
    pub(crate) fn told(
        &mut self,
        from: ShardId,
        channel: &ChannelName,
        is_wanted: bool,
        own: &GripShared,
        shard: &mut impl GripShard,
    ) {
        let wanted = self.wanted.entry(channel.clone()).or_default();
        let before = wanted.shards;
        if is_wanted {
            wanted.shards |= 1 << from.0;
        } else {
            wanted.shards &= !(1 << from.0);
        }
        let after = wanted.shards;
        if before == 0 {
            wanted.told = own.topic_told();
        }
        if after == 0 {
            self.wanted.remove(channel);
        }
        if (before == 0) != (after == 0) {
            for &conn in &self.listeners {
                shard.with(conn, |session, cx| {
                    if let Session::Zmtp(zmtp) = session {
                        zmtp.topic(channel, is_wanted, cx);
                    }
                    Flow::Stay
                });
            }
        }
    }

    pub(crate) fn listen(&mut self, conn: ConnId, shard: &mut impl GripShard) {
        self.listeners.push(conn);
        shard.with(conn, |session, cx| {
            if let Session::Zmtp(zmtp) = session {
                for channel in self.wanted.keys() {
                    zmtp.topic(channel, true, cx);
                }
            }
            Flow::Stay
        });
    }

    /// Reports channels without subscribers here.
    pub(crate) fn forget(&mut self, own: &GripShared, shard: &mut impl GripShard) {
        let now = shard.now().mono;
        if now < self.look_at || self.own.is_empty() {
            return;
        }
        self.look_at = now + LOOK_MS;
        let hub = shard.hub();
        let left = self.own.extract_if(.., |channel| !hub.has_channel(channel));
        for channel in left.collect::<Vec<_>>() {
            self.tell_all(&channel, false, own, shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::hub_channel;

    #[test]
    fn who_asked_after_the_news_has_missed_nothing() {
        let channel = |name| hub_channel("", name).expect("a name");
        let mut topics = Topics::default();
        let wanted = Topic { shards: 1, told: 3 };
        topics.wanted.insert(channel("a"), wanted);
        // The backend may have answered before publishers knew of the third.
        assert!(!topics.was_told(&channel("a"), 2));
        assert!(topics.was_told(&channel("a"), 3));
        assert!(!topics.was_told(&channel("b"), 9));
    }
}
