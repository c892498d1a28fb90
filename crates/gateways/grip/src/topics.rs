//! Channels with subscribers, for publishers that listen to them (ZeroMQ's SUB socket).
//!
//! Each shard tells all others when it gets the first subscriber of a channel, and, a while after
//! the last one has left, that it has none. Nothing is sent unless the socket is configured.

use std::collections::{BTreeMap, BTreeSet};

use throng_types::{ChannelName, ConnId, Millis, Save};

/// Channels with subscribers, and the publishers that listen.
#[derive(Default, Save)]
pub(crate) struct Topics {
    pub(crate) wanted: BTreeMap<ChannelName, Wanted>,
    /// Those of this shard.
    pub(crate) own: BTreeSet<ChannelName>,
    /// Publishers reconnect to another process, and are told all topics then.
    #[save(skip)]
    pub(crate) listeners: Vec<ConnId>,
    pub(crate) look_at: Millis,
}

/// Channel that is reported to publishers as having subscribers.
#[derive(Clone, Copy, Default, Save)]
pub(crate) struct Wanted {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::hub_channel;

    #[test]
    fn who_asked_after_the_news_has_missed_nothing() {
        let channel = |name| hub_channel("", name).expect("a name");
        let mut topics = Topics::default();
        let wanted = Wanted { shards: 1, told: 3 };
        topics.wanted.insert(channel("a"), wanted);
        // The backend may have answered before publishers knew of the third.
        assert!(!topics.was_told(&channel("a"), 2));
        assert!(topics.was_told(&channel("a"), 3));
        assert!(!topics.was_told(&channel("b"), 9));
    }
}
