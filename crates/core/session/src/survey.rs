//! Surveys of the server API over all shards, and the shards' replies.

use std::collections::BTreeMap;

use throng_auth::SubscriptionOptions;
use throng_types::{ChannelName, Load, Position, Save};

use crate::Transport;

/// The form of surveys and replies between nodes; it rises with each change of theirs. A node does
/// not answer what it cannot read, so a call over nodes of two forms fails as if one had gone. A
/// question added behind all others needs no new form: only nodes that know it answer it.
const FORM: u8 = 2;

/// Encodes a [`Survey`] or a [`NodeReply`] for another node.
pub fn to_node(value: &impl Save) -> Vec<u8> {
    (FORM, value).saved()
}

/// Decodes it; `None` if the bytes are not of this form.
pub fn from_node<T: Load>(bytes: &[u8]) -> Option<T> {
    match bytes.split_first()? {
        (&FORM, value) => T::load_whole(value),
        _ => None,
    }
}

/// Change to a user's connections, requested by a backend or another node.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
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
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum Survey {
    /// Channels with subscribers, and how many.
    Channels,
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
    /// Number of subscribers of each of these channels, replied to as [`Survey::Channels`].
    Subscribers(Vec<ChannelName>),
}

/// Filter for connections. Empty or missing fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct Search {
    /// A part of the user's name.
    pub user: Box<str>,
    /// A part of the client's address.
    pub address: Box<str>,
    pub transport: Option<Transport>,
    pub channel: Option<ChannelName>,
    /// Only those for which bytes wait, those with the most first.
    pub slow: bool,
    /// Number of rows in the reply, at most.
    pub rows_max: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct SearchMatches {
    pub count: u32,
    /// Some were not looked at, because asking for their addresses takes too long.
    pub is_cut: bool,
    /// At most as many as were asked for.
    pub rows: Vec<MatchedConnection>,
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
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
    /// Channels of its subscriptions. Bound: `subscriptions`.
    pub channels: Vec<ChannelName>,
}

/// One shard's reply to a [`Survey`].
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum SurveyReply {
    /// Reply to [`Survey::Channels`] and [`Survey::Subscribers`]: channels, each with its number of
    /// subscribers.
    Channels(Vec<(ChannelName, u32)>),
    Count(NodeCount),
    Matches(SearchMatches),
    /// To the others: how many connections or subscriptions ended.
    Done(u32),
    /// Replies of the other nodes of the cluster. Another node is told of its own alone.
    #[save(skip)]
    Elsewhere(Vec<NodeReply>),
    /// Some other node did not reply in time, or could not be asked.
    Unanswered,
}

impl SurveyReply {
    /// The replies of this node's shards, and those of other nodes; `None` for these if one is
    /// missing.
    pub fn split(replies: Vec<Self>) -> (Vec<Self>, Option<Vec<NodeReply>>) {
        let mut others = Some(Vec::new());
        let mut own = Vec::with_capacity(replies.len());
        for reply in replies {
            match reply {
                Self::Elsewhere(nodes) => others = Some(nodes),
                Self::Unanswered => others = None,
                reply => own.push(reply),
            }
        }
        (own, others)
    }

