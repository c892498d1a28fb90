//! What a client does in channels: subscribe, publish, look back; and what it is answered.

use throng_auth::{Claims, SubscriptionOptions, TokenFault};
use throng_broker::{Draft, Recovery, Refusal, Subscribed};
use throng_centrifuge::{
    ClientInfo, Data, ErrorCode, History, HistoryResult, Reply, SubRefreshResult, Subscribe,
};
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_session::{
    Sight, Verdict, check_token as session_check, may_publish, may_read_history, may_see_presence,
    may_subscribe,
};
use throng_types::{ChannelName, Disconnect, Epoch, Position, Publisher};

use crate::asked::Subscribing;
use crate::context::Cx;
use crate::manner::Manner;
use crate::reply::{code_of, ttl};
use crate::results::{history_query, position, subscribe_result};
use crate::socket::Socket;

pub(crate) fn subscribe(ws: &mut Socket, command: u32, subscribe: &Subscribe<'_>, cx: &mut Cx<'_>) {
    let Some(channel) = ws.channel(command, &subscribe.channel, cx) else {
        return;
    };
    match &*subscribe.delta {
        // Known and not offered here: the reply does not say that it is on.
        "" | "fossil" => {}
        _ => return ws.disconnect(Disconnect::BadRequest, cx),
    }
    if subscribe.has_filter {
        // Unfiltered deliveries would not be what the client asked for.
        return ws.error(command, ErrorCode::BadRequest, cx);
    }
    let grant = match check_token(ws, &channel, &subscribe.token, cx) {
        Ok(grant) => grant,
        Err(TokenFault::Purpose) => return ws.disconnect(Disconnect::InvalidToken, cx),
        Err(TokenFault::Expired) => return ws.error(command, ErrorCode::TokenExpired, cx),
        Err(_) => return ws.error(command, ErrorCode::PermissionDenied, cx),
    };
    match may_subscribe(ws.identity(), &channel, grant.is_some(), cx.shared) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return ws.error(command, ErrorCode::PermissionDenied, cx),
    }
    let rejects_unrecovered = subscribe.rejects_unrecovered();
    let until = grant.as_ref().map(|grant| grant.until);
    let options = grant.map(|grant| grant.options).unwrap_or_default();
    let Manner { format, presence } = Manner::new(
        ws.identity(),
        &channel,
        &options,
        subscribe.join_leave,
        ws.form(&channel, cx),
        cx,
    );
    if until.is_some() || rejects_unrecovered {
        ws.asked_mut().subscribing.push(Subscribing {
            command,
            channel: channel.clone(),
            until,
            data: options.data,
            rejects_unrecovered,
        });
    }
    cx.subscribe_as(command, channel, format, position(subscribe), presence);
}

/// What a subscription token gives.
struct Grant {
    /// When the subscription ends; `None` for never.
    until: Option<u64>,
    options: SubscriptionOptions,
}

/// Checks a subscription token. `None`: there is none.
fn check_token(
    ws: &Socket,
    channel: &ChannelName,
    token: &str,
    cx: &Cx<'_>,
) -> Result<Option<Grant>, TokenFault> {
    let Some(verifier) = cx.shared.verifier.as_ref().filter(|_| !token.is_empty()) else {
        return Ok(None);
    };
    let user = ws.identity().map_or("", |identity| &identity.user);
    let client = cx.shared.node.client_id(cx.id);
    let check = |claims: Claims| {
        claims.check_subscription(channel.as_str(), user, client.as_str())?;
        Ok(Some(Grant {
            until: claims.ends_at_unix_s(),
            options: SubscriptionOptions {
                info: claims.info,
                ..claims.options
            },
        }))
    };
    session_check(verifier, token, check, cx.shared, cx.now)
}

pub(crate) fn sub_refresh(
    ws: &mut Socket,
    command: u32,
    channel: &str,
    token: &str,
    cx: &mut Cx<'_>,
) {
    let Some(channel) = ws.channel(command, channel, cx) else {
        return;
    };
    // A subscription without a token of its own has nothing to refresh.
    let identity = ws.identity();
    if !identity.is_some_and(|identity| identity.has_subscription_token(&channel)) {
        return ws.error(command, ErrorCode::PermissionDenied, cx);
    }
    match check_token(ws, &channel, token, cx) {
        Ok(Some(Grant { until, .. })) => {
            ws.identity_mut().set_subscription_until(&channel, until);
            ws.arm(cx);
            let result = SubRefreshResult {
                expires: until.is_some(),
                ttl_s: until.map_or(0, |until| ttl(until, cx.now)),
            };
            ws.reply(command, &Reply::SubRefresh(&result), cx);
        }
        Ok(None) => ws.error(command, ErrorCode::BadRequest, cx),
        Err(TokenFault::Expired) => ws.error(command, ErrorCode::Expired, cx),
        Err(_) => ws.disconnect(Disconnect::InvalidToken, cx),
    }
}

