//! The server API: publish and its siblings, in Centrifugo's shapes, and `/pub`.

use throng_auth::Credentials;
use throng_broker::{Draft, HistoryQuery};
use throng_centrifuge::api::{ApiError, ApiRequest, Method, parse};
use throng_centrifuge::payload_of;
use throng_http1::query;
use throng_hub::{Asker, Command};
use throng_metrics::Counter;
use throng_types::{ChannelName, Disconnect, Epoch, Payload, Position};

use super::call::{Call, Wording, count_publications, respond};
use super::{Incoming, Reject};
use crate::Desk;
use crate::effects::{Fx, Order, Question};
use crate::http::Next;

/// Channels that one request may publish to.
const CHANNELS_MAX: usize = 10_000;

/// Keeps strangers from the API port, if there are keys.
pub(super) fn check_key(incoming: &Incoming<'_, '_>, desk: &Desk) -> Result<(), Reject> {
    if desk.api_keys.is_empty() {
        return Ok(());
    }
    let request = incoming.request;
    let from_query = query::pairs(request.query()).find(|(name, _)| name == "api_key");
    let credentials = Credentials {
        x_api_key: request.header("x-api-key"),
        authorization: request.header("authorization"),
        query: from_query.as_ref().map(|(_, key)| &**key),
    };
    if desk.api_keys.admit(credentials) {
        return Ok(());
    }
    desk.board.count(Counter::AuthApiKey);
    Err(Reject::new(
        401,
        "an API key is needed: send it as the header `X-API-Key`",
    ))
}

/// `POST /pub?channel=a&channel=b`: the body is the data.
pub(super) fn publish(
    incoming: &Incoming<'_, '_>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Next, Reject> {
    let mut channels = Vec::new();
    for (name, value) in query::pairs(incoming.request.query()) {
        if name == "channel" {
            let channel = ChannelName::new(&value);
            channels.push(channel.map_err(|error| Reject::new(400, error.to_string()))?);
        }
    }
    if channels.is_empty() {
        return Err(Reject::new(400, "no channel given: add ?channel=NAME"));
    }
    if channels.len() > CHANNELS_MAX {
        return Err(Reject::new(
            400,
            format!("more than {CHANNELS_MAX} channels in one request"),
        ));
    }
    let payload = payload_of(incoming.body.to_vec());
    let keep_alive = incoming.request.keep_alive();
    let drafts = channels
        .into_iter()
        .map(|channel| draft(channel, payload.clone()));
    Ok(Next::Waits(order(
        incoming,
        drafts.collect(),
        false,
        Wording::Pub,
        keep_alive,
        desk,
        fx,
    )))
}

const fn draft(channel: ChannelName, payload: Payload) -> Draft {
    Draft {
        channel,
        payload,
        publisher: None,
        tags: None,
        skip_history: false,
        idempotency_key: None,
    }
}

fn order(
    incoming: &Incoming<'_, '_>,
    drafts: Vec<Draft>,
    broadcast: bool,
    wording: Wording,
    keep_alive: bool,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Call {
    count_publications(drafts.len(), desk);
    let call = Call::publications(drafts.len(), broadcast, wording, keep_alive);
    for (token, draft) in drafts.into_iter().enumerate() {
        let asker = Asker {
            conn: incoming.id,
            token: token as u32,
        };
        fx.hub(Command::Publish { asker, draft });
    }
    call
}

/// `POST /api/{method}`.
pub(super) fn call(
    incoming: &Incoming<'_, '_>,
    method: Method,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Next {
    let request = incoming.request;
    let mode = request.header("x-centrifugo-error-mode");
    let wording = Wording::Api {
        transport: mode == Some("transport"),
    };
    let keep_alive = request.keep_alive();
    let started = match parse(method, incoming.body) {
        Ok(parsed) => start(incoming, parsed, wording, keep_alive, desk, fx),
        Err(fault) => {
            let sentence = format!("the body is not what {} takes: {fault}", method.name());
            crate::http::answer_text(400, &sentence, &[], keep_alive, fx);
            return Next::Answered { keep_alive };
        }
    };
    match started {
        Ok(call) => Next::Waits(call),
        Err(error) => {
            desk.board.count(Counter::error(error.code()));
            respond(wording, Err(error), keep_alive, fx);
            Next::Answered { keep_alive }
        }
    }
}

fn channel_of(name: &str) -> Result<ChannelName, ApiError> {
    ChannelName::new(name).map_err(|_| ApiError::BadRequest)
}

fn start(
    incoming: &Incoming<'_, '_>,
    request: ApiRequest<'_>,
    wording: Wording,
    keep_alive: bool,
    desk: &Desk,
    fx: &mut Fx<'_>,
) -> Result<Call, ApiError> {
    let asker = Asker {
        conn: incoming.id,
        token: 0,
    };
    let mut ask = |question| fx.orders.push(Order::Ask { asker, question });
    Ok(match request {
        ApiRequest::Publish(publish) => {
            let draft = Draft {
                tags: publish.tags.map(Into::into),
                skip_history: publish.skip_history,
                idempotency_key: key(&publish.idempotency_key),
                ..draft(channel_of(&publish.channel)?, publish.payload()?)
            };
            order(incoming, vec![draft], false, wording, keep_alive, desk, fx)
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
                    idempotency_key: key(&broadcast.idempotency_key),
                    ..draft(channel_of(channel)?, payload.clone())
                })
            });
            let drafts = drafts.collect::<Result<Vec<_>, ApiError>>()?;
            order(incoming, drafts, true, wording, keep_alive, desk, fx)
        }
        ApiRequest::History(history) => {
            let channel = channel_of(&history.channel)?;
            let query = HistoryQuery {
                limit: u32::try_from(history.limit).ok(),
                since: history.since.as_ref().map(|since| Position {
                    epoch: Epoch::parse(&since.epoch).unwrap_or(Epoch(0)),
                    offset: since.offset,
                }),
                reverse: history.reverse,
            };
            fx.hub(Command::History {
                asker,
                channel,
                query,
            });
            Call::history(wording, keep_alive)
        }
        ApiRequest::Channels(channels) => {
            let pattern: Box<str> = (&*channels.pattern).into();
            ask(Question::Channels {
                pattern: pattern.clone(),
            });
            Call::channels(pattern, wording, keep_alive)
        }
        ApiRequest::Info => {
            ask(Question::Count);
            Call::info(wording, keep_alive)
        }
        ApiRequest::Unsubscribe(unsubscribe) => {
            if unsubscribe.user.is_empty() && unsubscribe.client.is_empty() {
                return Err(ApiError::BadRequest);
            }
            let named = !unsubscribe.channel.is_empty();
            let channel = if named {
                Some(channel_of(&unsubscribe.channel)?)
            } else {
                None
            };
            ask(Question::Unsubscribe {
                user: (&*unsubscribe.user).into(),
                client: (&*unsubscribe.client).into(),
                channel,
            });
            Call::unsubscribe(wording, keep_alive)
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
            ask(Question::Disconnect {
                user: (&*disconnect.user).into(),
                client: (&*disconnect.client).into(),
                code,
                reason: reason.into(),
                whitelist: disconnect
                    .whitelist
                    .iter()
                    .map(|client| (&**client).into())
                    .collect(),
            });
            Call::disconnect(wording, keep_alive)
        }
    })
}

fn key(key: &str) -> Option<Box<str>> {
    (!key.is_empty()).then(|| key.into())
}
