//! Surveys of the server API over all shards, and the shards' replies.

use throng_auth::SubscriptionOptions;
use throng_types::{ChannelName, Position};

use crate::Transport;

/// Change to a user's connections, requested by a backend or another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlCommand {
    Subscribe {
        channel: ChannelName,
        options: SubscriptionOptions,
        /// When it ends, in Unix seconds; `None` for never.
        until_unix_s: Option<u64>,
        /// Position from which on they get publications.
        since: Option<Position>,
    },
    /// Set when they expire.
    Refresh {
        /// Whether they have expired, which ends them.
        expired: bool,
        /// When they will, in Unix seconds; `None` for never.
        until_unix_s: Option<u64>,
    },
    /// Carry out a command that the client sent by another connection.
    Execute(Box<[u8]>),
}

/// A question to all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survey {
    /// Channels with subscribers, and how many.
    Channels,
    /// Counts connections, users, channels and subscriptions.
    Count,
    /// Which connections of clients there are.
    Find(Search),
    /// End a user's connections.
    Disconnect {
        /// User id; empty to select by client.
        user: Box<str>,
        /// Only this one, by its public id, if not empty.
        client: Box<str>,
        /// Code and reason for the client; Centrifugo's 3503 by default.
        code: u16,
        reason: Box<str>,
        /// Connections to spare, by their public ids.
        whitelist: Vec<Box<str>>,
    },
    /// Hand a command to a user's connections.
    Control {
        user: Box<str>,
        /// Only this connection, by its public id, if not empty.
        client: Box<str>,
        /// Change to make to the user's connections.
        command: ControlCommand,
    },
    /// Bring a client's command to its session, given by secret id, on the node of this name.
    /// Replied to with [`SurveyReply::Done`]: whether this node is the one.
    Carry {
        /// Name of the node that has the session.
        node: Box<str>,
        session: Box<str>,
        data: Box<[u8]>,
    },
    /// End a user's subscription.
    Unsubscribe {
        user: Box<str>,
        /// Only this connection, by its public id, if not empty.
        client: Box<str>,
        /// The channel; `None` for all.
        channel: Option<ChannelName>,
    },
}

/// Filter for connections. Empty or missing fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A part of the user's name.
    pub user: Box<str>,
    /// A part of the client's address.
    pub address: Box<str>,
    /// Kind of connection to search for.
    pub transport: Option<Transport>,
    pub channel: Option<ChannelName>,
    /// Only those for which bytes wait, those with the most first.
    pub slow: bool,
    /// Number of rows in the reply, at most.
    pub rows_max: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Number of connections that match.
    pub count: u32,
    /// Some were not looked at, because asking for their addresses takes too long.
    pub is_cut: bool,
    /// At most as many as were asked for.
    pub rows: Vec<MatchedConnection>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedConnection {
    /// Public id of the connection.
    pub client: Box<str>,
    /// Its user, empty if it has none.
    pub user: Box<str>,
    /// Address of the client, empty if unknown.
    pub address: Box<str>,
    pub transport: Transport,
    pub queued_bytes: u64,
    pub subscriptions: u32,
    pub channels: Vec<ChannelName>,
}

impl Matches {
    /// Keeps as many rows as requested: of slow ones the slowest.
    pub fn keep(&mut self, search: &Search) {
        if search.slow {
            self.rows
                .sort_by_key(|row| std::cmp::Reverse(row.queued_bytes));
        }
        self.rows.truncate(search.rows_max as usize);
    }
}

/// One shard's reply to a [`Survey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurveyReply {
    /// Reply to [`Survey::Channels`]: channels, each with its number of subscribers.
    Channels(Vec<(ChannelName, u32)>),
    /// Reply to [`Survey::Count`]: figures of one shard.
    Count(NodeCount),
    /// Reply to [`Survey::Find`], by shard.
    Matches(Matches),
    /// To the others: how many connections or subscriptions ended.
    Done(u32),
    /// Replies of the other nodes of the cluster.
    Elsewhere(Vec<NodeReply>),
    /// Some other node did not reply in time, or could not be asked.
    Unanswered,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReply {
    pub uid: Box<str>,
    pub version: Box<str>,
    /// Seconds since it started.
    pub uptime_s: u32,
    /// Replies of the node's shards.
    pub replies: Vec<SurveyReply>,
}

/// Sizes of one shard, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Connections of clients (not of the server API).
    pub clients: u32,
    /// Hashes of their users' names, sorted, each once.
    pub users: Vec<u64>,
    /// Hashes of the names of channels with subscribers.
    pub channels: Vec<u64>,
    /// Subscriptions of all clients together.
    pub subscriptions: u32,
}

impl NodeCount {
    /// Adds up the replies of all shards; users and channels are counted once.
    #[must_use]
    pub fn sum(replies: Vec<SurveyReply>) -> Self {
        let mut all = Self::default();
        for reply in replies {
            let SurveyReply::Count(count) = reply else {
                continue;
            };
            all.clients += count.clients;
            all.subscriptions += count.subscriptions;
            all.users.extend(count.users);
            all.channels.extend(count.channels);
        }
        all.users.sort_unstable();
        all.users.dedup();
        all.channels.sort_unstable();
        all.channels.dedup();
        all
    }
}
