//! Centrifugo's server API: `POST /api/{method}`, many calls at once by `POST /api/batch`, and the
//! older `POST /api` with a command a line.

use std::collections::VecDeque;

use throng_broker::{Draft, HistoryQuery};
use throng_centrifuge::api::{
    ApiError, ApiRequest, DisconnectRequest, MalformedBody, Method, PublishRequest, parse,
    parse_batch, parse_legacy,
};
use throng_metrics::Counter;
use throng_session::http::{Later, WriteAnswer};
use throng_session::{Exchange, Incoming, Opened, Survey, draft, respond_json};
use throng_types::{ChannelName, Disconnect};

use crate::call::{Call, Task, Together};
use crate::context::Cx;
use crate::published::{style, write_published};
use crate::results::position_of;
use crate::session::Session;
use crate::surveyed::Surveyed;

/// Channels that one request may publish to, in all of its calls.
const CHANNELS_MAX: usize = 10_000;
/// Calls that one request may carry.
const CALLS_MAX: usize = 10_000;

/// What a path of the server API takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/api/{method}`
    One(Method),
    /// `/api/batch`
    Batch,
    /// `/api`
    Lines,
}

impl Form {
    /// The form at a path, if it is one of the server API's.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/api")? {
            "" | "/" => Some(Self::Lines),
            "/batch" => Some(Self::Batch),
            method => Method::from_name(method.strip_prefix('/')?).map(Self::One),
        }
    }

    /// Whether it publishes and does nothing else.
    pub(crate) fn is_publishing(self) -> bool {
        matches!(self, Self::One(Method::Publish | Method::Broadcast))
    }
}

/// Carries out the calls of a request.
pub(crate) fn call(incoming: &Incoming<'_, '_>, form: Form, cx: &mut Cx<'_>) -> Opened<Session> {
    if form == Form::One(Method::Publish)
        && let Some(later) = publish_one(incoming, cx)
    {
        return Opened::Later(later);
    }
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    let (together, mut calls) = match read(form, incoming) {
        Ok(read) => read,
        Err(fault) => {
            let message = format!("bad request: {fault}").replace(['"', '\\'], "'");
            let code = ApiError::BadRequest.code();
            let body = format!("{{\"error\":{{\"code\":{code},\"message\":\"{message}\"}}}}");
            respond_json(400, body.as_bytes(), keep_alive, cx);
            return Opened::Answered { keep_alive };
        }
    };
    if let Together::One { errors_in_status } = together
        && let Some((_, Ok(Task::Publish(drafts, is_broadcast)))) =
            calls.pop_front_if(|(_, task)| matches!(task, Ok(Task::Publish(..))))
    {
        cx.shared
            .counters
            .add(Counter::PublicationsApi, drafts.len() as u64);
        let style = style(errors_in_status, is_broadcast);
        let write = (write_published as WriteAnswer, style);
        return Opened::Later(Later::publish_all(drafts, incoming, write, cx));
    }
    let mut call = Call::new(Exchange::new(incoming), together, calls);
    if call.advance(cx) {
        return Opened::Answered { keep_alive };
    }
    cx.set_deadline(None);
    Opened::Session(Session::Call(Box::new(call)))
}

type Calls = VecDeque<(u32, Result<Task, ApiError>)>;

fn read(form: Form, incoming: &Incoming<'_, '_>) -> Result<(Together, Calls), MalformedBody> {
    let body = incoming.body;
    let mut channels_left = CHANNELS_MAX;
    let mut task = |request: Result<ApiRequest<'_>, ApiError>| {
        request.and_then(|request| task(request, &mut channels_left))
    };
    Ok(match form {
        Form::One(method) => {
            let errors_in_status = in_status(incoming);
            let calls = [(0, task(Ok(parse(method, body)?)))].into();
            (Together::One { errors_in_status }, calls)
        }
        Form::Batch => {
            let commands = parse_batch(body)?.commands;
            MalformedBody::check_count(commands.len(), CALLS_MAX)?;
            let calls = commands.into_iter().map(|request| (0, task(request)));
            (Together::Batch, calls.collect())
        }
        Form::Lines => {
            let commands = parse_legacy(body)?;
            MalformedBody::check_count(commands.len(), CALLS_MAX)?;
            let calls = { commands }.into_iter();
            let calls = calls.map(|command| (command.id, task(command.request)));
            (Together::Lines, calls.collect())
        }
    })
}

fn channel_of(name: &str) -> Result<ChannelName, ApiError> {
    ChannelName::new(name).map_err(|_| ApiError::BadRequest)
}

fn key_of(key: &str) -> Option<Box<str>> {
    (!key.is_empty()).then(|| key.into())
}

/// Versions are not compared here, and an older publication must not go out as a newer one.
const fn check_version(version: u64) -> Result<(), ApiError> {
    match version {
        0 => Ok(()),
        _ => Err(ApiError::NotAvailable),
    }
}

fn draft_of(publish: &PublishRequest<'_>) -> Result<Draft, ApiError> {
    check_version(publish.version)?;
    Ok(Draft {
        tags: publish.tags.map(Into::into),
        skip_history: publish.skip_history,
        idempotency_key: key_of(&publish.idempotency_key),
        ..draft(channel_of(&publish.channel)?, publish.payload()?)
    })
}

