//! Calls of the server API whose answers depend on the hub, or on every shard.
//!
//! One request carries one call, or many. Publications and questions for history are carried out in
//! order, without waiting for each other: the broker keeps the order within a channel. A survey of
//! all shards waits for the calls before it, and those behind it wait for the survey. Answers leave
//! together, in the order of the calls.
//!
//! Rule for "full": so many publications and pages (of history, of members) of one request are
//! without an answer; further calls wait. Once the replies are long enough, the remaining calls are
//! refused. Queue: `batch`.
//!
//! Invariants
//! - Tokens rise from call to call; a call has as many as it awaits answers of the hub.
//! - The first of the open calls is not answered yet.

use std::collections::VecDeque;

use throng_broker::{Draft, HistoryPage, HistoryQuery, Present, Refusal};
use throng_centrifuge::ClientInfo;
use throng_centrifuge::api::{
    ApiResult, CallError, Method, PublishResult, ServerApiError, encode_bare_error,
    encode_batch_field, encode_batch_reply, encode_legacy, encode_message, encode_response,
};
use throng_hub::{Answer, Command, ReplyTo};
use throng_metrics::{Counter, Histogram};
use throng_session::http::{GrpcCode, grpc_end, grpc_message, respond_grpc, write_grpc_head};
use throng_session::{
    Caller, Context, ControlCommand, Event, Exchange, Flow, Incoming, Publications,
    PublishOutcome as Outcome, Survey, SurveyReply, TracedCall, publish_all, respond_json,
};
use throng_types::{ChannelName, End, Millis};

use crate::Cx;
use crate::results::history_result;
use crate::surveyed::Surveyed;

/// Bytes of the replies to many calls, from which on further calls are refused. Queue: `batch`.
const REPLIES_BYTES_MAX: usize = 8 << 20;
/// Publications of one request that may be without an answer, unless a single call has more.
/// Queue: `batch`.
const PUBLICATIONS_MAX: usize = 1024;
/// Pages of history or members of one request that may be without an answer. Queue: `batch`.
const HISTORIES_MAX: usize = 8;

/// Calls of a request with their ids, or the errors in their places.
pub(crate) type Calls = VecDeque<(u32, Result<Task, CallError>)>;

/// A call that was understood and is not carried out yet.
pub(crate) enum Task {
    /// Publications, and whether the answer is a broadcast's.
    Publish(Vec<Draft>, bool),
    History(ChannelName, HistoryQuery),
    /// Present members of a channel: the list, or with `false` their number alone.
    Present(ChannelName, bool),
    /// A channel's past is to be forgotten.
    Forget(ChannelName),
    /// A question or an order to every shard.
    Survey(Survey, Surveyed),
}

impl Task {
    pub(crate) fn method(&self) -> Method {
        match self {
            Self::Publish(_, true) => Method::Broadcast,
            Self::Publish(_, false) => Method::Publish,
            Self::History(..) => Method::History,
            Self::Present(_, true) => Method::Presence,
            Self::Present(_, false) => Method::PresenceStats,
            Self::Forget(_) => Method::HistoryRemove,
            Self::Survey(_, surveyed) => surveyed.method(),
        }
    }

    /// The channel that it is about; publications are refused one by one.
    pub(crate) fn channel(&self) -> Option<&ChannelName> {
        match self {
            Self::History(channel, _) | Self::Present(channel, _) | Self::Forget(channel) => {
                Some(channel)
            }
            Self::Survey(Survey::Unsubscribe { channel, .. }, _) => channel.as_ref(),
            Self::Survey(Survey::Control { command, .. }, _) => match command {
                ControlCommand::Subscribe { channel, .. } => Some(channel),
                ControlCommand::Refresh { .. } | ControlCommand::Execute(_) => None,
            },
            Self::Survey(..) | Self::Publish(..) => None,
        }
    }
}

/// Format in which the answers of a request are put together.
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

