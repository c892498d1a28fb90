//! What a client does in channels: subscribe, publish, look back; and what it is answered.

use std::borrow::Cow;

use throng_auth::{Claims, TokenFault};
use throng_broker::{Draft, HistoryQuery, Recovery, Refusal, Subscribed};
use throng_centrifuge::{
    ErrorCode, History, HistoryResult, SubRefreshResult, Subscribe, SubscribeResult,
    encode_history_result, encode_publish_result, encode_sub_refresh_result,
    encode_subscribe_result,
};
use throng_hub::{Answer, Asker, Command};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Epoch, Now, Payload, Position, Publisher};

use super::connect::position;
use super::{code_of, error, ttl};
use crate::Desk;
use crate::effects::Fx;
use crate::format::ws_text;
use crate::identity::failure;
use crate::permit::{Verdict, may_publish, may_subscribe};
use crate::ws::Ws;

pub(super) fn subscribe(
    ws: &mut Ws,
    id: ConnId,
    command: u32,
    subscribe: &Subscribe<'_>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let Ok(channel) = ChannelName::new(&subscribe.channel) else {
        return error(command, ErrorCode::BadRequest, desk, fx);
    };
    let until = match check_token(ws, id, &channel, &subscribe.token, desk, fx.now) {
        Ok(until) => until,
        Err(fault) => return refuse_token(command, fault, desk, fx),
    };
    match may_subscribe(ws.identity(), &channel, until.is_some(), desk) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, desk, fx),
        Verdict::No => return error(command, ErrorCode::PermissionDenied, desk, fx),
    }
    if let Some(Some(until)) = until {
        ws.identity_mut()
            .set_subscription_until(&channel, Some(until));
        ws.arm(desk, fx);
    }
    let asker = Asker {
        conn: id,
        token: command,
    };
    let since = position(subscribe);
    fx.hub(Command::Subscribe {
        asker,
        channel,
        format: ws.format(),
        since,
    });
}

/// Checks a subscription token. `None`: there is none. `Some(None)`: good for ever.
fn check_token(
    ws: &Ws,
    id: ConnId,
    channel: &ChannelName,
    token: &str,
    desk: &Desk,
    now: Now,
) -> Result<Option<Option<u64>>, TokenFault> {
    let Some(verifier) = desk.verifier.as_ref().filter(|_| !token.is_empty()) else {
        return Ok(None);
    };
    let user: Cow<'_, str> = ws
        .identity()
        .map_or(Cow::Borrowed(""), |i| Cow::Borrowed(&*i.user));
    let client = desk.node.client_id(id);
    let check = |claims: Claims| {
        claims.check_subscription(channel.as_str(), &user, client.as_str())?;
        Ok(Some(claims.ends_at_unix_s()))
    };
    let checked = verifier.verify(token, now.unix_s()).and_then(check);
    if let Err(fault) = checked {
        desk.board.count(failure(fault));
    }
    checked
}

fn refuse_token(command: u32, fault: TokenFault, desk: &Desk, fx: &mut Fx<'_>) {
    let code = match fault {
        TokenFault::Expired => ErrorCode::TokenExpired,
        _ => ErrorCode::PermissionDenied,
    };
    error(command, code, desk, fx);
}

pub(super) fn sub_refresh(
    ws: &mut Ws,
    id: ConnId,
    command: u32,
    channel: &str,
    token: &str,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let Ok(channel) = ChannelName::new(channel) else {
        return error(command, ErrorCode::BadRequest, desk, fx);
    };
    match check_token(ws, id, &channel, token, desk, fx.now) {
        Ok(Some(until)) => {
            ws.identity_mut().set_subscription_until(&channel, until);
            ws.arm(desk, fx);
            let ttl_s = until.map_or(0, |until| ttl(until, fx.now));
            let result = SubRefreshResult {
                expires: until.is_some(),
                ttl_s,
            };
            ws_text(fx.out, |out| {
                encode_sub_refresh_result(command, &result, out)
            });
        }
        Ok(None) => error(command, ErrorCode::BadRequest, desk, fx),
        Err(fault) => refuse_token(command, fault, desk, fx),
    }
}

