//! Centrifugo's server API, `POST /api/{method}`.

use throng_broker::{Draft, HistoryQuery};
use throng_centrifuge::api::{ApiError, ApiRequest, Method, parse};
use throng_hub::Command;
use throng_metrics::Counter;
use throng_session::http::SAFE;
use throng_session::{Exchange, Incoming, Opened, Publications, Survey, answer_text, draft};
use throng_types::{ChannelName, Disconnect};

use crate::call::{Awaited, Call, respond};
use crate::context::Cx;
use crate::results::position_of;
use crate::session::Session;

/// Channels that one request may publish to.
const CHANNELS_MAX: usize = 10_000;

/// Carries out a call.
pub(crate) fn call(
    incoming: &Incoming<'_, '_>,
    method: Method,
    cx: &mut Cx<'_>,
) -> Opened<Session> {
    let request = incoming.request;
    let keep_alive = request.keep_alive();
    let parsed = match parse(method, incoming.body) {
        Ok(parsed) => parsed,
        Err(fault) => {
            let sentence = format!("the body is not what {} takes: {fault}", method.name());
            answer_text(400, &sentence, &SAFE, keep_alive, cx);
            return Opened::Answered { keep_alive };
        }
    };
    let errors_in_status = request.header("x-centrifugo-error-mode") == Some("transport");
    match start(parsed, cx) {
        Ok(awaited) => {
            cx.set_deadline(None);
            Opened::Session(Session::Call(Box::new(Call {
                exchange: Exchange::new(incoming),
                awaited,
                errors_in_status,
            })))
        }
        Err(error) => {
            cx.count(Counter::error(error.code()));
            respond(Err(error), errors_in_status, keep_alive, cx);
            Opened::Answered { keep_alive }
        }
    }
}

fn channel_of(name: &str) -> Result<ChannelName, ApiError> {
    ChannelName::new(name).map_err(|_| ApiError::BadRequest)
}

fn key_of(key: &str) -> Option<Box<str>> {
    (!key.is_empty()).then(|| key.into())
}

fn publish(drafts: Vec<Draft>, is_broadcast: bool, cx: &mut Cx<'_>) -> Awaited {
    let counters = &cx.shared.counters;
    counters.add(Counter::PublicationsApi, drafts.len() as u64);
    Awaited::Publications {
        publications: Publications::order(drafts, cx),
        is_broadcast,
    }
}

fn start(request: ApiRequest<'_>, cx: &mut Cx<'_>) -> Result<Awaited, ApiError> {
    Ok(match request {
        ApiRequest::Publish(publish_one) => {
            let draft = Draft {
                tags: publish_one.tags.map(Into::into),
                skip_history: publish_one.skip_history,
                idempotency_key: key_of(&publish_one.idempotency_key),
                ..draft(channel_of(&publish_one.channel)?, publish_one.payload()?)
            };
            publish(vec![draft], false, cx)
        }
        ApiRequest::Broadcast(broadcast) => {
            let payload = broadcast.payload()?;
            if broadcast.channels.is_empty() || broadcast.channels.len() > CHANNELS_MAX {
                return Err(ApiError::BadRequest);
            }
            let drafts = broadcast.channels.iter().map(|channel| {
                Ok(Draft {
                    tags: broadcast.tags.map(Into::into),
                    skip_history: broadcast.skip_history,
                    idempotency_key: key_of(&broadcast.idempotency_key),
                    ..draft(channel_of(channel)?, payload.clone())
                })
            });
            publish(drafts.collect::<Result<_, ApiError>>()?, true, cx)
        }
        ApiRequest::History(history) => {
            let channel = channel_of(&history.channel)?;
            let query = HistoryQuery {
                limit: u32::try_from(history.limit).ok(),
                since: { history.since.as_ref() }
                    .map(|since| position_of(&since.epoch, since.offset)),
                reverse: history.reverse,
            };
            let reply_to = cx.reply_to(0);
            cx.hub(Command::History {
                reply_to,
                channel,
                query,
                only_subscribed: false,
            });
            Awaited::History
        }
        ApiRequest::Channels(channels) => {
            cx.survey(Survey::Channels);
            Awaited::Channels {
                pattern: (&*channels.pattern).into(),
            }
        }
        ApiRequest::Info => {
            cx.survey(Survey::Count);
            Awaited::Info
        }
        ApiRequest::Unsubscribe(unsubscribe) => {
            if unsubscribe.user.is_empty() && unsubscribe.client.is_empty() {
                return Err(ApiError::BadRequest);
            }
            let channel = match &*unsubscribe.channel {
                "" => None,
                name => Some(channel_of(name)?),
            };
            cx.survey(Survey::Unsubscribe {
                user: (&*unsubscribe.user).into(),
                client: (&*unsubscribe.client).into(),
                channel,
            });
            Awaited::Unsubscribe
        }
        ApiRequest::Disconnect(disconnect) => {
            if disconnect.user.is_empty() && disconnect.client.is_empty() {
                return Err(ApiError::BadRequest);
            }
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
            cx.survey(Survey::Disconnect {
                user: (&*disconnect.user).into(),
                client: (&*disconnect.client).into(),
                code,
                reason: reason.into(),
                whitelist: spared.map(|client| (&**client).into()).collect(),
            });
            Awaited::Disconnect
        }
    })
}