/// Carries out the usual call, a publication by itself, without lists; nothing if there is
/// something to be said against it.
fn publish_one(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Option<Later> {
    let Ok(ApiRequest::Publish(publish)) = parse(Method::Publish, incoming.body) else {
        return None;
    };
    let draft = draft_of(&publish).ok()?;
    cx.count(Counter::PublicationsApi);
    let write = (
        write_published as WriteAnswer,
        style(in_status(incoming), false),
    );
    Some(Later::publish(draft, incoming, write, cx))
}

/// Whether errors are to show in the HTTP status.
fn in_status(incoming: &Incoming<'_, '_>) -> bool {
    incoming.request.header("x-centrifugo-error-mode") == Some("transport")
}

/// Whom a call is about: a user, or the connection with a public id, and nobody else by mistake.
/// Sessions have no ids here, so that nobody has the one that is named.
fn check_who(user: &str, client: &str, session: &str) -> Result<(), ApiError> {
    match (user, client, session) {
        ("", "", _) => Err(ApiError::BadRequest),
        (_, _, "") => Ok(()),
        _ => Err(ApiError::NotAvailable),
    }
}

fn task(request: ApiRequest<'_>, channels_left: &mut usize) -> Result<Task, ApiError> {
    let mut takes = |count: usize| {
        *channels_left = channels_left
            .checked_sub(count)
            .ok_or(ApiError::BadRequest)?;
        Ok::<(), ApiError>(())
    };
    Ok(match request {
        ApiRequest::Publish(publish) => {
            takes(1)?;
            Task::Publish(vec![draft_of(&publish)?], false)
        }
        ApiRequest::Broadcast(broadcast) => {
            check_version(broadcast.version)?;
            let payload = broadcast.payload()?;
            if broadcast.channels.is_empty() {
                return Err(ApiError::BadRequest);
            }
            takes(broadcast.channels.len())?;
            let payloads = std::iter::repeat_n(payload, broadcast.channels.len());
            let drafts = broadcast.channels.iter().zip(payloads);
            let drafts = drafts.map(|(channel, payload)| {
                Ok(Draft {
                    tags: broadcast.tags.map(Into::into),
                    skip_history: broadcast.skip_history,
                    idempotency_key: key_of(&broadcast.idempotency_key),
                    ..draft(channel_of(channel)?, payload)
                })
            });
            Task::Publish(drafts.collect::<Result<_, ApiError>>()?, true)
        }
        ApiRequest::History(history) => {
            let query = HistoryQuery {
                limit: u32::try_from(history.limit).ok(),
                since: { history.since.as_ref() }
                    .map(|since| position_of(&since.epoch, since.offset)),
                reverse: history.reverse,
            };
            Task::History(channel_of(&history.channel)?, query)
        }
        ApiRequest::Channels(channels) => {
            let pattern = (&*channels.pattern).into();
            Task::Survey(Survey::Channels, Surveyed::Channels { pattern })
        }
        ApiRequest::Info => Task::Survey(Survey::Count, Surveyed::Info),
        ApiRequest::Unsubscribe(unsubscribe) => {
            check_who(&unsubscribe.user, &unsubscribe.client, &unsubscribe.session)?;
            let channel = match &*unsubscribe.channel {
                "" => None,
                name => Some(channel_of(name)?),
            };
            let survey = Survey::Unsubscribe {
                user: (&*unsubscribe.user).into(),
                client: (&*unsubscribe.client).into(),
                channel,
            };
            Task::Survey(survey, Surveyed::Done(Method::Unsubscribe))
        }
        ApiRequest::Disconnect(disconnect) => {
            Task::Survey(end(&disconnect)?, Surveyed::Done(Method::Disconnect))
        }
        ApiRequest::Rpc(rpc) => {
            return Err(match &*rpc.method {
                "" => ApiError::BadRequest,
                // There are no procedures.
                _ => ApiError::NotFound,
            });
        }
        ApiRequest::Presence(request) => Task::Present(channel_of(&request.channel)?, true),
        ApiRequest::PresenceStats(request) => Task::Present(channel_of(&request.channel)?, false),
        ApiRequest::HistoryRemove(request) => {
            channel_of(&request.channel)?;
            return Err(ApiError::NotAvailable);
        }
        ApiRequest::Subscribe(subscribe) => {
            check_who(&subscribe.user, &subscribe.client, &subscribe.session)?;
            channel_of(&subscribe.channel)?;
            return Err(ApiError::NotAvailable);
        }
        ApiRequest::Refresh(refresh) => {
            check_who(&refresh.user, &refresh.client, &refresh.session)?;
            return Err(ApiError::NotAvailable);
        }
    })
}

fn end(disconnect: &DisconnectRequest<'_>) -> Result<Survey, ApiError> {
    check_who(&disconnect.user, &disconnect.client, &disconnect.session)?;
    let force = Disconnect::ForceNoReconnect;
    let (code, reason) = match &disconnect.disconnect {
        Some(custom) => (custom.code, &*custom.reason),
        None => (u32::from(force.code()), force.reason()),
    };
    let code = u16::try_from(code).map_err(|_| ApiError::BadRequest)?;
    if !(3000..5000).contains(&code) || reason.len() > throng_ws::CLOSE_REASON_BYTES_MAX {
        return Err(ApiError::BadRequest);
    }
    let spared = disconnect.whitelist.iter();
    Ok(Survey::Disconnect {
        user: (&*disconnect.user).into(),
        client: (&*disconnect.client).into(),
        code,
        reason: reason.into(),
        whitelist: spared.map(|client| (&**client).into()).collect(),
    })
}
