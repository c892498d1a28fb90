//! The methods of the server API, and a call of each.

use super::params::{
    BroadcastRequest, ChannelRequest, ChannelsRequest, ConnectionsRequest, DisconnectRequest,
    HistoryRequest, PublishRequest, RefreshRequest, RpcRequest, SubscribeRequest,
    UnsubscribeRequest,
};

/// The methods that are known; some are only refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Publishes into a channel.
    Publish,
    /// Publishes the same into many channels.
    Broadcast,
    /// Subscribes a user's connections.
    Subscribe,
    /// Ends subscriptions of a user.
    Unsubscribe,
    /// Ends connections of a user.
    Disconnect,
    /// Sets when a user's connections expire.
    Refresh,
    /// Asks who is in a channel.
    Presence,
    /// Asks how many are in a channel.
    PresenceStats,
    /// Asks for past publications.
    History,
    /// Forgets a channel's past publications.
    HistoryRemove,
    /// Asks which channels have subscribers.
    Channels,
    /// Asks which connections of clients there are. Throng's own.
    Connections,
    /// Asks about the nodes.
    Info,
    /// Calls a procedure of the server's.
    Rpc,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 14] = [
        Self::Publish,
        Self::Broadcast,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Disconnect,
        Self::Refresh,
        Self::Presence,
        Self::PresenceStats,
        Self::History,
        Self::HistoryRemove,
        Self::Channels,
        Self::Connections,
        Self::Info,
        Self::Rpc,
    ];

    /// The method's name: the last part of its path, and its key in a batch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Broadcast => "broadcast",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::Disconnect => "disconnect",
            Self::Refresh => "refresh",
            Self::Presence => "presence",
            Self::PresenceStats => "presence_stats",
            Self::History => "history",
            Self::HistoryRemove => "history_remove",
            Self::Channels => "channels",
            Self::Connections => "connections",
            Self::Info => "info",
            Self::Rpc => "rpc",
        }
    }

    /// The inverse of [`Method::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// One call.
#[derive(Debug)]
pub enum ApiRequest<'a> {
    /// Publishes into a channel.
    Publish(PublishRequest<'a>),
    /// Publishes the same into many channels.
    Broadcast(BroadcastRequest<'a>),
    /// Subscribes a user's connections.
    Subscribe(SubscribeRequest<'a>),
    /// Ends subscriptions of a user.
    Unsubscribe(UnsubscribeRequest<'a>),
    /// Ends connections of a user.
    Disconnect(DisconnectRequest<'a>),
    /// Sets when a user's connections expire.
    Refresh(RefreshRequest<'a>),
    /// Asks who is in a channel.
    Presence(ChannelRequest<'a>),
    /// Asks how many are in a channel.
    PresenceStats(ChannelRequest<'a>),
    /// Asks for past publications.
    History(HistoryRequest<'a>),
    /// Forgets a channel's past publications.
    HistoryRemove(ChannelRequest<'a>),
    /// Asks which channels have subscribers.
    Channels(ChannelsRequest<'a>),
    /// Asks which connections of clients there are.
    Connections(ConnectionsRequest<'a>),
    /// Asks about the nodes.
    Info,
    /// Calls a procedure of the server's.
    Rpc(RpcRequest<'a>),
}

impl ApiRequest<'_> {
    /// The method that was called.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::Publish(_) => Method::Publish,
            Self::Broadcast(_) => Method::Broadcast,
            Self::Subscribe(_) => Method::Subscribe,
            Self::Unsubscribe(_) => Method::Unsubscribe,
            Self::Disconnect(_) => Method::Disconnect,
            Self::Refresh(_) => Method::Refresh,
            Self::Presence(_) => Method::Presence,
            Self::PresenceStats(_) => Method::PresenceStats,
            Self::History(_) => Method::History,
            Self::HistoryRemove(_) => Method::HistoryRemove,
            Self::Channels(_) => Method::Channels,
            Self::Connections(_) => Method::Connections,
            Self::Info => Method::Info,
            Self::Rpc(_) => Method::Rpc,
        }
    }
}
