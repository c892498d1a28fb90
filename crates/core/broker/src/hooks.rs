//! Events that webhooks tell other servers.

use throng_types::{ChannelName, Publisher, Save, SpanContext};

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

    /// Leaves it to another process until the next [`Self::replace`]; nothing is written meanwhile.
    fn let_go(&mut self) {}
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
        /// Trace of the client.
        trace: Option<Box<SpanContext>>,
    },
    /// A subscriber of a cache channel found no event there.
    CacheMiss {
        channel: ChannelName,
        /// Trace of the client.
        trace: Option<Box<SpanContext>>,
    },
    /// Number of a channel's subscribers, after a change.
    Count {
        channel: ChannelName,
        subscribers: u32,
    },
    /// A client has connected, or its connection has ended.
    Connection(Box<HookConnection>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct HookConnection {
    /// Beginning of the names of its app's channels; empty without an app.
    pub scope: Box<str>,
    /// Id by which the client knows its connection, if it has one for it.
    pub id: Box<str>,
    /// User of the client, empty while unknown.
    pub user: Box<str>,
    /// Name of the node, as in [`HookEvent::node`].
    pub node: Box<str>,
    /// Family of clients that it belongs to.
    pub protocol: Box<str>,
    pub transport: Box<str>,
    /// Code and reason of the end, 0 and empty if nobody gave any.
    pub end: Option<(u16, Box<str>)>,
    /// Trace of the client.
    pub trace: Option<Box<SpanContext>>,
}

/// Beginning of the channels of the server's own that are occupied while a node lives.
const NODE: &str = "throng:node:";

impl HookEvent {
    /// Names of events, as receivers and the configuration spell them.
    pub const NAMES: [&'static str; 11] = [
        "channel_occupied",
        "channel_vacated",
        "member_added",
        "member_removed",
        "client_event",
        "cache_miss",
        "subscription_count",
        "connected",
        "disconnected",
        "node_up",
        "node_down",
    ];
    /// Set of the events, by their places, that are told where none are named: those of channels.
    pub const USUAL: u16 = 0b111_1111;

    /// Makes the state of a node: whether it lives. `None` for a name that no node has.
    #[must_use]
    pub fn node(name: &str, is_on: bool) -> Option<Self> {
        let channel = ChannelName::new(&format!("{NODE}{name}")).ok()?;
        Some(Self::Occupied { channel, is_on })
    }

    /// Name of the node whose state it tells.
    #[must_use]
    pub fn of_node(&self) -> Option<&str> {
        match self {
            Self::Occupied { channel, .. } => channel.as_str().strip_prefix(NODE),
            _ => None,
        }
    }

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
    pub fn kind(&self) -> usize {
        match self {
            Self::Occupied { is_on, .. } if self.of_node().is_some() => 9 + usize::from(!*is_on),
            Self::Occupied { is_on, .. } => usize::from(!*is_on),
            Self::Member { is_on, .. } => 2 + usize::from(!*is_on),
            Self::Client { .. } => 4,
            Self::CacheMiss { .. } => 5,
            Self::Count { .. } => 6,
            Self::Connection(it) => 7 + usize::from(it.end.is_some()),
        }
    }

    /// Whether it tells a state, which another event ends.
    #[must_use]
    pub const fn is_state(&self) -> bool {
        matches!(self, Self::Occupied { .. } | Self::Member { .. })
    }

    /// Channel that it tells of, if it is one of clients.
    #[must_use]
    pub fn channel(&self) -> Option<&ChannelName> {
        match self {
            Self::Occupied { channel, .. }
            | Self::Member { channel, .. }
            | Self::Client { channel, .. }
            | Self::CacheMiss { channel, .. }
            | Self::Count { channel, .. } => Some(channel).filter(|_| self.of_node().is_none()),
            Self::Connection(_) => None,
        }
    }

    /// Trace of the client that caused it, if one did. A state has none: it is of many clients.
    #[must_use]
    pub fn trace(&self) -> Option<&SpanContext> {
        match self {
            Self::Client { trace, .. } | Self::CacheMiss { trace, .. } => trace.as_deref(),
            Self::Connection(it) => it.trace.as_deref(),
            Self::Occupied { .. } | Self::Member { .. } | Self::Count { .. } => None,
        }
    }

    /// Bytes that the event costs while it waits.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let texts = match self {
            Self::Occupied { .. } | Self::CacheMiss { .. } | Self::Count { .. } => 0,
            Self::Member { user, .. } => user.len(),
            Self::Connection(it) => {
                let reason = it.end.as_ref().map_or(0, |(_, reason)| reason.len());
                size_of::<HookConnection>() + it.id.len() + it.user.len() + reason
            }
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
        let channel = self.channel().map_or(0, |channel| channel.as_str().len());
        let trace = self.trace().map_or(0, size_of_val);
        size_of::<Self>() + channel + texts + trace
    }
}
