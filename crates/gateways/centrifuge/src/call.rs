//! A call of the server API whose answer depends on the hub, or on every shard.

use std::collections::BTreeMap;

use throng_broker::Refusal;
use throng_centrifuge::HistoryResult;
use throng_centrifuge::api::{
    ApiError, ApiResult, ChannelPattern, NodeInfo, PublishResult, encode_response,
};
use throng_hub::Answer;
use throng_session::{Event, Exchange, Flow, NodeCount, Publications, SurveyReply, respond_json};
use throng_types::{ChannelName, End, Epoch, Position};

use crate::context::Cx;

/// What is awaited.
pub(crate) enum Awaited {
    /// One answer for each channel, in order.
    Publications {
        publications: Publications,
        is_broadcast: bool,
    },
    History,
    Channels {
        pattern: Box<str>,
    },
    Info,
    Unsubscribe,
    Disconnect,
}

/// A call on its way: what it waits for, and the connection to answer.
pub struct Call {
    pub(crate) exchange: Exchange,
    pub(crate) awaited: Awaited,
    /// Header `X-Centrifugo-Error-Mode: transport`: errors show in the HTTP status too.
    pub(crate) errors_in_status: bool,
}

impl Call {
    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.exchange.keep_behind_api_call(input, cx),
            Event::Answer { token, answer } => return self.answer(token, answer, cx),
            Event::Surveyed(replies) => return self.surveyed(replies, cx),
            Event::Timeout => cx.end(End::Flush),
            // The answer comes within this turn or the next few; it is not cut off.
            _ => {}
        }
        Flow::Stay
    }

    fn answer(&mut self, token: u32, answer: Answer, cx: &mut Cx<'_>) -> Flow {
        match (&mut self.awaited, answer) {
            (
                Awaited::Publications {
                    publications,
                    is_broadcast,
                },
                answer,
            ) => {
                let Some(results) = publications.answer(token, &answer) else {
                    return Flow::Stay;
                };
                let is_broadcast = *is_broadcast;
                let results: Vec<_> = results
                    .into_iter()
                    .map(|result| {
                        let result = result.map_err(error_of);
                        result.map(|position| PublishResult { position })
                    })
                    .collect();
                match results.first() {
                    Some(&only) if !is_broadcast => self.respond(only.map(ApiResult::Publish), cx),
                    _ => self.respond(Ok(ApiResult::Broadcast(&results)), cx),
                }
            }
            (Awaited::History, Answer::History { result }) => {
                let nowhere = Position {
                    epoch: Epoch(0),
                    offset: 0,
                };
                match &result {
                    Ok(page) => {
                        let found = HistoryResult {
                            publications: &page.publications,
                            position: page.position.unwrap_or(nowhere),
                        };
                        self.respond(Ok(ApiResult::History(found)), cx)
                    }
                    Err(refusal) => self.respond(Err(error_of(*refusal)), cx),
                }
            }
            _ => Flow::Stay,
        }
    }

    /// Every shard has answered.
    fn surveyed(&mut self, replies: Vec<SurveyReply>, cx: &mut Cx<'_>) -> Flow {
        match &self.awaited {
            Awaited::Channels { pattern } => {
                let channels = sum_channels(replies, &ChannelPattern::new(pattern));
                let channels: Vec<(&str, u32)> = channels
                    .iter()
                    .map(|(name, count)| (name.as_str(), *count))
                    .collect();
                self.respond(Ok(ApiResult::Channels(&channels)), cx)
            }
            Awaited::Info => {
                let count = NodeCount::sum(replies);
                let uid = format!("{:016x}", cx.shared.node.number());
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
                self.respond(Ok(ApiResult::Info(&[node])), cx)
            }
            Awaited::Unsubscribe => self.respond(Ok(ApiResult::Unsubscribe), cx),
            Awaited::Disconnect => self.respond(Ok(ApiResult::Disconnect), cx),
            Awaited::Publications { .. } | Awaited::History => Flow::Stay,
        }
    }

    fn respond(&mut self, result: Result<ApiResult<'_>, ApiError>, cx: &mut Cx<'_>) -> Flow {
        let keep_alive = self.exchange.keep_alive;
        respond(result, self.errors_in_status, keep_alive, cx);
        self.exchange.done(cx)
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

/// The server API's code for a refusal.
const fn error_of(refusal: Refusal) -> ApiError {
    match refusal {
        // Temporary, and the API has no other code for that.
        Refusal::Busy => ApiError::Internal,
        Refusal::UnknownChannel => ApiError::UnknownChannel,
        // Only sessions are refused like that.
        Refusal::AlreadySubscribed
        | Refusal::NotSubscribed
        | Refusal::ChannelLimit
        | Refusal::Cancelled => ApiError::BadRequest,
        Refusal::NotAvailable => ApiError::NotAvailable,
        Refusal::UnrecoverablePosition => ApiError::UnrecoverablePosition,
    }
}

/// Writes a response of the server API.
pub(crate) fn respond(
    result: Result<ApiResult<'_>, ApiError>,
    errors_in_status: bool,
    keep_alive: bool,
    cx: &mut Cx<'_>,
) {
    let mut body = Vec::new();
    encode_response(result.as_ref().map_err(|error| *error), &mut body);
    let status = match result {
        Err(error) if errors_in_status => error.http_status(),
        _ => 200,
    };
    respond_json(status, &body, keep_alive, cx);
}
