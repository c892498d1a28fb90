//! Calls of the server API whose answers depend on the hub, or on every shard.
//!
//! One request carries one call, or many that are carried out one after the other.

use std::collections::{BTreeMap, VecDeque};

use throng_broker::{HistoryQuery, Refusal};
use throng_centrifuge::HistoryResult;
use throng_centrifuge::api::{
    ApiError, ApiResult, ChannelPattern, Method, NodeInfo, PublishResult, encode_bare_error,
    encode_batch_reply, encode_legacy, encode_response,
};
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_session::{
    Context, Event, Exchange, Flow, NodeCount, Publications, PublishResult as Outcome, Survey,
    SurveyReply, respond_json,
};
use throng_types::{ChannelName, End, Epoch, Position};

use crate::context::Cx;

/// Bytes of the replies to many calls, from which on further calls are refused. Queue: `batch`.
const REPLIES_BYTES_MAX: usize = 8 << 20;

/// A call that was understood and is not carried out yet.
pub(crate) enum Task {
    /// Publications, and whether the answer is a broadcast's.
    Publish(Vec<throng_broker::Draft>, bool),
    /// A part of a channel's past.
    History(ChannelName, HistoryQuery),
    /// A question or an order to every shard.
    Survey(Survey, Awaited),
}

/// What is awaited.
pub(crate) enum Awaited {
    /// Nothing: every call has been answered.
    Nothing,
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
    /// That all shards have done it.
    Done(Method),
}

/// How the answers are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// One call; with the header `X-Centrifugo-Error-Mode: transport` errors show in the HTTP
    /// status, too.
    One { errors_in_status: bool },
    /// `POST /api/batch`: a list.
    Batch,
    /// `POST /api`: an object a line, with the ids of their commands.
    Lines,
}

/// Calls on their way: what they wait for, and the connection to answer.
pub struct Call {
    exchange: Exchange,
    together: Together,
    awaited: Awaited,
    /// The command that is carried out now.
    id: u32,
    /// Commands that wait for their turn, with their ids. Bound: the request's body.
    rest: VecDeque<(u32, Result<Task, ApiError>)>,
    body: Vec<u8>,
    status: u16,
}

impl Call {
    pub(crate) fn new(
        exchange: Exchange,
        together: Together,
        rest: VecDeque<(u32, Result<Task, ApiError>)>,
    ) -> Self {
        Self {
            exchange,
            together,
            awaited: Awaited::Nothing,
            id: 0,
            rest,
            body: Vec::new(),
            status: 200,
        }
    }

    /// Carries out calls until one has to wait; true if all are answered, and the answer written.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>) -> bool {
        self.awaited = Awaited::Nothing;
        while let Some((id, task)) = self.rest.pop_front() {
            self.id = id;
            let is_full = self.body.len() > REPLIES_BYTES_MAX;
            match task {
                Ok(_) if is_full => self.reply(Err(ApiError::Internal), cx),
                Ok(task) => {
                    self.awaited = start(task, cx);
                    return false;
                }
                Err(error) => self.reply(Err(error), cx),
            }
        }
        self.write(cx);
        true
    }

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
                let results: Vec<_> = results.into_iter().map(published).collect();
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
            Awaited::Done(method) => {
                let method = *method;
                self.respond(Ok(ApiResult::Done(method)), cx)
            }
            Awaited::Nothing | Awaited::Publications { .. } | Awaited::History => Flow::Stay,
        }
    }

    /// The call has its answer: the next one, or the end.
    fn respond(&mut self, result: Result<ApiResult<'_>, ApiError>, cx: &mut Cx<'_>) -> Flow {
        self.reply(result, cx);
        match self.advance(cx) {
            true => self.exchange.done(cx),
            false => Flow::Stay,
        }
    }

    /// Appends the answer to one call.
    fn reply(&mut self, result: Result<ApiResult<'_>, ApiError>, cx: &Cx<'_>) {
        if let Err(error) = result {
            cx.count(Counter::error(error.code()));
        }
        let result = result.as_ref().map_err(|error| *error);
        match self.together {
            Together::One { errors_in_status } => match result {
                Err(error) if errors_in_status => {
                    self.status = error.http_status();
                    encode_bare_error(error, &mut self.body);
                }
                _ => encode_response(result, &mut self.body),
            },
            Together::Batch => {
                if !self.body.is_empty() {
                    self.body.push(b',');
                }
                encode_batch_reply(result, &mut self.body);
            }
            Together::Lines => {
                if !self.body.is_empty() {
                    self.body.push(b'\n');
                }
                encode_legacy(self.id, result, &mut self.body);
            }
        }
    }

    fn write(&self, cx: &mut Cx<'_>) {
        let body = match self.together {
            Together::Batch => [&b"{\"replies\":["[..], &self.body, b"]}"].concat(),
            _ => self.body.clone(),
        };
        respond_json(self.status, &body, self.exchange.keep_alive, cx);
    }
}

/// Begins a call.
fn start(task: Task, cx: &mut Cx<'_>) -> Awaited {
    match task {
        Task::Publish(drafts, is_broadcast) => {
            let counters = &cx.shared.counters;
            counters.add(Counter::PublicationsApi, drafts.len() as u64);
            Awaited::Publications {
                publications: Publications::order(drafts, cx),
                is_broadcast,
            }
        }
        Task::History(channel, query) => {
            let reply_to = cx.reply_to(0);
            cx.hub(Command::History {
                reply_to,
                channel,
                query,
                only_subscribed: false,
            });
            Awaited::History
        }
        Task::Survey(survey, awaited) => {
            cx.survey(survey);
            awaited
        }
    }
}

/// A style of answer: to a broadcast, a list.
const BROADCAST: u8 = 1;
/// A style of answer: errors show in the HTTP status too.
const ERRORS_IN_STATUS: u8 = 2;

/// How publications of a request of its own are answered.
pub(crate) const fn style(errors_in_status: bool, is_broadcast: bool) -> u8 {
    let errors = if errors_in_status {
        ERRORS_IN_STATUS
    } else {
        0
    };
    errors | if is_broadcast { BROADCAST } else { 0 }
}

/// Answers publications of a request of its own.
pub(crate) fn write_published(
    outcomes: &[Outcome],
    style: u8,
    keep_alive: bool,
    cx: &mut Context<'_>,
) {
    let results: Vec<_> = outcomes.iter().copied().map(published).collect();
    let result = match results.first() {
        Some(&only) if style & BROADCAST == 0 => only.map(ApiResult::Publish),
        _ => Ok(ApiResult::Broadcast(&results)),
    };
    let (mut status, mut body) = (200, Vec::new());
    if let Err(error) = result {
        cx.count(Counter::error(error.code()));
    }
    match result {
        Err(error) if style & ERRORS_IN_STATUS != 0 => {
            status = error.http_status();
            encode_bare_error(error, &mut body);
        }
        _ => encode_response(result.as_ref().map_err(|error| *error), &mut body),
    }
    respond_json(status, &body, keep_alive, cx);
}

fn published(outcome: Outcome) -> Result<PublishResult, ApiError> {
    match outcome {
        Ok(position) => Ok(PublishResult { position }),
        Err(refusal) => Err(error_of(refusal)),
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
