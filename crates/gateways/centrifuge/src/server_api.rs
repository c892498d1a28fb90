//! Centrifugo's server API: `POST /api/{method}`, many calls at once by `POST /api/batch`, the
//! older `POST /api` with a command a line, and the same calls by gRPC.

use std::sync::Arc;

use throng_auth::{KeyRights, SubscriptionOptions};
use throng_broker::{Draft, Version};
use throng_centrifuge::api::{
    ApiRequest, CallError, DisconnectRequest, MalformedBody, Method, PublishRequest,
    ServerApiError, encode_response, parse, parse_batch, parse_batch_message, parse_legacy,
    parse_message,
};
use throng_centrifuge::{ClientData, History};
use throng_metrics::Counter;
use throng_session::http::{Later, WriteAnswer, read_grpc};
use throng_session::{
    ControlCommand, Incoming, KeyRole, NodeKey, Opened, Reject, Survey, may_call, may_touch,
    respond_json,
};
use throng_types::Disconnect;

use crate::Cx;
use crate::call::{ApiCall, Calls, Task, Together, duration_of, style, write_published};
use crate::events::Session;
use crate::results::{channel_of, history_query, name_of, position_of};
use crate::surveyed::{Surveyed, search};

/// Channels that one request may publish to, in all of its calls.
const CHANNELS_MAX: usize = 10_000;
/// Calls that one request may carry.
const CALLS_MAX: usize = 10_000;

/// Path of the calls by gRPC, each of which has a name behind it.
const SERVICE: &str = "/centrifugal.centrifugo.api.CentrifugoApi/";

/// Whether a path is that of a call by gRPC.
pub(crate) fn is_rpc(path: &str) -> bool {
    path.starts_with(SERVICE)
}

/// Kind of request body at a path of the server API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A call, at `/api/{method}`.
    One(Method),
    /// List of calls, at `/api/batch`.
    Batch,
    /// Commands in lines, at `/api`.
    Lines,
}

impl Form {
    /// The form at a path, if it is one of the server API's.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if let Some(name) = path.strip_prefix(SERVICE) {
            return match name {
                "Batch" => Some(Self::Batch),
                name => Method::from_rpc_name(name).map(Self::One),
            };
        }
        match path.strip_prefix("/api")? {
            "" | "/" => Some(Self::Lines),
            "/batch" => Some(Self::Batch),
            method => Method::from_name(method.strip_prefix('/')?).map(Self::One),
        }
    }

    /// Role that its call needs; `None` where each of several has its own.
    pub(crate) fn role(self) -> Option<KeyRole> {
        match self {
            Self::One(method) => Some(role_of(method)),
            Self::Batch | Self::Lines => None,
        }
    }

    /// Whether it publishes and does nothing else.
    pub(crate) fn is_publishing(self) -> bool {
        matches!(self, Self::One(Method::Publish | Method::Broadcast))
    }
}

/// Role that a key needs for a method.
const fn role_of(method: Method) -> KeyRole {
    match method {
        Method::Publish | Method::Broadcast => KeyRole::Publish,
        Method::Presence
        | Method::PresenceStats
        | Method::History
        | Method::Channels
        | Method::Connections
        | Method::Info => KeyRole::Read,
        Method::Subscribe
        | Method::Unsubscribe
        | Method::Disconnect
        | Method::Refresh
        | Method::HistoryRemove
        | Method::Rpc => KeyRole::Admin,
    }
}

