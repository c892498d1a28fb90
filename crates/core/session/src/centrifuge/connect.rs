//! Who a client is and what it begins with: connect, refresh, the unidirectional hello.

use throng_auth::{Claims, TokenFault};
use throng_centrifuge::{
    Connect, ConnectResult, ErrorCode, RefreshResult, Subscribe, SubscribeResult,
    encode_connect_push, encode_connect_result, encode_refresh_result,
};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Disconnect, Epoch, Now, Position};

use super::channels::subscribe_result;
use super::{error, ttl};
use crate::effects::Fx;
use crate::format::ws_text;
use crate::identity::{Stranger, authenticate};
use crate::opening::Opening;
use crate::permit::{Verdict, may_subscribe};
use crate::ws::{Mode, Ws};
use crate::{Desk, Identity};

pub(super) fn connect(
    ws: &mut Ws,
    id: ConnId,
    command: u32,
    connect: &Connect<'_>,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let claims = match authenticate(Some(&connect.token), desk, fx.now) {
        Ok(claims) => claims,
        Err(Stranger::NoToken) => return error(command, ErrorCode::Unauthorized, desk, fx),
        Err(Stranger::Token(TokenFault::Expired)) => {
            return error(command, ErrorCode::TokenExpired, desk, fx);
        }
        Err(Stranger::Token(_)) => return ws.disconnect(Disconnect::InvalidToken, desk, fx),
    };
    ws.set_identity(claims.as_ref().map(Identity::from_claims));
    ws.connected = true;
    ws.arm(desk, fx);
    let own = claims.as_ref().map(own_channels).unwrap_or_default();
    if own.is_empty() {
        let client = desk.node.client_id(id);
        let result = connect_result(ws.identity(), client.as_str(), &[], desk, fx.now, true);
        ws_text(fx.out, |out| encode_connect_result(command, &result, out));
        return;
    }
    let since = |channel: &ChannelName| {
        let sub = connect
            .subs
            .iter()
            .find(|sub| *sub.channel == *channel.as_str());
        sub.and_then(position)
    };
    let channels = own
        .into_iter()
        .map(|channel| (channel.clone(), since(&channel)))
        .collect();
    ws.open(id, channels, command, fx);
}

/// The channels that a token subscribes its connection to.
pub(crate) fn own_channels(claims: &Claims) -> Vec<ChannelName> {
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
    channels
}

/// Where a client says it was.
pub(crate) fn position(subscribe: &Subscribe<'_>) -> Option<Position> {
    // An epoch that is none of ours recovers nothing, which is what the client must hear.
    let epoch = || Epoch::parse(&subscribe.epoch).unwrap_or(Epoch(0));
    subscribe.recover.then(|| Position {
        epoch: epoch(),
        offset: subscribe.offset,
    })
}

/// The first message of a unidirectional WebSocket.
pub(crate) fn uni_connect(ws: &mut Ws, id: ConnId, data: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
    desk.board.count(Counter::CommandConnect);
    let Ok(connect) = Connect::parse(data) else {
        return ws.disconnect(Disconnect::BadRequest, desk, fx);
    };
    let claims = match authenticate(Some(&connect.token), desk, fx.now) {
        Ok(claims) => claims,
        Err(Stranger::NoToken) => return ws.disconnect(Disconnect::PermissionDenied, desk, fx),
        Err(Stranger::Token(TokenFault::Expired)) => {
            return ws.disconnect(Disconnect::Expired, desk, fx);
        }
        Err(Stranger::Token(_)) => return ws.disconnect(Disconnect::InvalidToken, desk, fx),
    };
    let identity = claims.as_ref().map(Identity::from_claims);
    let channels = match uni_channels(&connect, claims.as_ref(), identity.as_ref(), desk) {
        Ok(channels) => channels,
        Err(reason) => return ws.disconnect(reason, desk, fx),
    };
    ws.set_identity(identity);
    ws.connected = true;
    ws.arm(desk, fx);
    if channels.is_empty() {
        opened(ws, id, &Opening::default(), desk, fx);
    } else {
        ws.open(id, channels, 0, fx);
    }
}

