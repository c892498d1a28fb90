//! What the server API asks of every shard, and what a shard replies.

use throng_auth::SubscriptionOptions;
use throng_types::{ChannelName, Position};

use crate::Transport;

/// What a backend wants of a user's connections, or another node of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Subscribe them to a channel.
    Subscribe {
        /// The channel.
        channel: ChannelName,
        /// What is set for the subscription.
        options: SubscriptionOptions,
        /// When it ends, in Unix seconds; `None` for never.
        until_unix_s: Option<u64>,
        /// From where on they get what was published.
        since: Option<Position>,
    },
    /// Set when they expire.
    Refresh {
        /// They have expired.
        expired: bool,
        /// When they will, in Unix seconds; `None` for never.
        until_unix_s: Option<u64>,
    },
    /// Carry out what its client has sent by another way.
    Hear(Box<[u8]>),
}

/// A question to all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survey {
    /// Channels with subscribers, and how many.
    Channels,
    /// How many connections, users, channels and subscriptions.
    Count,
    /// Which connections of clients there are.
    Find(Search),
    /// End a user's connections.
    Disconnect {
        /// The user.
        user: Box<str>,
        /// Only this one, by its public id, if not empty.
        client: Box<str>,
        /// The code and reason to give; Centrifugo's 3503 unless the call says otherwise.
        code: u16,
        /// See `code`.
        reason: Box<str>,
        /// Connections to spare, by their public ids.
        whitelist: Vec<Box<str>>,
    },
    /// Hand a wish to a user's connections.
    Wish {
        /// The user.
        user: Box<str>,
        /// Only this connection, by its public id, if not empty.
        client: Box<str>,
        /// What is wanted.
        wish: Wish,
    },
    /// Bring what a client has sent to the session that it names by its secret id, which is on the
    /// node of this name. Replied to with [`SurveyReply::Done`]: whether the node is this one.
    Carry {
        /// The node.
        node: Box<str>,
        /// The session.
        session: Box<str>,
        /// What was sent.
        data: Box<[u8]>,
    },
    /// End a user's subscription.
    Unsubscribe {
        /// The user.
        user: Box<str>,
        /// Only this connection, by its public id, if not empty.
        client: Box<str>,
        /// The channel; `None` for all.
        channel: Option<ChannelName>,
    },
}

/// Which connections are looked for. What is empty or missing fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A part of the user's name.
    pub user: Box<str>,
    /// A part of the client's address.
    pub address: Box<str>,
    /// How the client is connected.
    pub transport: Option<Transport>,
    /// A channel that it subscribes to.
    pub channel: Option<ChannelName>,
    /// Only those for which bytes wait, those with the most first.
    pub slow: bool,
    /// How many are told of at most.
    pub rows_max: u32,
}

/// Connections that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many fit.
    pub count: u32,
    /// Some were not looked at, because asking for their addresses takes too long.
    pub is_cut: bool,
    /// At most as many as were asked for.
    pub rows: Vec<FoundConnection>,
}

/// One connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundConnection {
    /// Its public id.
    pub client: Box<str>,
    /// Its user, empty if it has none.
    pub user: Box<str>,
    /// Its address, empty if nobody knows.
    pub address: Box<str>,
    /// How it is connected.
    pub transport: Transport,
    /// Bytes that wait for it.
    pub queued_bytes: u64,
    /// How many channels it subscribes to.
    pub subscriptions: u32,
    /// The first of them.
    pub channels: Vec<ChannelName>,
}

impl Found {
    /// Keeps as many rows as are wanted: of slow ones the slowest.
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
    /// To [`Survey::Channels`].
    Channels(Vec<(ChannelName, u32)>),
    /// To [`Survey::Count`].
    Count(NodeCount),
    /// To [`Survey::Find`].
    Found(Found),
    /// To the others: how many connections or subscriptions ended.
    Done(u32),
    /// What other nodes replied.
    Elsewhere(Vec<NodeReply>),
    /// Some other node did not reply in time, or could not be asked.
    Unanswered,
}

/// What another node replied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReply {
    /// The node's name.
    pub uid: Box<str>,
    /// Its version.
    pub version: Box<str>,
    /// Seconds since it started.
    pub uptime_s: u32,
    /// What its shards replied.
    pub replies: Vec<SurveyReply>,
}

/// Sizes of one shard, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Connections of clients (not of the server API).
    pub clients: u32,
    /// Hashes of their users' names, sorted, each once.
    pub users: Vec<u64>,
    /// Channels with subscribers.
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