pub(super) fn publish(
    ws: &Ws,
    id: ConnId,
    command: u32,
    channel: &str,
    payload: Payload,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let Ok(channel) = ChannelName::new(channel) else {
        return error(command, ErrorCode::BadRequest, desk, fx);
    };
    match may_publish(ws.identity(), &channel, desk) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, desk, fx),
        Verdict::No => return error(command, ErrorCode::PermissionDenied, desk, fx),
    }
    let identity = ws.identity();
    let publisher = Publisher {
        client: desk.node.client_id(id).as_str().into(),
        user: identity
            .map(|identity| identity.user.clone())
            .unwrap_or_default(),
        conn_info: identity.and_then(|identity| identity.info.clone()),
    };
    let draft = Draft {
        channel,
        payload,
        publisher: Some(Box::new(publisher)),
        tags: None,
        skip_history: false,
        idempotency_key: None,
    };
    fx.hub(Command::Publish {
        asker: Asker {
            conn: id,
            token: command,
        },
        draft,
    });
}

pub(super) fn history(
    ws: &Ws,
    id: ConnId,
    command: u32,
    history: &History<'_>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let Ok(channel) = ChannelName::new(&history.channel) else {
        return error(command, ErrorCode::BadRequest, desk, fx);
    };
    // Who may listen may also hear what was said.
    let private = desk
        .namespaces
        .find(&channel)
        .is_some_and(|options| options.subscribe_token);
    match may_subscribe(ws.identity(), &channel, false, desk) {
        Verdict::Yes if !private => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, desk, fx),
        _ => return error(command, ErrorCode::PermissionDenied, desk, fx),
    }
    let query = history_query(history);
    fx.hub(Command::History {
        asker: Asker {
            conn: id,
            token: command,
        },
        channel,
        query,
    });
}

/// The protocol's words for a part of the past, in the broker's.
pub(crate) fn history_query(history: &History<'_>) -> HistoryQuery {
    HistoryQuery {
        limit: u32::try_from(history.limit).ok(),
        since: history.since.as_ref().map(|since| Position {
            epoch: Epoch::parse(&since.epoch).unwrap_or(Epoch(0)),
            offset: since.offset,
        }),
        reverse: history.reverse,
    }
}

/// What a subscriber learns.
pub(crate) fn subscribe_result<'a>(
    channel: &ChannelName,
    subscribed: &'a Subscribed,
    desk: &Desk,
) -> SubscribeResult<'a> {
    let recoverable = desk
        .namespaces
        .find(channel)
        .is_some_and(|options| options.recovery);
    let (was_recovering, recovered, publications): (_, _, &[_]) = match &subscribed.recovery {
        Recovery::NotAsked => (false, false, &[]),
        Recovery::Lost => (true, false, &[]),
        Recovery::Whole(publications) => (true, true, publications),
    };
    if was_recovering {
        desk.board.count(if recovered {
            Counter::RecoveredComplete
        } else {
            Counter::RecoveredFailed
        });
    }
    SubscribeResult {
        recoverable,
        positioned: recoverable,
        position: subscribed.position,
        publications,
        recovered,
        was_recovering,
        ..SubscribeResult::default()
    }
}

/// A subscribe command's answer.
pub(crate) fn subscribed(
    ws: &mut Ws,
    command: u32,
    channel: &ChannelName,
    result: &Result<Subscribed, Refusal>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let subscribed = match result {
        Ok(subscribed) => subscribed,
        Err(refusal) => return error(command, code_of(*refusal), desk, fx),
    };
    let mut result = subscribe_result(channel, subscribed, desk);
    let until = ws.identity().and_then(|identity| {
        let mut ends = identity.subscriptions_until.iter();
        ends.find(|(known, _)| known == channel)
            .map(|(_, until)| *until)
    });
    result.expires = until.is_some();
    result.ttl_s = until.map_or(0, |until| ttl(until, fx.now));
    ws_text(fx.out, |out| encode_subscribe_result(command, &result, out));
}

/// The answer to another command.
pub(crate) fn answer(_: &mut Ws, command: u32, answer: Answer, desk: &Desk, fx: &mut Fx<'_>) {
    match answer {
        Answer::Published { result: Ok(_) } => {
            desk.board.count(Counter::PublicationsClient);
            ws_text(fx.out, |out| encode_publish_result(command, out));
        }
        Answer::History { result: Ok(page) } => {
            let nowhere = Position {
                epoch: Epoch(0),
                offset: 0,
            };
            let result = HistoryResult {
                publications: &page.publications,
                position: page.position.unwrap_or(nowhere),
            };
            ws_text(fx.out, |out| encode_history_result(command, &result, out));
        }
        Answer::Published {
            result: Err(refusal),
        }
        | Answer::History {
            result: Err(refusal),
        } => {
            error(command, code_of(refusal), desk, fx);
        }
        // Answered by its own function.
        Answer::Subscribed { .. } => {}
    }
}
