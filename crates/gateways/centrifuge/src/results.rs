//! What clients learn: the results of commands, made from what the hub and the tokens say.

use throng_auth::{Claims, SubscriptionOptions};
use throng_broker::{HistoryQuery, Recovery, Subscribed};
use throng_centrifuge::{Connect, ConnectResult, History, Subscribe, SubscribeResult};
use throng_metrics::Counter;
use throng_session::{Identity, Opening, Shared, Verdict, may_subscribe};
use throng_types::{ChannelName, Disconnect, Epoch, Position};

use crate::asking::tell_if_empty;
use crate::context::Cx;
use crate::manner::Wanted;
use crate::reply::ttl;

/// Where a client says it was.
pub(crate) fn position(subscribe: &Subscribe<'_>) -> Option<Position> {
    { subscribe.recover }.then(|| position_of(&subscribe.epoch, subscribe.offset))
}

/// A position as a client or a backend states it. Nowhere, without an epoch and an offset, is
/// before everything (Centrifugo gives such a client the whole stream).
pub(crate) fn position_of(epoch: &str, offset: u64) -> Position {
    if epoch.is_empty() && offset == 0 {
        return Position::START;
    }
    // An epoch that is none of ours recovers nothing, which is what the client must hear.
    let epoch = Epoch::parse(epoch).unwrap_or(Epoch(0));
    Position { epoch, offset }
}

/// The channels that a token subscribes its connection to.
///
/// # Errors
/// [`Disconnect::PermissionDenied`] if one is closed to clients, whatever their tokens say.
pub(crate) fn own_channels(claims: &Claims, shared: &Shared) -> Result<Vec<Wanted>, Disconnect> {
    let wanted = |name: &str, options: SubscriptionOptions| {
        let channel = ChannelName::new(name).ok()?;
        let since = None;
        Some(Wanted {
            channel,
            since,
            options,
        })
    };
    let mut all: Vec<Wanted> = if claims.subs.is_empty() {
        let names = claims.channels.iter();
        { names.filter_map(|name| wanted(name, SubscriptionOptions::default())) }.collect()
    } else {
        let subs = claims.subs.iter();
        { subs.filter_map(|(name, options)| wanted(name, options.clone())) }.collect()
    };
    if shared.personal_channel && !claims.sub.is_empty() {
        let name = format!("#{}", claims.sub);
        all.extend(wanted(&name, SubscriptionOptions::default()));
    }
    all.sort_by(|a, b| a.channel.cmp(&b.channel));
    all.dedup_by(|a, b| a.channel == b.channel);
    let is_closed =
        |wanted: &Wanted| may_subscribe(None, &wanted.channel, true, shared) == Verdict::No;
    if all.iter().any(is_closed) {
        return Err(Disconnect::PermissionDenied);
    }
    Ok(all)
}

/// The channels of a unidirectional connection: those that it names and those of its token.
pub(crate) fn uni_channels(
    connect: &Connect<'_>,
    claims: Option<&Claims>,
    identity: Option<&Identity>,
    shared: &Shared,
) -> Result<Vec<Wanted>, Disconnect> {
    let channels_max = shared.limits.channels_max;
    // Before anything is looked up: below, each channel is compared with all before it.
    if connect.subs.len() > channels_max {
        return Err(Disconnect::ChannelLimit);
    }
    let mut channels = claims
        .map(|claims| own_channels(claims, shared))
        .transpose()?
        .unwrap_or_default();
    for sub in &connect.subs {
        let channel = ChannelName::new(&sub.channel).map_err(|_| Disconnect::BadRequest)?;
        let since = position(sub);
        if let Some(known) = channels.iter_mut().find(|known| known.channel == channel) {
            known.since = since;
            continue;
        }
        if may_subscribe(identity, &channel, false, shared) != Verdict::Yes {
            return Err(Disconnect::PermissionDenied);
        }
        channels.push(Wanted {
            channel,
            since,
            options: SubscriptionOptions::default(),
        });
    }
    if channels.len() > channels_max {
        return Err(Disconnect::ChannelLimit);
    }
    Ok(channels)
}

/// The broker's form of a query for history.
pub(crate) fn history_query(history: &History<'_>) -> HistoryQuery {
    HistoryQuery {
        limit: u32::try_from(history.limit).ok(),
        since: { history.since.as_ref() }.map(|since| position_of(&since.epoch, since.offset)),
        reverse: history.reverse,
    }
}

/// What a subscriber learns.
pub(crate) fn subscribe_result<'a>(
    channel: &ChannelName,
    subscribed: &'a Subscribed,
    cx: &Cx<'_>,
) -> SubscribeResult<'a> {
    let recoverable = cx
        .shared
        .namespaces
        .find(channel)
        .is_some_and(|options| options.recovery);
    let (was_recovering, recovered, publications): (_, _, &[_]) = match &subscribed.recovery {
        Recovery::NotAsked => (false, false, &[]),
        Recovery::Lost => (true, false, &[]),
        Recovery::Whole(publications) => (true, true, publications),
    };
    if was_recovering {
        cx.count(if recovered {
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

/// What a connection learns of the channels that it begins with.
pub(crate) fn subscriptions<'a>(
    opening: &'a Opening,
    data: &'a [(ChannelName, Box<str>)],
    cx: &mut Cx<'_>,
) -> Vec<(&'a str, SubscribeResult<'a>)> {
    for opened in &opening.opened {
        if let Ok(subscribed) = &opened.result {
            tell_if_empty(&opened.channel, subscribed, cx);
        }
    }
    let opened = opening.opened.iter().filter_map(|opened| {
        let subscribed = opened.result.as_ref().ok()?;
        let data = data.iter().find(|(channel, _)| *channel == opened.channel);
        let result = SubscribeResult {
            data: data.map(|(_, data)| &**data),
            ..subscribe_result(&opened.channel, subscribed, cx)
        };
        Some((opened.channel.as_str(), result))
    });
    opened.collect()
}

/// What a connection learns about itself.
pub(crate) fn connect_result<'a>(
    identity: Option<&Identity>,
    client: &'a str,
    subs: &'a [(&'a str, SubscribeResult<'a>)],
    cx: &Cx<'_>,
    pong: bool,
) -> ConnectResult<'a> {
    let ttl_s = identity
        .and_then(|identity| identity.expires_at_unix_s)
        .map(|at| ttl(at, cx.now));
    ConnectResult {
        client,
        version: cx.shared.version,
        expires: ttl_s.is_some(),
        ttl_s: ttl_s.unwrap_or_default(),
        subs,
        ping_s: u32::try_from(cx.shared.limits.ping_interval_ms / 1000).unwrap_or(u32::MAX),
        pong: pong && cx.shared.limits.ping_interval_ms > 0,
        ..ConnectResult::default()
    }
}
