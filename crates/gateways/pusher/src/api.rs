//! Calls of back ends: each is checked by its signature, carried out, and answered.

use throng_broker::Draft;
use throng_metrics::Counter;
use throng_pusher::api::{
    BadEvent, BadSignature, InfoAttributes, PusherCall, SignedQuery, Trigger, connections_answer,
};
use throng_pusher::{CloseCode, EventData};
use throng_session::http::Later;
use throng_session::{Context, Incoming, Opened, PublishOutcome, Reject, Work};

use crate::call::{AnswerContent, PRESENCE, WaitingCall, hub_channel};
use crate::quota::EventSource;
use crate::refusal::{Refused, answer, answer_error};
use crate::{Cx, PusherApp, forms};

/// Answer of a call that asked for nothing, as the SDKs' own tests want it.
const NOTHING: &[u8] = b"{}";

/// Carries a call out; it is answered now, or once all that it depends on is known.
pub(crate) fn open(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<WaitingCall>, Reject> {
    // The digest of the body.
    cx.spend(Work::answer(0, 2 * incoming.body.len()))?;
    Ok(call(incoming, cx).unwrap_or_else(|refused| {
        let path = incoming.request.path();
        cx.shared.notices.refused("pusher", path, "", refused.why);
        let keep_alive = incoming.request.keep_alive();
        answer_error(refused, keep_alive, cx);
        Opened::Answered { keep_alive }
    }))
}

fn call(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Opened<WaitingCall>, Refused> {
    let request = incoming.request;
    let path = cx.own.inner_path(request.path()).unwrap_or_default();
    let parsed = throng_pusher::api::call_of(request.method == "POST", path);
    let (id, called) = parsed.ok_or((404, "there is no such path"))?;
    let known = cx.own.by_id(id);
    let (_, app) = known.ok_or((404, "there is no app with this id"))?;
    let query = SignedQuery::parse(request.query());
    let check = |path| {
        let (method, now_s) = (request.method, cx.now.unix_s());
        query.check(&app.keys, method, path, incoming.body, now_s)
    };
    // Some libraries sign the path before `pusher.path` with the rest, and some without it.
    let signed = match check(path) {
        Err(BadSignature::Signature) if path != request.path() => check(request.path()),
        signed => signed,
    };
    signed.map_err(|fault| (401, fault.reason()))?;
    cx.shared.notices.signed_by(format_args!("app {}", app.id));
    if !app.is_enabled {
        return Err((403, CloseCode::Disabled.reason()).into());
    }
    let called = called.ok_or((404, "there is no such call, or not with this method"))?;
    if request.method != "POST" {
        app.used.read(&app.quota, cx.now)?;
    }
    let info = InfoAttributes::parse(query.get("info"));
    let mut body = NOTHING.to_vec();
    let (drafts, asked) = match called {
        PusherCall::Events => events(app, incoming.body)?,
        PusherCall::BatchEvents => batch(app, incoming.body)?,
        PusherCall::Terminate(user) => (terminate(app, &user)?, None),
        PusherCall::Channels => {
            let prefix = query.get("filter_by_prefix").to_owned();
            let info = checked(info, &prefix)?;
            (Vec::new(), Some(AnswerContent::Channels { prefix, info }))
        }
        PusherCall::Channel(name) => {
            let info = checked(info, &name)?;
            (Vec::new(), Some(AnswerContent::Channel { name, info }))
        }
        PusherCall::Users(name) if name.starts_with(PRESENCE) => {
            (Vec::new(), Some(AnswerContent::Users { name }))
        }
        PusherCall::Users(_) => return Err((400, "only presence channels have users").into()),
        PusherCall::Connections => {
            body.clear();
            connections_answer(app.used.connections(), &mut body);
            (Vec::new(), None)
        }
    };
    charge(app, &drafts, cx)?;
    cx.shared
        .counters
        .add(Counter::PublicationsApi, drafts.len() as u64);
    if let Some(asked) = asked {
        let call = WaitingCall::open(incoming, (app, asked), drafts, cx);
        return Ok(Opened::Session(call));
    }
    if drafts.is_empty() {
        let keep_alive = request.keep_alive();
        answer(&[], &body, keep_alive, cx);
        return Ok(Opened::Answered { keep_alive });
    }
    let later = Later::publish_all(drafts, incoming, (write_answer, 0), cx);
    Ok(Opened::Later(later))
}

/// Charges the app for what a call publishes.
fn charge(app: &PusherApp, drafts: &[Draft], cx: &Cx<'_>) -> Result<(), Refused> {
    if drafts.is_empty() {
        return Ok(());
    }
    let bytes = drafts.iter().map(|draft| draft.payload.bytes.len()).sum();
    let size = (drafts.len(), bytes);
    Ok((app.used).publish(EventSource::BackEnd, size, drafts, &app.quota, cx.now)?)
}

/// The attributes that a caller may ask for, of channels whose names begin so.
fn checked(info: InfoAttributes, prefix: &str) -> Result<InfoAttributes, (u16, &'static str)> {
    match info.user_count && !prefix.starts_with(PRESENCE) {
        true => Err((400, "user_count is for presence channels alone")),
        false => Ok(info),
    }
}

/// Publications of a call, and what its answer says if that is more than `{}`.
type Orders = (Vec<Draft>, Option<AnswerContent>);

fn events(app: &PusherApp, body: &[u8]) -> Result<Orders, Refused> {
    let trigger = Trigger::parse(body, app.limits).map_err(unfit)?;
    let (drafts, info) = (drafts(app, &trigger)?, trigger.info);
    let channels = trigger.channels;
    let asked = (!info.is_empty()).then_some(AnswerContent::Event { channels, info });
    Ok((drafts, asked))
}

fn batch(app: &PusherApp, body: &[u8]) -> Result<Orders, Refused> {
    let batch = Trigger::parse_batch(body, app.limits).map_err(unfit)?;
    let mut all = Vec::new();
    let mut asked = Vec::new();
    for mut trigger in batch {
        all.extend(drafts(app, &trigger)?);
        let channel = trigger.channels.pop().unwrap_or_default();
        asked.push((channel, trigger.info));
    }
    let has_info = asked.iter().any(|(_, info)| !info.is_empty());
    Ok((all, has_info.then_some(AnswerContent::Batch(asked))))
}

fn drafts(app: &PusherApp, trigger: &Trigger) -> Result<Vec<Draft>, Refused> {
    let event = (&*trigger.name, EventData::Text(&trigger.data));
    let left_out = trigger.socket_id.as_deref();
    let draft = |name: &String| {
        let channel = hub_channel(app, name).ok_or(BadEvent::ChannelName)?;
        Ok(forms::draft(channel, event, None, left_out))
    };
    let drafts = trigger.channels.iter().map(draft);
    drafts.collect::<Result<_, _>>().map_err(unfit)
}

fn terminate(app: &PusherApp, user: &str) -> Result<Vec<Draft>, Refused> {
    let channel = forms::user_channel(app, user).ok_or((400, "the user's id is too long"))?;
    Ok(vec![forms::termination(channel)])
}

fn unfit(fault: BadEvent) -> Refused {
    (fault.status(), fault.reason()).into()
}

/// Answers a call whose publications are all answered.
fn write_answer(results: &[PublishOutcome], _: u8, keep_alive: bool, cx: &mut Context<'_>) {
    answer(results, NOTHING, keep_alive, cx);
}
