//! What a client does in channels: subscribe, publish, look back; and what it is answered.

use std::borrow::Cow;

use throng_auth::{Claims, TokenFault};
use throng_broker::{Draft, Refusal, Subscribed};
use throng_centrifuge::{
    ErrorCode, History, HistoryResult, SubRefreshResult, Subscribe, encode_history_result,
    encode_publish_result, encode_sub_refresh_result, encode_subscribe_result,
};
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_types::{ChannelName, Epoch, Payload, Position, Publisher};

use throng_session::encode::ws_text;
use throng_session::{Verdict, check_token as session_check, may_publish, may_subscribe};

use crate::context::Cx;
use crate::reply::{code_of, error, ttl};
use crate::results::{history_query, position, subscribe_result};
use crate::socket::Socket;

pub(crate) fn subscribe(ws: &mut Socket, command: u32, subscribe: &Subscribe<'_>, cx: &mut Cx<'_>) {
    let Ok(channel) = ChannelName::new(&subscribe.channel) else {
        return error(command, ErrorCode::BadRequest, cx);
    };
    let until = match check_token(ws, &channel, &subscribe.token, cx) {
        Ok(until) => until,
        Err(fault) => return refuse_token(command, fault, cx),
    };
    match may_subscribe(ws.identity(), &channel, until.is_some(), cx.shared) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return error(command, ErrorCode::PermissionDenied, cx),
    }
    if let Some(Some(until)) = until {
        ws.identity_mut()
            .set_subscription_until(&channel, Some(until));
        ws.arm(cx);
    }
    cx.subscribe(command, channel, ws.form(), position(subscribe));
}

/// Checks a subscription token. `None`: there is none. `Some(None)`: good for ever.
fn check_token(
    ws: &Socket,
    channel: &ChannelName,
    token: &str,
    cx: &Cx<'_>,
) -> Result<Option<Option<u64>>, TokenFault> {
    let Some(verifier) = cx.shared.verifier.as_ref().filter(|_| !token.is_empty()) else {
        return Ok(None);
    };
    let user: Cow<'_, str> = ws
        .identity()
        .map_or(Cow::Borrowed(""), |i| Cow::Borrowed(&*i.user));
    let client = cx.shared.node.client_id(cx.id);
    let check = |claims: Claims| {
        claims.check_subscription(channel.as_str(), &user, client.as_str())?;
        Ok(Some(claims.ends_at_unix_s()))
    };
    session_check(verifier, token, check, cx.shared, cx.now)
}

fn refuse_token(command: u32, fault: TokenFault, cx: &mut Cx<'_>) {
    let code = match fault {
        TokenFault::Expired => ErrorCode::TokenExpired,
        _ => ErrorCode::PermissionDenied,
    };
    error(command, code, cx);
}

pub(crate) fn sub_refresh(
    ws: &mut Socket,
    command: u32,
    channel: &str,
    token: &str,
    cx: &mut Cx<'_>,
) {
    let Ok(channel) = ChannelName::new(channel) else {
        return error(command, ErrorCode::BadRequest, cx);
    };
    match check_token(ws, &channel, token, cx) {
        Ok(Some(until)) => {
            ws.identity_mut().set_subscription_until(&channel, until);
            ws.arm(cx);
            let ttl_s = until.map_or(0, |until| ttl(until, cx.now));
            let result = SubRefreshResult {
                expires: until.is_some(),
                ttl_s,
            };
            ws_text(cx.out, |out| {
                encode_sub_refresh_result(command, &result, out)
            });
        }
        Ok(None) => error(command, ErrorCode::BadRequest, cx),
        Err(fault) => refuse_token(command, fault, cx),
    }
}

pub(crate) fn publish(ws: &Socket, command: u32, channel: &str, payload: Payload, cx: &mut Cx<'_>) {
    let Ok(channel) = ChannelName::new(channel) else {
        return error(command, ErrorCode::BadRequest, cx);
    };
    match may_publish(ws.identity(), &channel, cx.shared) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return error(command, ErrorCode::PermissionDenied, cx),
    }
    let identity = ws.identity();
    let publisher = Publisher {
        client: cx.shared.node.client_id(cx.id).as_str().into(),
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
    let reply_to = cx.reply_to(command);
    cx.hub(Command::Publish { reply_to, draft });
}

pub(crate) fn history(ws: &Socket, command: u32, history: &History<'_>, cx: &mut Cx<'_>) {
    let Ok(channel) = ChannelName::new(&history.channel) else {
        return error(command, ErrorCode::BadRequest, cx);
    };
    // Who may listen may also hear what was said.
    let private = cx
        .shared
        .namespaces
        .find(&channel)
        .is_some_and(|options| options.subscribe_token);
    match may_subscribe(ws.identity(), &channel, false, cx.shared) {
        Verdict::Yes if !private => {}
        Verdict::UnknownChannel => return error(command, ErrorCode::UnknownChannel, cx),
        _ => return error(command, ErrorCode::PermissionDenied, cx),
    }
    let query = history_query(history);
    let reply_to = cx.reply_to(command);
    cx.hub(Command::History {
        reply_to,
        channel,
        query,
    });
}

/// A subscribe command's answer.
pub(crate) fn subscribed(
    ws: &Socket,
    command: u32,
    channel: &ChannelName,
    result: &Result<Subscribed, Refusal>,
    cx: &mut Cx<'_>,
) {
    let subscribed = match result {
        Ok(subscribed) => subscribed,
        Err(refusal) => return error(command, code_of(*refusal), cx),
    };
    let mut result = subscribe_result(channel, subscribed, cx);
    let until = ws.identity().and_then(|identity| {
        let mut ends = identity.subscriptions_until.iter();
        ends.find(|(known, _)| known == channel)
            .map(|(_, until)| *until)
    });
    result.expires = until.is_some();
    result.ttl_s = until.map_or(0, |until| ttl(until, cx.now));
    ws_text(cx.out, |out| encode_subscribe_result(command, &result, out));
}

/// The answer to another command.
pub(crate) fn answer(command: u32, answer: &Answer, cx: &mut Cx<'_>) {
    match answer {
        Answer::Published { result: Ok(_) } => {
            cx.count(Counter::PublicationsClient);
            ws_text(cx.out, |out| encode_publish_result(command, out));
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
            ws_text(cx.out, |out| encode_history_result(command, &result, out));
        }
        Answer::Published {
            result: Err(refusal),
        }
        | Answer::History {
            result: Err(refusal),
        } => {
            error(command, code_of(*refusal), cx);
        }
        // Answered by its own function.
        Answer::Subscribed { .. } => {}
    }
}
