//! Calls of back ends: each is checked by its signature, carried out, and answered.

use throng_broker::Draft;
use throng_metrics::Counter;
use throng_pusher::api::{BadEvent, InfoAttributes, PusherCall, SignedQuery, Trigger};
use throng_pusher::{ChannelKind, EventData};
use throng_session::http::Later;
use throng_session::{Context, Incoming, Opened, PublishOutcome, Reject, Work, respond_json};

use crate::call::{AnswerContent, WaitingCall};
use crate::refusal::{Refused, answer_error, status_of};
use crate::{Cx, PusherApp, forms};

/// Carries a call out; it is answered now, or once all that it depends on is known.
pub(crate) fn open(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<Opened<WaitingCall>, Reject> {
    // The digest of the body.
    cx.spend(Work::answer(0, 2 * incoming.body.len()))?;
    Ok(call(incoming, cx).unwrap_or_else(|(status, why)| {
        cx.shared
            .notices
            .refused("pusher", incoming.request.path(), "", why);
        let keep_alive = incoming.request.keep_alive();
        answer_error(status, why, keep_alive, cx);
        Opened::Answered { keep_alive }
    }))
}

fn call(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Opened<WaitingCall>, Refused> {
    let (request, path) = (incoming.request, incoming.request.path());
    let parsed = throng_pusher::api::call_of(request.method == "POST", path);
    let (id, called) = parsed.ok_or((404, "there is no such path"))?;
    let app = cx.own.by_id(id).and_then(|place| cx.own.app(place));
    let app = app.ok_or((404, "there is no app with this id"))?;
    let query = SignedQuery::parse(request.query());
    query
        .check(
            &app.keys,
            request.method,
            path,
            incoming.body,
            cx.now.unix_s(),
        )
        .map_err(|fault| (401, fault.reason()))?;
    let called = called.ok_or((404, "there is no such call, or not with this method"))?;
    let info = || facts(InfoAttributes::parse(query.get("info")));
    let (drafts, asked) = match called {
        PusherCall::Events => events(app, incoming.body)?,
        PusherCall::BatchEvents => batch(app, incoming.body)?,
        PusherCall::Terminate(user) => (terminate(app, &user)?, None),
        PusherCall::Channels => {
            let prefix = query.get("filter_by_prefix").to_owned();
            (
                Vec::new(),
                Some(AnswerContent::Channels {
                    prefix,
                    info: info()?,
                }),
            )
        }
        PusherCall::Channel(name) => (
            Vec::new(),
            Some(AnswerContent::Channel {
                name,
                info: info()?,
            }),
        ),
        PusherCall::Users(_) | PusherCall::Connections => {
            return Err((501, "this call is not served yet"));
        }
    };
    cx.shared
        .counters
        .add(Counter::PublicationsApi, drafts.len() as u64);
    if let Some(asked) = asked {
        let call = WaitingCall::open(incoming, (&app.id, asked), drafts, cx);
        return Ok(Opened::Session(call));
    }
    if drafts.is_empty() {
        let keep_alive = request.keep_alive();
        respond_json(200, b"{}", keep_alive, cx);
        return Ok(Opened::Answered { keep_alive });
    }
    let later = Later::publish_all(drafts, incoming, (write_answer, 0), cx);
    Ok(Opened::Later(later))
}

/// The attributes that a caller may ask for.
const fn facts(info: InfoAttributes) -> Result<InfoAttributes, Refused> {
    match info.user_count {
        true => Err((501, "user_count is not served yet")),
        false => Ok(info),
    }
}

/// Publications of a call, and what its answer says if that is more than `{}`.
type Orders = (Vec<Draft>, Option<AnswerContent>);

fn events(app: &PusherApp, body: &[u8]) -> Result<Orders, Refused> {
    let trigger = Trigger::parse(body, app.limits).map_err(refused)?;
    let (drafts, info) = (drafts(app, &trigger)?, facts(trigger.info)?);
    let channels = trigger.channels;
    let asked = (!info.is_empty()).then_some(AnswerContent::Event { channels, info });
    Ok((drafts, asked))
}

fn batch(app: &PusherApp, body: &[u8]) -> Result<Orders, Refused> {
    let batch = Trigger::parse_batch(body, app.limits).map_err(refused)?;
    let mut all = Vec::new();
    let mut asked = Vec::new();
    for mut trigger in batch {
        all.extend(drafts(app, &trigger)?);
        let channel = trigger.channels.pop().unwrap_or_default();
        asked.push((channel, facts(trigger.info)?));
    }
    let has_info = asked.iter().any(|(_, info)| !info.is_empty());
    Ok((all, has_info.then_some(AnswerContent::Batch(asked))))
}

fn drafts(app: &PusherApp, trigger: &Trigger) -> Result<Vec<Draft>, Refused> {
    let event = (&*trigger.name, EventData::Text(&trigger.data));
    let left_out = trigger.socket_id.as_deref();
    let draft = |name: &String| {
        let kind = ChannelKind::of(name).ok_or(BadEvent::ChannelName)?;
        let channel = forms::hub_channel(app, name, kind).ok_or(BadEvent::ChannelName)?;
        Ok(forms::draft(channel, event, None, left_out))
    };
    let drafts = trigger.channels.iter().map(draft);
    drafts.collect::<Result<_, _>>().map_err(refused)
}

fn terminate(app: &PusherApp, user: &str) -> Result<Vec<Draft>, Refused> {
    let channel = forms::user_channel(app, user).ok_or((400, "the user's id is too long"))?;
    Ok(vec![forms::termination(channel)])
}

const fn refused(fault: BadEvent) -> Refused {
    (fault.status(), fault.reason())
}

/// Answers a call whose publications are all answered: the SDKs' own tests want `{}`.
fn write_answer(results: &[PublishOutcome], _: u8, keep_alive: bool, cx: &mut Context<'_>) {
    match results.iter().find_map(|result| result.err()) {
        None => respond_json(200, b"{}", keep_alive, cx),
        Some(refusal) => {
            let (status, why) = status_of(refusal);
            answer_error(status, why, keep_alive, cx);
        }
    }
}