/// Carries out the calls of a request. Error: its key is not for one of them; none is carried out.
pub(crate) fn call(
    incoming: &Incoming<'_, '_>,
    form: Form,
    cx: &mut Cx<'_>,
) -> Result<Opened<Session>, Reject> {
    let is_rpc = is_rpc(incoming.request.path());
    let (body, until) = match is_rpc {
        true => read_grpc(incoming, cx)?,
        false => (incoming.body, None),
    };
    if form == Form::One(Method::Publish)
        && !is_rpc
        && let Some(later) = publish_one(incoming, cx)
    {
        return Ok(Opened::Later(later));
    }
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    let read = match is_rpc {
        true => read_message(form, body, in_status(incoming), &cx.shared.node),
        false => read(form, incoming, &cx.shared.node),
    };
    let (together, mut calls) = match read {
        Ok(read) => read,
        Err(fault) if is_rpc => return Err(Reject::new(400, fault.to_string())),
        Err(fault) => {
            let mut body = Vec::new();
            encode_response(Err(&fault.into()), &mut body);
            respond_json(400, &body, keep_alive, cx);
            return Ok(Opened::Answered { keep_alive });
        }
    };
    // Whoever may do everything has no need of these questions.
    for (_, task) in calls.iter().filter(|_| incoming.caller.is_some()) {
        let Ok(task) = task else { continue };
        may_call(
            incoming.caller,
            role_of(task.method()),
            incoming.request.path(),
            cx,
        )?;
        match task {
            Task::Publish(drafts, _) => (drafts.iter())
                .try_for_each(|draft| may_touch(incoming.caller, Some(&draft.channel), cx))?,
            task => may_touch(incoming.caller, task.channel(), cx)?,
        }
    }
    if let Together::One { errors_in_status } = together
        && !is_rpc
        && let Some((_, Ok(Task::Publish(drafts, is_broadcast)))) =
            calls.pop_front_if(|(_, task)| matches!(task, Ok(Task::Publish(..))))
    {
        cx.shared
            .counters
            .add(Counter::PublicationsApi, drafts.len() as u64);
        let style = style(errors_in_status, is_broadcast);
        let write = (write_published as WriteAnswer, style);
        let later = Later::publish_all(drafts, incoming, write, cx);
        let method = if is_broadcast {
            Method::Broadcast
        } else {
            Method::Publish
        };
        return Ok(Opened::Later(later.as_call(duration_of(method))));
    }
    let mut call = ApiCall::new(incoming, (together, is_rpc), calls, incoming.traced(cx));
    if call.advance(cx) {
        return Ok(Opened::Answered { keep_alive });
    }
    cx.set_deadline(until);
    Ok(Opened::Session(Session::Call(Box::new(call))))
}

fn read(
    form: Form,
    incoming: &Incoming<'_, '_>,
    node: &NodeKey,
) -> Result<(Together, Calls), MalformedBody> {
    let body = incoming.body;
    let mut channels_left = CHANNELS_MAX;
    let mut task = |request: Result<ApiRequest<'_>, CallError>| {
        request.and_then(|request| Ok(task(request, &mut channels_left, node)?))
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
            let calls = commands.into_iter();
            let calls = calls.map(|request| (0, task(request)));
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

/// Reads the message of a call by gRPC.
fn read_message(
    form: Form,
    message: &[u8],
    errors_in_status: bool,
    node: &NodeKey,
) -> Result<(Together, Calls), MalformedBody> {
    let mut channels_left = CHANNELS_MAX;
    let mut task = |request: Result<ApiRequest<'_>, CallError>| {
        request.and_then(|request| Ok(task(request, &mut channels_left, node)?))
    };
    if let Form::One(method) = form {
        let calls = [(0, task(Ok(parse_message(method, message)?)))].into();
        return Ok((Together::One { errors_in_status }, calls));
    }
    let commands = parse_batch_message(message)?.commands;
    MalformedBody::check_count(commands.len(), CALLS_MAX)?;
    let calls = commands.into_iter();
    let calls = calls.map(|request| (0, task(request)));
    Ok((Together::Batch, calls.collect()))
}

fn key_of(key: &str) -> Option<Box<str>> {
    (!key.is_empty()).then(|| key.into())
}

fn version_of(number: u64, epoch: &str) -> Option<Box<Version>> {
    let epoch = epoch.into();
    (number > 0).then(|| Box::new(Version { number, epoch }))
}

/// A public id that no connection has.
const NOBODY: &str = "nobody";

/// Target of a call: a user, or one connection.
struct Target {
    user: Box<str>,
    /// A public id; empty for all connections of the user.
    client: Box<str>,
}