/// Calls on their way: the awaited answers, and the connection to answer.
pub struct ApiCall {
    exchange: Exchange,
    caller: Caller,
    together: Together,
    /// Whether it came by gRPC and is answered in Protobuf.
    is_rpc: bool,
    /// Commands that wait for their turn, with their ids. Bound: the request's body.
    rest: Calls,
    /// Those that were carried out. Bound: [`PUBLICATIONS_MAX`], [`HISTORIES_MAX`], and those
    /// between them that were refused.
    open: VecDeque<OpenCall>,
    publications: usize,
    histories: usize,
    next_token: u32,
    /// The answer so far. Bound: [`REPLIES_BYTES_MAX`], and the replies to calls that began before.
    body: Vec<u8>,
    /// Error that shows in the status of the answer.
    failed: Option<CallError>,
    /// Span of the request, if its caller traces it.
    trace: Option<Box<TracedCall>>,
    /// Name of that span: the method of the one call, if it was understood, or `batch`.
    method: &'static str,
    has_errors: bool,
}

impl ApiCall {
    pub(crate) fn new(
        incoming: &Incoming<'_, '_>,
        (together, is_rpc): (Together, bool),
        rest: Calls,
        trace: Option<Box<TracedCall>>,
    ) -> Self {
        let method = match (together, rest.front()) {
            (Together::One { .. }, Some((_, Ok(task)))) => task.method().name(),
            (Together::One { .. }, _) => "call",
            _ => "batch",
        };
        Self {
            exchange: Exchange::new(incoming),
            caller: incoming.caller.clone(),
            together,
            is_rpc,
            rest,
            open: VecDeque::new(),
            publications: 0,
            histories: 0,
            next_token: 0,
            body: Vec::new(),
            failed: None,
            trace,
            method,
            has_errors: false,
        }
    }