/// The channels of a unidirectional connection: those that it names and those of its token.
pub(crate) fn uni_channels(
    connect: &Connect<'_>,
    claims: Option<&Claims>,
    identity: Option<&Identity>,
    desk: &Desk,
) -> Result<Vec<(ChannelName, Option<Position>)>, Disconnect> {
    let mut channels: Vec<(ChannelName, Option<Position>)> = claims
        .map(own_channels)
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
        if may_subscribe(identity, &channel, false, desk) != Verdict::Yes {
            return Err(Disconnect::PermissionDenied);
        }
        channels.push((channel, since));
    }
    if channels.len() > desk.limits.channels_max {
        return Err(Disconnect::ChannelLimit);
    }
    Ok(channels)
}

/// All channels that the connection begins with have answered: its first words.
pub(crate) fn opened(ws: &mut Ws, id: ConnId, opening: &Opening, desk: &Desk, fx: &mut Fx<'_>) {
    fx.hold = Some(false);
    if ws.mode() == Mode::Uni && opening.opened.iter().any(|opened| opened.result.is_err()) {
        return ws.disconnect(Disconnect::ServerError, desk, fx);
    }
    let subs = subscriptions(opening, desk);
    let client = desk.node.client_id(id);
    let bidirectional = ws.mode() == Mode::Centrifuge;
    let result = connect_result(
        ws.identity(),
        client.as_str(),
        &subs,
        desk,
        fx.now,
        bidirectional,
    );
    ws_text(fx.out, |out| {
        if bidirectional {
            encode_connect_result(opening.command, &result, out);
        } else {
            encode_connect_push(&result, out);
        }
    });
}

/// What a connection learns of the channels that it begins with.
pub(crate) fn subscriptions<'a>(
    opening: &'a Opening,
    desk: &Desk,
) -> Vec<(&'a str, SubscribeResult<'a>)> {
    let opened = opening.opened.iter().filter_map(|opened| {
        let subscribed = opened.result.as_ref().ok()?;
        Some((
            opened.channel.as_str(),
            subscribe_result(&opened.channel, subscribed, desk),
        ))
    });
    opened.collect()
}

/// What a connection learns about itself.
pub(crate) fn connect_result<'a>(
    identity: Option<&Identity>,
    client: &'a str,
    subs: &'a [(&'a str, SubscribeResult<'a>)],
    desk: &Desk,
    now: Now,
    pong: bool,
) -> ConnectResult<'a> {
    let ttl_s = identity
        .and_then(|identity| identity.expires_at_unix_s)
        .map(|at| ttl(at, now));
    ConnectResult {
        client,
        version: desk.version,
        expires: ttl_s.is_some(),
        ttl_s: ttl_s.unwrap_or_default(),
        subs,
        ping_s: u32::try_from(desk.limits.ping_interval_ms / 1000).unwrap_or(u32::MAX),
        pong: pong && desk.limits.ping_interval_ms > 0,
        ..ConnectResult::default()
    }
}

pub(super) fn refresh(
    ws: &mut Ws,
    id: ConnId,
    command: u32,
    token: &str,
    desk: &Desk,
    fx: &mut Fx<'_>,
) {
    let claims = match authenticate(Some(token), desk, fx.now) {
        Ok(claims) => claims.unwrap_or_default(),
        Err(Stranger::NoToken) => return error(command, ErrorCode::BadRequest, desk, fx),
        Err(Stranger::Token(TokenFault::Expired)) => {
            return error(command, ErrorCode::Expired, desk, fx);
        }
        Err(Stranger::Token(_)) => return ws.disconnect(Disconnect::InvalidToken, desk, fx),
    };
    let same_user = ws
        .identity()
        .is_none_or(|identity| identity.user == claims.sub);
    if !same_user {
        return ws.disconnect(Disconnect::InvalidToken, desk, fx);
    }
    let ends_at = claims.ends_at_unix_s();
    if ws.identity().is_some() {
        let identity = ws.identity_mut();
        identity.expires_at_unix_s = ends_at;
        identity.allow.clone_from(&claims.allow);
    }
    ws.arm(desk, fx);
    let client = desk.node.client_id(id);
    let result = RefreshResult {
        client: client.as_str(),
        version: desk.version,
        expires: ends_at.is_some(),
        ttl_s: ends_at.map_or(0, |at| ttl(at, fx.now)),
    };
    ws_text(fx.out, |out| encode_refresh_result(command, &result, out));
}
