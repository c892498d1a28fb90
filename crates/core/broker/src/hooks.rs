//! Events that webhooks tell other servers.

use throng_types::{ChannelName, Publisher, Save};

/// Listener for what happens in channels. Called on every shard.
pub trait Hooks: Send + Sync {
    /// Takes an event. States are counted: of shards with subscribers, and of a user's connections
    /// that are listed; each that begins ends once.
    fn tell(&self, event: HookEvent);
}

/// Keeps records for the next process. No call fails: a journal that cannot write says so itself.
pub trait HookJournal: Send {
    fn append(&mut self, records: &[u8]);

    /// Puts records in the place of everything.
    fn replace(&mut self, records: &[u8]);

    /// Bytes that it has.
    fn bytes(&self) -> u64;
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum HookEvent {
    /// Whether a channel has subscribers.
    Occupied { channel: ChannelName, is_on: bool },
    /// Whether a user has connections in a channel's list of members.
    Member {
        channel: ChannelName,
        user: Box<str>,
        is_on: bool,
    },
    /// Event of a client for the other clients of a channel.
    Client {
        channel: ChannelName,
        event: Box<str>,
        /// Content of a JSON text, or the JSON of anything else.
        data: Box<str>,
        socket_id: Box<str>,
        /// The member of a presence channel that sent it.
        user: Option<Box<str>>,
    },
    /// A subscriber of a cache channel found no event there.
    CacheMiss { channel: ChannelName },
    /// Number of a channel's subscribers, after a change.
    Count {
        channel: ChannelName,
        subscribers: u32,
    },
}

impl HookEvent {
    /// Names of events, as receivers and the configuration spell them.
    pub const NAMES: [&'static str; 7] = [
        "channel_occupied",
        "channel_vacated",
        "member_added",
        "member_removed",
        "client_event",
        "cache_miss",
        "subscription_count",
    ];

    /// Makes the event of a member that is its user's first, or was its last.
    #[must_use]
    pub fn member(channel: &ChannelName, who: &Publisher, is_on: bool) -> Self {
        Self::Member {
            channel: channel.clone(),
            user: who.user.clone(),
            is_on,
        }
    }

    /// Place of the event's name in [`Self::NAMES`].
    #[must_use]
    pub const fn kind(&self) -> usize {
        match self {
            Self::Occupied { is_on, .. } => !*is_on as usize,
            Self::Member { is_on, .. } => 2 + !*is_on as usize,
            Self::Client { .. } => 4,
            Self::CacheMiss { .. } => 5,
            Self::Count { .. } => 6,
        }
    }

    /// Whether it tells a state, which another event ends.
    #[must_use]
    pub const fn is_state(&self) -> bool {
        matches!(self, Self::Occupied { .. } | Self::Member { .. })
    }

    #[must_use]
    pub const fn channel(&self) -> &ChannelName {
        match self {
            Self::Occupied { channel, .. }
            | Self::Member { channel, .. }
            | Self::Client { channel, .. }
            | Self::CacheMiss { channel }
            | Self::Count { channel, .. } => channel,
        }
    }

    /// Bytes that the event costs while it waits.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let texts = match self {
            Self::Occupied { .. } | Self::CacheMiss { .. } | Self::Count { .. } => 0,
            Self::Member { user, .. } => user.len(),
            Self::Client {
                event,
                data,
                socket_id,
                user,
                ..
            } => {
                let user = user.as_ref().map_or(0, |user| user.len());
                event.len() + data.len() + socket_id.len() + user
            }
        };
        size_of::<Self>() + self.channel().as_str().len() + texts
    }
}
