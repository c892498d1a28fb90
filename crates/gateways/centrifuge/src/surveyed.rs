//! Surveys of the server API over all shards, and their combined answers.
//!
//! Rule for "full": an answer has [`ROWS_MAX`] rows at most, and the number of all matches.

use throng_centrifuge::api::{
    ApiResult, ConnectionInfo, ConnectionsRequest, ConnectionsResult, Method, NamePattern,
    NodeInfo, ServerApiError,
};
use throng_session::{NodeCount, NodeReply, Search, SurveyReply, Transport};
use throng_types::ChannelName;

use crate::Cx;
use crate::results::channel_of;

/// Question that every shard was asked.
pub(crate) enum Surveyed {
    Channels {
        pattern: Box<str>,
        /// Number of channels in the answer at most; 0 for all.
        limit: u32,
    },
    Connections(Search),
    Info,
    /// Completion of a method on all shards.
    Done(Method),
}

impl Surveyed {
    pub(crate) const fn method(&self) -> Method {
        match self {
            Self::Channels { .. } => Method::Channels,
            Self::Connections(_) => Method::Connections,
            Self::Info => Method::Info,
            Self::Done(method) => *method,
        }
    }

    /// Every shard has replied: hands the answer to `write`.
    pub(crate) fn answer(
        &self,
        replies: Vec<SurveyReply>,
        cx: &Cx<'_>,
        write: impl FnOnce(Result<ApiResult<'_>, ServerApiError>),
    ) {
        let (replies, others) = SurveyReply::split(replies);
        let Some(others) = others else {
            // An answer that leaves a node out would pass for one of all.
            return write(Err(ServerApiError::Unanswered));
        };
        match self {
            Self::Channels { pattern, limit } => {
                let pattern = NamePattern::new(pattern);
                let is_wanted = |name: &str| pattern.matches(name);
                let channels = SurveyReply::sum_channels((replies, others), is_wanted);
                let mut channels: Vec<(&str, u32)> = channels
                    .iter()
                    .map(|(name, count)| (name.as_str(), *count))
                    .collect();
                if *limit == 0 {
                    return write(Ok(ApiResult::Channels(&channels)));
                }
                let found = u32::try_from(channels.len()).unwrap_or(u32::MAX);
                channels.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                channels.truncate(*limit as usize);
                write(Ok(ApiResult::SomeChannels(&channels, found)));
            }
            Self::Connections(search) => {
                let own = NodeReply {
                    uid: cx.shared.node.name().into(),
                    replies,
                    ..NodeReply::default()
                };
                let nodes: Vec<_> = std::iter::once(own).chain(others).collect();
                let rows = rows_of(&nodes, search);
                let found = nodes.iter().flat_map(|node| &node.replies);
                let (num_found, is_cut) =
                    found.fold((0_u32, false), |(count, is_cut), reply| match reply {
                        SurveyReply::Matches(found) => {
                            (count.saturating_add(found.count), is_cut | found.is_cut)
                        }
                        _ => (count, is_cut),
                    });
                write(Ok(ApiResult::Connections(ConnectionsResult {
                    rows: &rows,
                    num_found,
                    is_cut,
                })));
            }
            Self::Info => {
                let count = NodeCount::sum(replies);
                let uid = cx.shared.node.name();
                let uptime_ms = cx.now.unix_ms.saturating_sub(cx.shared.started_unix_ms);
                let uptime_s = u32::try_from(uptime_ms / 1000).unwrap_or(u32::MAX);
                let mut nodes = vec![node_info((&uid, cx.shared.version, uptime_s), &count)];
                let others: Vec<_> = { others.iter() }
                    .map(|node| (node, NodeCount::sum(node.replies.clone())))
                    .collect();
                nodes.extend(others.iter().map(|(node, count)| {
                    node_info((&node.uid, &node.version, node.uptime_s), count)
                }));
                write(Ok(ApiResult::Info(&nodes)));
            }
            Self::Done(method) => write(Ok(ApiResult::Done(*method))),
        }
    }
}

fn node_info<'a>(
    (uid, version, uptime_s): (&'a str, &'a str, u32),
    count: &NodeCount,
) -> NodeInfo<'a> {
    NodeInfo {
        uid,
        name: "throng",
        version,
        num_clients: count.clients,
        num_users: count.users.len() as u32,
        num_channels: count.channels.len() as u32,
        num_subs: count.subscriptions,
        uptime_s,
    }
}

/// Rows of an answer by default.
const ROWS: u32 = 100;
/// Rows of an answer at most.
const ROWS_MAX: u32 = 1_000;

/// Those of connections; `Transport::Http` is that of requests.
const TRANSPORTS: [Transport; 3] = [Transport::WebSocket, Transport::Sse, Transport::Stream];

/// Converts the call `connections` to a search.
///
/// # Errors
/// An unknown transport, or a channel's name that is none.
pub(crate) fn search(wanted: &ConnectionsRequest<'_>) -> Result<Search, ServerApiError> {
    let transport = match &*wanted.transport {
        "" => None,
        name => {
            let known = TRANSPORTS.iter().find(|known| known.as_str() == name);
            Some(*known.ok_or(ServerApiError::BadTransport)?)
        }
    };
    let channel = match &*wanted.channel {
        "" => None,
        name => Some(channel_of(name)?),
    };
    Ok(Search {
        user: (&*wanted.user).into(),
        address: (&*wanted.address).into(),
        transport,
        channel,
        slow: wanted.slow,
        rows_max: match wanted.limit {
            0 => ROWS,
            limit => limit.min(ROWS_MAX),
        },
    })
}

/// Rows of all nodes, as many as requested; of slow ones the slowest.
pub(crate) fn rows_of<'a>(nodes: &'a [NodeReply], search: &Search) -> Vec<ConnectionInfo<'a>> {
    let mut rows: Vec<_> = nodes
        .iter()
        .flat_map(|node| {
            let found = node.replies.iter().filter_map(|reply| match reply {
                SurveyReply::Matches(found) => Some(found),
                _ => None,
            });
            let rows = found.flat_map(|found| &found.rows);
            rows.map(|row| ConnectionInfo {
                client: &row.client,
                user: &row.user,
                address: &row.address,
                transport: row.transport.as_str(),
                node: &node.uid,
                queued_bytes: row.queued_bytes,
                num_subs: row.subscriptions,
                channels: row.channels.iter().map(ChannelName::as_str).collect(),
            })
        })
        .collect();
    if search.slow {
        rows.sort_by_key(|row| std::cmp::Reverse(row.queued_bytes));
    }
    rows.truncate(search.rows_max as usize);
    rows
}
