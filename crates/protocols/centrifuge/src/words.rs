//! What the server says, before it has a form.

use throng_types::{Payload, Position, Publication};

use crate::ErrorCode;
use crate::reply::{
    ClientInfo, ConnectResult, HistoryResult, RefreshResult, SubRefreshResult, SubscribeResult,
};

/// A reply to a command.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// It failed.
    Error(ErrorCode),
    /// It failed for a reason of the application's.
    Failure {
        /// 400 to 1999.
        code: u32,
        /// A word for developers.
        message: &'a str,
        /// Whether the client may try again.
        temporary: bool,
    },
    /// To `connect`.
    Connect(&'a ConnectResult<'a>),
    /// To `subscribe`.
    Subscribe(&'a SubscribeResult<'a>),
    /// To `unsubscribe`.
    Unsubscribe,
    /// To `publish`.
    Publish,
    /// To `presence`: everyone in the channel.
    Presence(&'a [ClientInfo<'a>]),
    /// To `presence_stats`.
    PresenceStats {
        /// How many connections.
        clients: u32,
        /// Different users.
        users: u32,
    },
    /// To `history`.
    History(&'a HistoryResult<'a>),
    /// To the command `ping`, which is not the server's own ping.
    Ping,
    /// To `rpc`: the application's own data, if there are any.
    Rpc(Option<&'a Payload>),
    /// To `refresh`.
    Refresh(&'a RefreshResult<'a>),
    /// To `sub_refresh`.
    SubRefresh(&'a SubRefreshResult),
}

/// What the server says unasked to a bidirectional client.
#[derive(Clone, Copy, Debug)]
pub enum Push<'a> {
    /// For a subscriber.
    Publication(&'a Publication),
    /// For a subscriber with deltas.
    Delta {
        /// What was published.
        publication: &'a Publication,
        /// What makes its data of the data before, in place of it; nothing if it is whole. In JSON
        /// both have to be JSON, and this a text.
        patch: Option<&'a [u8]>,
    },
    /// Somebody subscribed.
    Join {
        /// To which channel.
        channel: &'a str,
        /// Who is behind the connection.
        info: ClientInfo<'a>,
    },
    /// Somebody's subscription has ended.
    Leave {
        /// Of which channel.
        channel: &'a str,
        /// Who is behind the connection.
        info: ClientInfo<'a>,
    },
    /// The server ended a subscription; see `throng_types::Unsubscribe`.
    Unsubscribe {
        /// Of which channel.
        channel: &'a str,
        /// Whether the client should come back.
        code: u16,
        /// The sentence beside the code.
        reason: &'a str,
    },
    /// To this connection alone, outside of any channel.
    Message(&'a Payload),
    /// The server ends the connection; for transports without a close frame. See
    /// `throng_types::Disconnect`.
    Disconnect {
        /// Whether the client should come back.
        code: u16,
        /// The sentence beside the code.
        reason: &'a str,
    },
    /// The server subscribed the connection.
    Subscribe {
        /// To which channel.
        channel: &'a str,
        /// Where it begins.
        subscribe: &'a SubscribePush<'a>,
    },
    /// The server refreshed the connection.
    Refresh {
        /// Seconds until it expires; nothing for never.
        ttl_s: Option<u32>,
    },
}

/// What a client learns of a subscription that the server made while the connection lived.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscribePush<'a> {
    /// Whether the client may recover later, from `position` on.
    pub recoverable: bool,
    /// Whether the server watches for gaps.
    pub positioned: bool,
    /// Where the stream stands; only in channels that keep history.
    pub position: Option<Position>,
    /// JSON for the application.
    pub data: Option<&'a str>,
}