pub(crate) fn publish(
    ws: &mut Socket,
    command: u32,
    channel: &str,
    data: Data<'_>,
    cx: &mut Cx<'_>,
) {
    let Some(channel) = ws.channel(command, channel, cx) else {
        return;
    };
    match may_publish(ws.identity(), &channel, cx.shared) {
        Verdict::Yes => {}
        Verdict::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return ws.error(command, ErrorCode::PermissionDenied, cx),
    }
    let identity = ws.identity();
    let publisher = Publisher {
        client: cx.shared.node.client_id(cx.id).as_str().into(),
        user: identity
            .map(|identity| identity.user.clone())
            .unwrap_or_default(),
        conn_info: identity.and_then(|identity| identity.info.clone()),
        chan_info: None,
    };
    let draft = Draft {
        channel,
        payload: data.payload(),
        publisher: Some(Box::new(publisher)),
        tags: None,
        skip_history: false,
        idempotency_key: None,
        version: None,
    };
    let reply_to = cx.reply_to(command);
    cx.hub(Command::Publish { reply_to, draft });
}

pub(crate) fn history(ws: &mut Socket, command: u32, history: &History<'_>, cx: &mut Cx<'_>) {
    let Some(channel) = ws.channel(command, &history.channel, cx) else {
        return;
    };
    let options = cx.shared.namespaces.find(&channel);
    let keeps = options.is_some_and(|options| options.retention.keeps());
    let only_subscribed = match may_read_history(ws.identity(), &channel, cx.shared) {
        Verdict::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        _ if !keeps => return ws.error(command, ErrorCode::NotAvailable, cx),
        Verdict::Yes => false,
        // What a subscriber could recover it may also ask for.
        Verdict::No => true,
    };
    let query = history_query(history);
    let reply_to = cx.reply_to(command);
    cx.hub(Command::History {
        reply_to,
        channel,
        query,
        only_subscribed,
    });
}

/// The commands `presence` and, without members, `presence_stats`.
pub(crate) fn presence(
    ws: &mut Socket,
    command: u32,
    channel: &str,
    with_members: bool,
    cx: &mut Cx<'_>,
) {
    let Some(channel) = ws.channel(command, channel, cx) else {
        return;
    };
    let only_subscribed = match may_see_presence(ws.identity(), &channel, cx.shared) {
        Sight::Yes => false,
        Sight::IfSubscribed => true,
        Sight::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        Sight::NotAvailable => return ws.error(command, ErrorCode::NotAvailable, cx),
        Sight::No => return ws.error(command, ErrorCode::PermissionDenied, cx),
    };
    let reply_to = cx.reply_to(command);
    cx.hub(Command::Present {
        reply_to,
        channel,
        with_members,
        only_subscribed,
    });
}

/// A subscribe command's answer.
pub(crate) fn subscribed(
    ws: &mut Socket,
    command: u32,
    channel: &ChannelName,
    result: &Result<Subscribed, Refusal>,
    cx: &mut Cx<'_>,
) {
    let asked = ws.take_subscribing(command, channel);
    let subscribed = match result {
        Ok(subscribed) => subscribed,
        Err(refusal) => return ws.error(command, code_of(*refusal), cx),
    };
    let is_lost = matches!(subscribed.recovery, Recovery::Lost);
    if is_lost
        && asked
            .as_ref()
            .is_some_and(|asked| asked.rejects_unrecovered)
    {
        cx.count(Counter::RecoveredFailed);
        cx.unsubscribe(channel.clone());
        return ws.error(command, ErrorCode::UnrecoverablePosition, cx);
    }
    let mut result = subscribe_result(channel, subscribed, cx);
    result.data = asked.as_ref().and_then(|asked| asked.data.as_deref());
    if let Some(until) = asked.as_ref().and_then(|asked| asked.until) {
        ws.identity_mut().set_subscription_until(channel, until);
        ws.arm(cx);
        result.expires = until.is_some();
        result.ttl_s = until.map_or(0, |until| ttl(until, cx.now));
    }
    ws.reply(command, &Reply::Subscribe(&result), cx);
}

/// The answer to another command.
pub(crate) fn answer(ws: &mut Socket, command: u32, answer: &Answer, cx: &mut Cx<'_>) {
    match answer {
        Answer::Unsubscribed {
            channel,
            result: Ok(()),
        } => {
            ws.forget_subscription(channel);
            ws.reply(command, &Reply::Unsubscribe, cx);
        }
        Answer::Published { result: Ok(_) } => {
            cx.count(Counter::PublicationsClient);
            ws.reply(command, &Reply::Publish, cx);
        }
        Answer::Present {
            result: Ok(present),
        } => match &present.members {
            Some(members) => {
                let members: Vec<_> = members.iter().map(|who| ClientInfo::from(&**who)).collect();
                ws.reply(command, &Reply::Presence(&members), cx);
            }
            None => {
                let (clients, users) = (present.clients, present.users);
                ws.reply(command, &Reply::PresenceStats { clients, users }, cx);
            }
        },
        Answer::History { result: Ok(page) } => {
            let nowhere = Position {
                epoch: Epoch(0),
                offset: 0,
            };
            let result = HistoryResult {
                publications: &page.publications,
                position: page.position.unwrap_or(nowhere),
            };
            ws.reply(command, &Reply::History(&result), cx);
        }
        Answer::Unsubscribed {
            result: Err(refusal),
            ..
        }
        | Answer::Published {
            result: Err(refusal),
        }
        | Answer::Present {
            result: Err(refusal),
        }
        | Answer::History {
            result: Err(refusal),
        } => ws.error(command, code_of(*refusal), cx),
        // Answered by its own function.
        Answer::Subscribed { .. } => {}
    }
}