    /// Carries out calls until one has to wait; true if all are answered, and the answer written.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>) -> bool {
        let (mut first, mut drafts) = (self.next_token, Vec::new());
        loop {
            self.write_known(cx);
            if !{ self.rest.front() }.is_some_and(|(_, task)| self.may_start(task.as_ref().ok())) {
                break;
            }
            let Some((id, task)) = self.rest.pop_front() else {
                break;
            };
            let is_full = self.body.len() > REPLIES_BYTES_MAX;
            let token = self.next_token;
            let call = task.as_ref().ok().map(|task| duration_of(task.method()));
            let is_unknown = |name: &ChannelName| cx.shared.namespaces.find(name).is_none();
            let awaited = match task {
                Err(error) => Awaited::Refused(error),
                Ok(task) if task.channel().is_some_and(is_unknown) => {
                    Awaited::Refused(ServerApiError::UnknownChannel.into())
                }
                Ok(_) if is_full => Awaited::Refused(ServerApiError::BatchFull.into()),
                Ok(Task::Publish(mut theirs, is_broadcast)) => {
                    TracedCall::mark(self.trace.as_deref(), &mut theirs);
                    if drafts.is_empty() {
                        first = token;
                    }
                    self.publications += theirs.len();
                    self.next_token += theirs.len() as u32;
                    let publications = Publications::new(theirs.len());
                    drafts.extend(theirs);
                    Awaited::Publications {
                        publications,
                        is_broadcast,
                    }
                }
                Ok(Task::History(channel, query)) => {
                    // History must show the publications before it.
                    publish(first, &mut drafts, cx);
                    cx.hub(Command::History {
                        reply_to: self.next_question(cx),
                        channel,
                        query,
                        only_subscribed: false,
                    });
                    Awaited::History(None)
                }
                Ok(Task::Present(channel, with_members)) => {
                    cx.hub(Command::Present {
                        reply_to: self.next_question(cx),
                        channel,
                        with_members,
                        only_subscribed: false,
                    });
                    Awaited::Present(None)
                }
                Ok(Task::Forget(channel)) => {
                    // Publications before it are forgotten, too.
                    publish(first, &mut drafts, cx);
                    let notices = &cx.shared.notices;
                    notices.changed("history_remove", channel.as_str(), [""; 2]);
                    let reply_to = self.next_question(cx);
                    cx.hub(Command::Forget { reply_to, channel });
                    Awaited::Forgotten(None)
                }
                Ok(Task::Survey(survey, surveyed)) => {
                    cx.survey(survey);
                    Awaited::Survey(surveyed, None)
                }
            };
            self.open.push_back(OpenCall {
                id,
                first: token,
                call,
                began: cx.now.mono,
                awaited,
            });
        }
        publish(first, &mut drafts, cx);
        if !self.open.is_empty() {
            return false;
        }
        self.write(cx);
        true
    }

    /// Returns the address for the hub's answer about history or presence.
    fn next_question(&mut self, cx: &Cx<'_>) -> ReplyTo {
        let token = self.next_token;
        self.histories += 1;
        self.next_token += 1;
        cx.reply_to(token)
    }

    /// Whether a call may be carried out now; nothing has to wait that is only refused.
    fn may_start(&self, task: Option<&Task>) -> bool {
        let front = self.open.front().map(|call| &call.awaited);
        match task {
            None => true,
            Some(_) if matches!(front, Some(Awaited::Survey(..))) => false,
            Some(Task::Publish(drafts, _)) => {
                self.publications == 0 || self.publications + drafts.len() <= PUBLICATIONS_MAX
            }
            Some(Task::History(..) | Task::Present(..) | Task::Forget(_)) => {
                self.histories < HISTORIES_MAX
            }
            Some(Task::Survey(..)) => self.open.is_empty(),
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.exchange.keep_behind_api_call(input, cx),
            Event::Answer { token, answer } => {
                self.answer(token, answer);
                return self.go_on(cx);
            }
            Event::Surveyed(replies) => {
                if let Some(OpenCall {
                    awaited: Awaited::Survey(_, place),
                    ..
                }) = self.open.front_mut()
                {
                    *place = Some(replies);
                }
                return self.go_on(cx);
            }
            // No call has a deadline but those of gRPC.
            Event::Timeout => {
                if self.is_rpc {
                    respond_grpc(GrpcCode::DeadlineExceeded, "the deadline has passed", cx);
                }
                cx.end(End::Flush);
            }
            // The answer comes within this turn or the next few; it is not cut off.
            Event::Close(_) => self.exchange.keep_alive = false,
            _ => {}
        }
        Flow::Stay
    }

    /// Carries out calls that may go on after an answer, or ends the exchange.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Flow {
        cx.shared.notices.called_by(&self.caller);
        let is_next = self.open.front().is_some_and(OpenCall::is_answered);
        match is_next && self.advance(cx) {
            true => self.exchange.done(cx),
            false => Flow::Stay,
        }
    }

    /// The hub has answered.
    fn answer(&mut self, token: u32, answer: Answer) {
        let after = self.open.partition_point(|call| call.first <= token);
        let call = after.checked_sub(1).and_then(|at| self.open.get_mut(at));
        let Some(OpenCall { first, awaited, .. }) = call else {
            return;
        };
        match (awaited, answer) {
            (Awaited::Publications { publications, .. }, answer) => {
                publications.take(token - *first, &answer);
            }
            (Awaited::History(place), Answer::History { result }) => *place = Some(result),
            (Awaited::Present(place), Answer::Present { result }) => *place = Some(result),
            (Awaited::Forgotten(place), Answer::History { result }) => {
                *place = Some(result.map(|_| ()));
            }
            _ => {}
        }
    }

    /// Writes the answers that have no other one before them.
    fn write_known(&mut self, cx: &Cx<'_>) {
        while let Some(call) = self.open.pop_front_if(|call| call.is_answered()) {
            self.write_one(call, cx);
        }
    }

    fn write_one(&mut self, call: OpenCall, cx: &Cx<'_>) {
        if let Some(kind) = call.call {
            (cx.shared).note_answered(kind, call.began, cx.now.mono);
        }
        let id = call.id;
        match call.awaited {
            Awaited::Refused(error) => self.reply(id, Err(error), cx),
            Awaited::Publications {
                publications,
                is_broadcast,
            } => {
                self.publications -= publications.len();
                let results = publications.all().unwrap_or_default();
                let results: Vec<_> = results.into_iter().map(published).collect();
                match results.first() {
                    Some(&only) if !is_broadcast => {
                        let only = only.map(ApiResult::Publish);
                        self.reply(id, only.map_err(CallError::from), cx);
                    }
                    _ => self.reply(id, Ok(ApiResult::Broadcast(&results)), cx),
                }
            }
            Awaited::History(page) => {
                self.histories -= 1;
                match page {
                    Some(Ok(page)) => {
                        self.reply(id, Ok(ApiResult::History(history_result(&page))), cx);
                    }
                    Some(Err(refusal)) => self.reply(id, Err(error_of(refusal).into()), cx),
                    None => {}
                }
            }
            Awaited::Present(present) => {
                self.histories -= 1;
                match present {
                    Some(Ok(present)) => self.reply_present(id, &present, cx),
                    Some(Err(refusal)) => self.reply(id, Err(error_of(refusal).into()), cx),
                    None => {}
                }
            }
            Awaited::Forgotten(done) => {
                self.histories -= 1;
                let done = done
                    .unwrap_or(Ok(()))
                    .map_err(|refusal| error_of(refusal).into());
                let result = done.map(|()| ApiResult::Done(Method::HistoryRemove));
                self.reply(id, result, cx);
            }
            Awaited::Survey(surveyed, replies) => {
                let replies = replies.unwrap_or_default();
                surveyed.answer(replies, cx, |result| {
                    self.reply(id, result.map_err(CallError::from), cx);
                });
            }
        }
    }

    fn reply_present(&mut self, id: u32, present: &Present, cx: &Cx<'_>) {
        let (clients, users) = (present.clients, present.users);
        let Some(members) = &present.members else {
            let result = ApiResult::PresenceStats { clients, users };
            return self.reply(id, Ok(result), cx);
        };
        let members: Vec<_> = members.iter().map(|who| ClientInfo::from(&**who)).collect();
        self.reply(id, Ok(ApiResult::Presence(&members)), cx);
    }

    fn reply(&mut self, id: u32, result: Result<ApiResult<'_>, CallError>, cx: &Cx<'_>) {
        let result = result.as_ref();
        if let Err(error) = result {
            cx.count(Counter::error(error.kind().code()));
            self.has_errors = true;
        }
        match self.together {
            Together::One { errors_in_status } => match result {
                Err(error) if errors_in_status => {
                    self.failed = Some(error.clone());
                    encode_bare_error(error, &mut self.body);
                }
                _ if self.is_rpc => encode_message(result, &mut self.body),
                _ => encode_response(result, &mut self.body),
            },
            Together::Batch if self.is_rpc => encode_batch_field(result, &mut self.body),
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
                encode_legacy(id, result, &mut self.body);
            }
        }
    }

    fn write(&self, cx: &mut Cx<'_>) {
        let shared = cx.shared;
        shared.end_traced(self.trace.as_deref(), self.method, self.has_errors);
        if self.is_rpc {
            return match &self.failed {
                Some(error) => {
                    let code = GrpcCode::of_http(error.kind().http_status());
                    respond_grpc(code, &error.to_string(), cx);
                }
                None => {
                    write_grpc_head(cx);
                    grpc_message(cx.out, |out| out.extend_from_slice(&self.body));
                    grpc_end(GrpcCode::Ok, cx.out);
                }
            };
        }
        let failed = self.failed.as_ref();
        let status = failed.map_or(200, |error| error.kind().http_status());
        let body = match self.together {
            Together::Batch => [&b"{\"replies\":["[..], &self.body, b"]}"].concat(),
            _ => self.body.clone(),
        };
        respond_json(status, &body, self.exchange.keep_alive, cx);
    }
}

