//! What a call of the server API asks of every shard, and the answer that is put together.

use std::collections::BTreeMap;

use throng_centrifuge::api::{ApiResult, ChannelPattern, Method, NodeInfo};
use throng_session::{NodeCount, SurveyReply};
use throng_types::ChannelName;

use crate::context::Cx;

/// What every shard was asked.
pub(crate) enum Surveyed {
    Channels {
        pattern: Box<str>,
    },
    Info,
    /// That all shards have done it.
    Done(Method),
}

impl Surveyed {
    /// Every shard has replied: hands the answer to `write`.
    pub(crate) fn answer(
        &self,
        replies: Vec<SurveyReply>,
        cx: &Cx<'_>,
        write: impl FnOnce(ApiResult<'_>),
    ) {
        match self {
            Self::Channels { pattern } => {
                let channels = sum_channels(replies, &ChannelPattern::new(pattern));
                let channels: Vec<(&str, u32)> = channels
                    .iter()
                    .map(|(name, count)| (name.as_str(), *count))
                    .collect();
                write(ApiResult::Channels(&channels));
            }
            Self::Info => {
                let count = NodeCount::sum(replies);
                let uid = cx.shared.node.name();
                let uptime_ms = cx.now.unix_ms.saturating_sub(cx.shared.started_unix_ms);
                let node = NodeInfo {
                    uid: &uid,
                    name: "throng",
                    version: cx.shared.version,
                    num_clients: count.clients,
                    num_users: count.users.len() as u32,
                    num_channels: count.channels.len() as u32,
                    num_subs: count.subscriptions,
                    uptime_s: u32::try_from(uptime_ms / 1000).unwrap_or(u32::MAX),
                };
                write(ApiResult::Info(&[node]));
            }
            Self::Done(method) => write(ApiResult::Done(*method)),
        }
    }
}

/// One count per channel, by name; a channel may have subscribers on several shards.
fn sum_channels(replies: Vec<SurveyReply>, pattern: &ChannelPattern) -> BTreeMap<ChannelName, u32> {
    let mut sums = BTreeMap::new();
    for reply in replies {
        let SurveyReply::Channels(channels) = reply else {
            continue;
        };
        for (name, count) in channels {
            if pattern.matches(name.as_str()) {
                *sums.entry(name).or_insert(0) += count;
            }
        }
    }
    sums
}
