//! Requests of backends for a client by the server API: a subscription, another expiry of its
//! connection; and requests of another node, which received the client's commands.

use throng_broker::{Refusal, Subscribed};
use throng_centrifuge::{Push, SubscribePush};
use throng_session::{ControlCommand, InitialSubscription, Verdict, may_subscribe};
use throng_types::{ChannelName, Disconnect, Position};

use crate::Cx;
use crate::results::subscribe_result;
use crate::socket::{Socket, ttl};
use crate::subscribing;

/// Carries out a request. A client that has not connected, or waits for its first subscriptions, is
/// not known to backends and gets nothing.
pub(crate) fn carry_out(ws: &mut Socket, command: &ControlCommand, cx: &mut Cx<'_>) {
    let is_heard = matches!(command, ControlCommand::Execute(_));
    let is_known = ws.is_connected() && !ws.awaits_identity() && ws.opening_mut().is_none();
    if !is_heard && !is_known {
        return;
    }
    match command {
        ControlCommand::Execute(data) => ws.upstream(data, cx),
        ControlCommand::Refresh { expired: true, .. } => ws.disconnect(Disconnect::Expired, cx),
        ControlCommand::Refresh { until_unix_s, .. } => {
            if ws.identity().is_some() || until_unix_s.is_some() {
                ws.identity_mut().expires_at_unix_s = *until_unix_s;
            }
            ws.arm(cx);
            let ttl_s = until_unix_s.map(|until| ttl(until, cx.now));
            ws.push(&Push::Refresh { ttl_s }, cx);
        }
        ControlCommand::Subscribe {
            channel,
            options,
            until_unix_s,
            since,
        } => {
            if may_subscribe(None, channel, true, cx.shared) != Verdict::Yes {
                return;
            }
            if until_unix_s.is_some() {
                let identity = ws.identity_mut();
                identity.set_subscription_until(channel, *until_unix_s);
                ws.arm(cx);
            }
            let wanted = InitialSubscription {
                since: *since,
                ..InitialSubscription::new(channel.clone(), options.clone())
            };
            subscribing::want(ws, wanted, cx);
        }
    }
}

/// Handles the hub's answer to a subscribe that the client did not ask for: pushes it, then the
/// missed publications.
pub(crate) fn subscribed(
    ws: &mut Socket,
    channel: &ChannelName,
    result: &Result<Subscribed, Refusal>,
    cx: &mut Cx<'_>,
) {
    let data = ws.take_data(channel);
    let Ok(subscribed) = result else {
        // It has the subscription already, or may have no more.
        return;
    };
    let result = subscribe_result(channel, subscribed, cx);
    // Position before the missed publications, which come after.
    let before = { result.publications.first() }.and_then(|first| first.position);
    let before = before.map(|first| Position {
        offset: first.offset.saturating_sub(1),
        ..first
    });
    let subscribe = SubscribePush {
        recoverable: result.recoverable,
        positioned: result.positioned,
        position: before.or(result.position),
        data: data.as_deref(),
    };
    let channel = channel.as_str();
    let push = Push::Subscribe {
        channel,
        subscribe: &subscribe,
    };
    ws.push(&push, cx);
    for publication in result.publications {
        ws.push(&Push::Publication(publication), cx);
    }
}
