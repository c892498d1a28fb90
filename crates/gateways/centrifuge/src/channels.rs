//! Commands of a client in a channel beside subscribing: publish, history, presence, RPC; and their
//! answers.

use throng_auth::TokenFault;
use throng_broker::Draft;
use throng_centrifuge::proxy::ProxyCall;
use throng_centrifuge::{ClientData, ClientInfo, ErrorCode, History, Reply, SubRefreshResult};
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_session::{
    AuthError, Grant, Holder, Sight, Verdict, Work, may_publish, may_read_history, may_see_presence,
};
use throng_types::{ChannelName, Publisher};

use crate::Cx;
use crate::asked::Pending;
use crate::results::{history_query, history_result};
use crate::socket::{Socket, TokenUse, code_of, ttl};

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
        Err(fault) => {
            ws.refuse_token(command, TokenUse::SubRefresh, AuthError::Token(fault), cx);
        }
    }
}

pub(crate) fn publish(
    ws: &mut Socket,
    command: u32,
    channel: &str,
    data: ClientData<'_>,
    cx: &mut Cx<'_>,
) {
    let Some(channel) = ws.channel(command, channel, cx) else {
        return;
    };
    let options = cx.shared.namespaces.find(&channel).copied();
    let options = options.unwrap_or_default();
    let asked = match may_publish(ws.identity(), &channel, cx.shared) {
        Verdict::Yes => None,
        Verdict::Ask(to) => Some(to),
        Verdict::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return ws.error(command, ErrorCode::PermissionDenied, cx),
    };
    let identity = ws.identity();
    let publisher = Publisher {
        client: cx.shared.node.client_id(cx.id).as_str().into(),
        user: identity
            .map(|identity| identity.user.clone())
            .unwrap_or_default(),
        conn_info: identity.and_then(|identity| identity.info.clone()),
        chan_info: None,
    };
    let payload = data.payload();
    if options.delta {
        let bytes = u32::try_from(payload.bytes.len()).unwrap_or(u32::MAX);
        cx.shared.meter.charge(Work::Delta { bytes }, cx.now);
    }
    let draft = Draft {
        publisher: Some(Box::new(publisher)),
        ..Draft::new(channel, payload)
    };
    if let Some(to) = asked {
        let name = draft.channel.clone();
        let call = ProxyCall::Publish {
            channel: name.as_str(),
            data: data.bytes(),
        };
        let draft = Box::new(draft);
        if ws
            .ask((to, call), Pending::Publish { command, draft }, cx)
            .is_err()
        {
            ws.error(command, ErrorCode::TooManyRequests, cx);
        }
        return;
    }
    let reply_to = cx.reply_to(command);
    cx.hub(Command::Publish { reply_to, draft });
}

/// A call of the application's procedure, which a backend carries out.
pub(crate) fn rpc(
    ws: &mut Socket,
    command: u32,
    method: &str,
    data: ClientData<'_>,
    cx: &mut Cx<'_>,
) {
    let to = match cx.own.of_method(method) {
        Ok(to) => to,
        Err(code) => return ws.error(command, code, cx),
    };
    let data = data.bytes();
    let call = ProxyCall::Rpc { method, data };
    if ws.ask((to, call), Pending::Rpc { command }, cx).is_err() {
        ws.error(command, ErrorCode::TooManyRequests, cx);
    }
}

pub(crate) fn history(ws: &mut Socket, command: u32, history: &History<'_>, cx: &mut Cx<'_>) {
    let Some(channel) = ws.channel(command, &history.channel, cx) else {
        return;
    };
    let sight = may_read_history(ws.identity(), &channel, cx.shared);
    let Some(only_subscribed) = is_only_for_subscribers(ws, command, sight, cx) else {
        return;
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

/// Whether a command needs a subscription; `None` if it was refused.
fn is_only_for_subscribers(
    ws: &mut Socket,
    command: u32,
    sight: Sight,
    cx: &mut Cx<'_>,
) -> Option<bool> {
    let code = match sight {
        Sight::Yes => return Some(false),
        Sight::IfSubscribed => return Some(true),
        Sight::UnknownChannel => ErrorCode::UnknownChannel,
        Sight::NotAvailable => ErrorCode::NotAvailable,
        Sight::No => ErrorCode::PermissionDenied,
    };
    ws.error(command, code, cx);
    None
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
    let sight = may_see_presence(ws.identity(), &channel, cx.shared);
    let Some(only_subscribed) = is_only_for_subscribers(ws, command, sight, cx) else {
        return;
    };
    let reply_to = cx.reply_to(command);
    cx.hub(Command::Present {
        reply_to,
        channel,
        with_members,
        only_subscribed,
    });
}

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
            ws.reply(command, &Reply::History(&history_result(page)), cx);
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
        Answer::NotSubscribed { what, channel } => {
            let user = ws.identity().map_or("", |identity| &identity.user);
            let notices = &cx.shared.notices;
            notices.refused(what, channel.as_str(), user, "no permission");
            ws.error(command, ErrorCode::PermissionDenied, cx);
        }
        // Answered by its own function.
        Answer::Subscribed { .. } => {}
    }
}

/// Checks a subscription token. `None`: there is none.
pub(crate) fn check_token(
    ws: &Socket,
    channel: &ChannelName,
    token: &str,
    cx: &Cx<'_>,
) -> Result<Option<Grant>, TokenFault> {
    let holder = Holder {
        identity: ws.identity(),
        conn: cx.id,
    };
    holder.check(Some(channel), token, cx.shared, cx.now)
}