/// Durations of a call; their series stand in the order of the calls.
pub(crate) const fn duration_of(method: Method) -> Histogram {
    Histogram::of_call(method as usize)
}

/// Orders publications that were gathered.
fn publish(first: u32, drafts: &mut Vec<Draft>, cx: &mut Cx<'_>) {
    if !drafts.is_empty() {
        let counters = &cx.shared.counters;
        counters.add(Counter::PublicationsApi, drafts.len() as u64);
        publish_all(first, std::mem::take(drafts), cx);
    }
}

/// Answers that a call awaits, and those it has got.
pub(crate) enum Awaited {
    Refused(CallError),
    /// One answer for each channel, in order.
    Publications {
        publications: Publications,
        is_broadcast: bool,
    },
    History(Option<Result<HistoryPage, Refusal>>),
    Present(Option<Result<Present, Refusal>>),
    Forgotten(Option<Result<(), Refusal>>),
    Survey(Surveyed, Option<Vec<SurveyReply>>),
}

/// Call that was carried out and whose answer is not written.
pub(crate) struct OpenCall {
    pub(crate) id: u32,
    /// The token of the first answer that it awaits.
    pub(crate) first: u32,
    /// Its durations, if it was understood.
    pub(crate) call: Option<Histogram>,
    pub(crate) began: Millis,
    pub(crate) awaited: Awaited,
}

