//! What clients learn: the results of commands, made from what the hub and the tokens say.

use throng_auth::Claims;
use throng_broker::{HistoryQuery, Recovery, Subscribed};
use throng_centrifuge::{Connect, ConnectResult, History, Subscribe, SubscribeResult};
use throng_metrics::Counter;
use throng_session::{Identity, Opening, Shared, Verdict, may_subscribe};
use throng_types::{ChannelName, Disconnect, Epoch, Position};

use crate::context::Cx;
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
pub(crate) fn own_channels(
    claims: &Claims,
    shared: &Shared,
) -> Result<Vec<ChannelName>, Disconnect> {
    let names: Vec<&str> = if claims.subs.is_empty() {
        claims.channels.iter().map(|name| &**name).collect()
    } else {
        claims.subs.keys().map(|name| &**name).collect()
    };
    let mut channels: Vec<_> = names
        .into_iter()
        .filter_map(|name| ChannelName::new(name).ok())
        .collect();
    channels.sort();
    channels.dedup();
    let is_closed = |channel| may_subscribe(None, channel, true, shared) == Verdict::No;
    if channels.iter().any(is_closed) {
        return Err(Disconnect::PermissionDenied);
    }
    Ok(channels)
}

/// The channels of a unidirectional connection: those that it names and those of its token.
pub(crate) fn uni_channels(
    connect: &Connect<'_>,
    claims: Option<&Claims>,
    identity: Option<&Identity>,
    shared: &Shared,
) -> Result<Vec<(ChannelName, Option<Position>)>, Disconnect> {
    let channels_max = shared.limits.channels_max;
    // Before anything is looked up: below, each channel is compared with all before it.
    if connect.subs.len() > channels_max {
        return Err(Disconnect::ChannelLimit);
    }
    let mut channels: Vec<(ChannelName, Option<Position>)> = claims
        .map(|claims| own_channels(claims, shared))
        .transpose()?
        .unwrap_or_default()
        .into_iter()
        .map(|channel| (channel, None))
        .collect();
    for sub in &connect.subs {
        let channel = ChannelName::new(&sub.channel).map_err(|_| Disconnect::BadRequest)?;
        let since = position(sub);
        if let Some((_, known)) = channels.iter_mut().find(|(known, _)| *known == channel) {
            *known = since;
            continue;
        }
        if may_subscribe(identity, &channel, false, shared) != Verdict::Yes {
            return Err(Disconnect::PermissionDenied);
        }
        channels.push((channel, since));
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
    cx: &Cx<'_>,
) -> Vec<(&'a str, SubscribeResult<'a>)> {
    let opened = opening.opened.iter().filter_map(|opened| {
        let subscribed = opened.result.as_ref().ok()?;
        Some((
            opened.channel.as_str(),
            subscribe_result(&opened.channel, subscribed, cx),
        ))
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