    /// The channels of all shards and nodes whose names are wanted, each with its number of
    /// subscribers.
    pub fn sum_channels(
        (own, others): (Vec<Self>, Vec<NodeReply>),
        is_wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<ChannelName, u32> {
        let others = others.into_iter().flat_map(|node| node.replies);
        let channels = own.into_iter().chain(others).flat_map(|reply| match reply {
            Self::Channels(channels) => channels,
            _ => Vec::new(),
        });
        let mut sums = BTreeMap::new();
        for (name, count) in channels.filter(|(name, _)| is_wanted(name.as_str())) {
            *sums.entry(name).or_insert(0) += count;
        }
        sums
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct NodeReply {
    pub uid: Box<str>,
    pub version: Box<str>,
    /// Seconds since it started.
    pub uptime_s: u32,
    pub replies: Vec<SurveyReply>,
}

/// Sizes of one shard, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct NodeCount {
    /// Connections of clients (not of the server API).
    pub clients: u32,
    /// Hashes of their users' names, sorted, each once. Bound: one a client.
    pub users: Vec<u64>,
    /// Hashes of the names of channels with subscribers. Bound: one a subscription.
    pub channels: Vec<u64>,
    pub subscriptions: u32,
}

impl NodeCount {
    /// Adds up the replies of all shards; users and channels are counted once.
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

#[cfg(test)]
mod tests {
    use throng_types::{Epoch, check_saved};

    use super::*;

    fn surveys() -> Vec<Survey> {
        let name = |name: &str| ChannelName::new(name).expect("a name");
        let text = |text: &str| Box::<str>::from(text);
        let options = SubscriptionOptions {
            info: Some(text("{}")),
            presence: Some(true),
            force_recovery: Some(false),
            ..SubscriptionOptions::default()
        };
        let since = Some(Position {
            epoch: Epoch(7),
            offset: 9,
        });
        let subscribe = |since| ControlCommand::Subscribe {
            channel: name("c"),
            options: options.clone(),
            until_unix_s: Some(5),
            since,
        };
        let refresh = ControlCommand::Refresh {
            expired: true,
            until_unix_s: None,
        };
        let control = |command| Survey::Control {
            user: text("ünï"),
            client: text(""),
            command,
        };
        let unsubscribe = |channel| Survey::Unsubscribe {
            user: text("u"),
            client: text("c"),
            channel,
        };
        vec![
            Survey::Channels,
            Survey::Subscribers(vec![ChannelName::new("a").unwrap()]),
            Survey::Count,
            Survey::Find(Search::default()),
            Survey::Find(Search {
                user: text("an"),
                address: text("192.0."),
                transport: Some(Transport::Stream),
                channel: Some(name("a:b")),
                slow: true,
                rows_max: 7,
            }),
            Survey::Disconnect {
                user: text("u"),
                client: text("c"),
                code: 3503,
                reason: text("why"),
                whitelist: vec![text("a"), text("b")],
            },
            control(subscribe(since)),
            control(subscribe(None)),
            control(refresh),
            unsubscribe(None),
            unsubscribe(Some(name("a:b"))),
            control(ControlCommand::Execute((*b"{}\xFF").into())),
            Survey::Carry {
                node: text("0123456789abcdef"),
                session: text("s"),
                data: (*b"\x00\xFF").into(),
            },
        ]
    }

    #[test]
    fn surveys_are_read_as_they_were_written_and_no_part_of_one() {
        for survey in surveys() {
            check_saved(&survey);
            assert_eq!(from_node(&to_node(&survey)), Some(survey));
        }
        assert_eq!(from_node::<Survey>(&[1, 0]), None, "of another form");
    }

    #[test]
    fn replies_are_read_as_they_were_written_and_no_part_of_them() {
        let name = ChannelName::new("c").expect("a name");
        let count = NodeCount {
            clients: 1,
            users: vec![2, 3],
            channels: vec![4],
            subscriptions: 5,
        };
        let replies = vec![
            SurveyReply::Channels(vec![(name, 3)]),
            SurveyReply::Count(count),
            SurveyReply::Done(8),
            SurveyReply::Matches(SearchMatches {
                count: 9,
                is_cut: true,
                rows: vec![MatchedConnection {
                    client: "id".into(),
                    user: "ann".into(),
                    address: "192.0.2.1".into(),
                    transport: Transport::Sse,
                    queued_bytes: 1 << 40,
                    subscriptions: 3,
                    channels: vec![ChannelName::new("d").expect("a name")],
                }],
            }),
        ];
        let node = NodeReply {
            uid: "u".into(),
            version: "1".into(),
            uptime_s: 9,
            replies,
        };
        check_saved(&node);
        assert_eq!(from_node(&to_node(&node)), Some(node));
    }
}