impl OpenCall {
    /// Whether its answer can be written.
    pub(crate) fn is_answered(&self) -> bool {
        match &self.awaited {
            Awaited::Refused(_) => true,
            Awaited::Publications { publications, .. } => publications.is_whole(),
            Awaited::History(page) => page.is_some(),
            Awaited::Present(present) => present.is_some(),
            Awaited::Forgotten(done) => done.is_some(),
            Awaited::Survey(_, replies) => replies.is_some(),
        }
    }
}

/// A style of answer: to a broadcast, a list.
const BROADCAST: u8 = 1;
/// A style of answer: errors show in the HTTP status too.
const ERRORS_IN_STATUS: u8 = 2;

/// Returns the style bits of a publishing request's answer.
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
    let mut results = Vec::new();
    let result = match outcomes.first() {
        Some(&only) if style & BROADCAST == 0 => published(only).map(ApiResult::Publish),
        _ => {
            results.extend(outcomes.iter().copied().map(published));
            Ok(ApiResult::Broadcast(&results))
        }
    };
    let (mut status, mut body) = (200, Vec::new());
    let result = result.map_err(CallError::from);
    if let Err(error) = &result {
        cx.count(Counter::error(error.kind().code()));
    }
    match &result {
        Err(error) if style & ERRORS_IN_STATUS != 0 => {
            status = error.kind().http_status();
            encode_bare_error(error, &mut body);
        }
        result => encode_response(result.as_ref(), &mut body),
    }
    respond_json(status, &body, keep_alive, cx);
}

pub(crate) fn published(outcome: Outcome) -> Result<PublishResult, ServerApiError> {
    match outcome {
        Ok(position) => Ok(PublishResult { position }),
        Err(refusal) => Err(error_of(refusal)),
    }
}

/// The server API's code for a refusal.
pub(crate) const fn error_of(refusal: Refusal) -> ServerApiError {
    match refusal {
        Refusal::Busy => ServerApiError::Busy,
        Refusal::Unavailable => ServerApiError::Unavailable,
        Refusal::Unknown => ServerApiError::Unknown,
        Refusal::NotWritten => ServerApiError::NotWritten,
        Refusal::NotOnDisk => ServerApiError::NotOnDisk,
        Refusal::UnknownChannel => ServerApiError::UnknownChannel,
        // Only sessions are refused like that.
        Refusal::AlreadySubscribed | Refusal::ChannelLimit | Refusal::Cancelled => {
            ServerApiError::BadRequest
        }
        Refusal::NotAvailable | Refusal::TooLong => ServerApiError::NotAvailable,
        Refusal::UnrecoverablePosition => ServerApiError::UnrecoverablePosition,
    }
}
