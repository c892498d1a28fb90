//! What backends want of a client by the server API: a subscription, another end of its connection.

use throng_broker::{Recovery, Refusal, Subscribed};
use throng_centrifuge::{Push, SubscribePush};
use throng_session::{OPENING, Verdict, Wish, may_subscribe};
use throng_types::{ChannelName, Disconnect};

use crate::context::Cx;
use crate::manner::Manner;
use crate::reply::ttl;
use crate::results::subscribe_result;
use crate::socket::Socket;

/// Does what is wanted. A client that has not connected, or waits for its first subscriptions, is
/// none that a backend knows.
pub(crate) fn grant(ws: &mut Socket, wish: &Wish, cx: &mut Cx<'_>) {
    if !ws.is_connected() || ws.opening_mut().is_some() {
        return;
    }
    match wish {
        Wish::Refresh { expired: true, .. } => ws.disconnect(Disconnect::Expired, cx),
        Wish::Refresh { until_unix_s, .. } => {
            if ws.identity().is_some() || until_unix_s.is_some() {
                ws.identity_mut().expires_at_unix_s = *until_unix_s;
            }
            ws.arm(cx);
            if ws.is_bidirectional() {
                let ttl_s = until_unix_s.map(|until| ttl(until, cx.now));
                ws.push(&Push::Refresh { ttl_s }, cx);
            }
        }
        Wish::Subscribe {
            channel,
            options,
            until_unix_s,
            since,
        } => {
            if may_subscribe(None, channel, true, cx.shared) != Verdict::Yes {
                return;
            }
            let form = ws.form(channel, cx);
            let manner = Manner::new(ws.identity(), channel, options, false, form, cx);
            if until_unix_s.is_some() {
                let identity = ws.identity_mut();
                identity.set_subscription_until(channel, *until_unix_s);
                ws.arm(cx);
            }
            if let Some(data) = &options.data {
                let data = (channel.clone(), data.clone());
                ws.asked_mut().data.push(data);
            }
            let Manner { format, presence } = manner;
            cx.subscribe_as(OPENING, channel.clone(), format, *since, presence);
        }
    }
}

/// The hub has answered a subscribe that the client did not ask for: it is told of it, and what it
/// missed comes after.
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
    let push = SubscribePush {
        recoverable: result.recoverable,
        positioned: result.positioned,
        position: match &subscribed.recovery {
            Recovery::Whole(missed) => { missed.first() }
                .and_then(|first| first.position)
                .map(|first| throng_types::Position {
                    offset: first.offset.saturating_sub(1),
                    ..first
                })
                .or(result.position),
            _ => result.position,
        },
        data: data.as_deref(),
    };
    let subscribe = &push;
    let name = channel.as_str();
    let told = Push::Subscribe {
        channel: name,
        subscribe,
    };
    ws.push(&told, cx);
    if let Recovery::Whole(missed) = &subscribed.recovery {
        for publication in missed {
            ws.push(&Push::Publication(publication), cx);
        }
    }
}
