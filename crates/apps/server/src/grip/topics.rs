//! Which channels have subscribers, for publishers that want to know (ZeroMQ's SUB socket).
//!
//! Each shard tells all others when it gets the first subscriber of a channel, and, a while
//! after the last one has left, that it has none. Nothing is told unless the socket is configured.

use std::collections::{HashMap, HashSet};

use throng_engine::{Conns, Kernel};
use throng_session::{GRIP_NAMESPACE, Session};
use throng_types::{ChannelName, ConnId, Millis, Now};

use super::GripNote;
use crate::shard::ShardApp;

/// Between two looks for channels that nobody subscribes to any more, in milliseconds.
const SWEEP_MS: u64 = 10_000;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Topics {
    /// The shards that have subscribers, as bits.
    wanted: HashMap<ChannelName, u64>,
    /// Those of this shard.
    own: HashSet<ChannelName>,
    listeners: Vec<ConnId>,
    sweep_at: Millis,
}

impl Topics {
    pub(super) fn left(&mut self, conn: ConnId) {
        self.listeners.retain(|known| *known != conn);
    }
}

impl ShardApp {
    /// A session here subscribes to a channel.
    pub(crate) fn grip_subscribed(
        &mut self,
        channel: &ChannelName,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        if !self.parts.tells_topics || channel.namespace() != Some(GRIP_NAMESPACE) {
            return;
        }
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        if grip.topics.own.insert(channel.clone()) {
            self.tell_topic(channel, true, conns);
        }
    }

    fn tell_topic(
        &mut self,
        channel: &ChannelName,
        is_wanted: bool,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let own = self.parts.shard.index();
        for shard in 0..usize::from(self.parts.shards) {
            if shard != own {
                let channel = channel.clone();
                self.note(shard, GripNote::Topic { channel, is_wanted });
            }
        }
        self.topic(own, channel, is_wanted, conns);
    }

    /// A shard has subscribers of a channel, or none any more.
    pub(super) fn topic(
        &mut self,
        shard: usize,
        channel: &ChannelName,
        is_wanted: bool,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let shards = grip.topics.wanted.entry(channel.clone()).or_default();
        let before = *shards;
        if is_wanted {
            *shards |= 1 << shard;
        } else {
            *shards &= !(1 << shard);
        }
        let after = *shards;
        if after == 0 {
            grip.topics.wanted.remove(channel);
        }
        if (before == 0) != (after == 0) {
            for conn in grip.topics.listeners.clone() {
                self.with(conn, conns, |session, _, fx| {
                    session.topic(channel, is_wanted, fx)
                });
            }
        }
    }

    /// A publisher wants to know what is wanted.
    pub(super) fn listen(&mut self, conn: ConnId, conns: &mut Conns<Session, impl Kernel>) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        grip.topics.listeners.push(conn);
        let all: Vec<ChannelName> = grip.topics.wanted.keys().cloned().collect();
        self.with(conn, conns, |session, _, fx| {
            for channel in &all {
                session.topic(channel, true, fx);
            }
        });
    }

    pub(super) fn sweep_topics(&mut self, conns: &mut Conns<Session, impl Kernel>, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        if now.mono < grip.topics.sweep_at || grip.topics.own.is_empty() {
            return;
        }
        grip.topics.sweep_at = now.mono + SWEEP_MS;
        let hub = &self.parts.hub;
        let left = grip
            .topics
            .own
            .extract_if(|channel| !hub.has_channel(channel));
        let left: Vec<ChannelName> = left.collect();
        for channel in left {
            self.tell_topic(&channel, false, conns);
        }
    }
}