impl Target {
    /// Reads a user, or a connection's public id or session, which must match.
    fn new(
        user: &str,
        client: &str,
        session: &str,
        node: &NodeKey,
    ) -> Result<Self, ServerApiError> {
        if user.is_empty() && client.is_empty() && session.is_empty() {
            return Err(ServerApiError::NoTarget);
        }
        let client = match session {
            "" => client.into(),
            session => {
                let named = node.conn_of_session(session);
                let named = named.map(|conn| node.client_id(conn));
                // A session that is not open, or of another client, matches none.
                let named = named.filter(|named| ["", named.as_str()].contains(&client));
                named.map_or_else(|| NOBODY.into(), |named| named.as_str().into())
            }
        };
        let user = user.into();
        Ok(Self { user, client })
    }
}

fn draft_of(publish: &PublishRequest<'_>) -> Result<Draft, ServerApiError> {
    Ok(Draft {
        tags: publish.tags.0.as_deref().map(Into::into),
        skip_history: publish.skip_history,
        idempotency_key: key_of(&publish.idempotency_key),
        version: version_of(publish.version, &publish.version_epoch),
        ..Draft::new(channel_of(&publish.channel)?, publish.payload()?)
    })
}

/// Carries out a single publication without lists, the usual call; `None` leaves the call to the
/// general way.
fn publish_one(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Option<Later> {
    let Ok(ApiRequest::Publish(publish)) = parse(Method::Publish, incoming.body) else {
        return None;
    };
    let draft = draft_of(&publish).ok()?;
    let covers = |key: &Arc<KeyRights>| key.covers(Some(&draft.channel));
    if !incoming.caller.as_ref().is_none_or(covers) {
        return None;
    }
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

/// A time in Unix seconds; 0 is none.
fn until(expire_at: i64) -> Option<u64> {
    u64::try_from(expire_at).ok().filter(|&until| until > 0)
}

fn task(
    request: ApiRequest<'_>,
    channels_left: &mut usize,
    node: &NodeKey,
) -> Result<Task, ServerApiError> {
    let mut takes = |count: usize| {
        *channels_left = channels_left
            .checked_sub(count)
            .ok_or(ServerApiError::TooManyChannels)?;
        Ok::<(), ServerApiError>(())
    };
    Ok(match request {
        ApiRequest::Publish(publish) => {
            takes(1)?;
            Task::Publish(vec![draft_of(&publish)?], false)
        }
        ApiRequest::Broadcast(broadcast) => {
            let payload = broadcast.payload()?;
            if broadcast.channels.is_empty() {
                return Err(ServerApiError::NoChannels);
            }
            takes(broadcast.channels.len())?;
            let payloads = std::iter::repeat_n(payload, broadcast.channels.len());
            let drafts = broadcast.channels.iter().zip(payloads);
            let drafts = drafts.map(|(channel, payload)| {
                Ok(Draft {
                    tags: broadcast.tags.0.as_deref().map(Into::into),
                    skip_history: broadcast.skip_history,
                    idempotency_key: key_of(&broadcast.idempotency_key),
                    version: version_of(broadcast.version, &broadcast.version_epoch),
                    ..Draft::new(name_of(channel)?, payload)
                })
            });
            Task::Publish(drafts.collect::<Result<_, ServerApiError>>()?, true)
        }
        ApiRequest::History(history) => {
            let history = History::from(history);
            Task::History(channel_of(&history.channel)?, history_query(&history))
        }
        ApiRequest::Channels(channels) => {
            let pattern = (&*channels.pattern).into();
            let limit = channels.limit;
            Task::Survey(Survey::Channels, Surveyed::Channels { pattern, limit })
        }
        ApiRequest::Connections(wanted) => {
            let search = search(&wanted)?;
            Task::Survey(Survey::Find(search.clone()), Surveyed::Connections(search))
        }
        ApiRequest::Info => Task::Survey(Survey::Count, Surveyed::Info),
        ApiRequest::Unsubscribe(unsubscribe) => {
            let it = &unsubscribe;
            let Target { user, client } = Target::new(&it.user, &it.client, &it.session, node)?;
            let channel = match &*unsubscribe.channel {
                "" => None,
                name => Some(channel_of(name)?),
            };
            let survey = Survey::Unsubscribe {
                user,
                client,
                channel,
            };
            Task::Survey(survey, Surveyed::Done(Method::Unsubscribe))
        }
        ApiRequest::Disconnect(disconnect) => {
            Task::Survey(end(&disconnect, node)?, Surveyed::Done(Method::Disconnect))
        }
        ApiRequest::Rpc(rpc) => {
            return Err(match &*rpc.method {
                "" => ServerApiError::NoMethod,
                // There are no procedures.
                _ => ServerApiError::NotFound,
            });
        }
        ApiRequest::Presence(request) => Task::Present(channel_of(&request.channel)?, true),
        ApiRequest::PresenceStats(request) => Task::Present(channel_of(&request.channel)?, false),
        ApiRequest::HistoryRemove(request) => Task::Forget(channel_of(&request.channel)?),
        ApiRequest::Subscribe(subscribe) => {
            let it = &subscribe;
            let Target { user, client } = Target::new(&it.user, &it.client, &it.session, node)?;
            let (info, b64info) = ClientData::parts(subscribe.info.0, &subscribe.b64info);
            let (data, b64data) = ClientData::parts(subscribe.data.0, &subscribe.b64data);
            let overrides = subscribe.overrides.0.as_deref();
            let options =
                SubscriptionOptions::of_parts([info, data], [&b64info, &b64data], overrides);
            let since = subscribe.recover_since.as_ref();
            let command = ControlCommand::Subscribe {
                channel: channel_of(&subscribe.channel)?,
                options: options.map_err(|_| ServerApiError::BadOptions)?,
                until_unix_s: until(subscribe.expire_at),
                since: since.map(|since| position_of(&since.epoch, since.offset)),
            };
            let survey = Survey::Control {
                user,
                client,
                command,
            };
            Task::Survey(survey, Surveyed::Done(Method::Subscribe))
        }
        ApiRequest::Refresh(refresh) => {
            let it = &refresh;
            let Target { user, client } = Target::new(&it.user, &it.client, &it.session, node)?;
            let command = ControlCommand::Refresh {
                expired: refresh.expired,
                until_unix_s: until(refresh.expire_at),
            };
            let survey = Survey::Control {
                user,
                client,
                command,
            };
            Task::Survey(survey, Surveyed::Done(Method::Refresh))
        }
    })
}

fn end(disconnect: &DisconnectRequest<'_>, node: &NodeKey) -> Result<Survey, ServerApiError> {
    let it = disconnect;
    let Target { user, client } = Target::new(&it.user, &it.client, &it.session, node)?;
    let force = Disconnect::ForceNoReconnect;
    let (code, reason) = match &disconnect.disconnect {
        Some(custom) => (custom.code, &*custom.reason),
        None => (u32::from(force.code()), force.reason()),
    };
    let code = u16::try_from(code).map_err(|_| ServerApiError::BadDisconnect)?;
    if !(3000..5000).contains(&code) || reason.len() > throng_ws::CLOSE_REASON_BYTES_MAX {
        return Err(ServerApiError::BadDisconnect);
    }
    let spared = disconnect.whitelist.iter();
    Ok(Survey::Disconnect {
        user,
        client,
        code,
        reason: reason.into(),
        whitelist: spared.map(|client| (&**client).into()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_durations() {
        for method in Method::ALL {
            let label = duration_of(method).label().expect("a method");
            assert_eq!((label.key, label.value), ("method", method.name()));
        }
    }

    #[test]
    fn the_pages_about_keys_and_calls_have_each_method_with_its_role() {
        let calls = include_str!("../../../../docs/api.md");
        let page = include_str!("../../../../docs/guides/security.md");
        for method in Method::ALL {
            let row = format!("| `{}`", role_of(method).word());
            let row = page.lines().find(|line| line.starts_with(&row));
            let name = format!("`{}`", method.name());
            assert!(row.expect("a row").contains(&name), "{name}");
            let path = format!("| `POST /api/{}` |", method.name());
            let row = calls.lines().find(|line| line.starts_with(&path));
            let role = format!("| `{}` |", role_of(method).word());
            assert!(row.expect("a row").ends_with(&role), "{path}");
        }
    }
}
