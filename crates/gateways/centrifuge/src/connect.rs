//! Identity of a client and its first channels: connect, refresh, the unidirectional hello.

use throng_auth::Claims;
use throng_centrifuge::{
    ClientRequest, Connect, ConnectResult, RefreshResult, Reply, SubscribeResult,
};
use throng_metrics::Counter;
use throng_session::{Identity, InitialSubscription, Opening, authenticate, own_channels};
use throng_types::{ChannelName, Disconnect};

use crate::Cx;
use crate::asked::Hello;
use crate::results::{end_of, position, subscriptions, uni_channels};
use crate::socket::{Phase, Socket, TokenUse, ttl};

pub(crate) fn connect(ws: &mut Socket, hello: &Hello<'_>, cx: &mut Cx<'_>) {
    let (command, connect) = (hello.command, hello.connect);
    ws.remember_said(connect, cx);
    if cx.own.decides(Some(&connect.token)) {
        return ws.ask_identity(hello, cx);
    }
    match authenticate(Some(&connect.token), cx.shared, cx.now) {
        Ok(claims) => enter(ws, command, connect, claims, cx),
        Err(why) if ws.is_bidirectional() => ws.refuse_token(command, TokenUse::Connect, why, cx),
        Err(why) => ws.refuse_token(command, TokenUse::UniConnect, why, cx),
    }
}

/// The first message of a unidirectional WebSocket.
pub(crate) fn uni_connect(ws: &mut Socket, data: &[u8], cx: &mut Cx<'_>) {
    cx.count(Counter::CommandConnect);
    let Ok(connect) = Connect::parse(data) else {
        return ws.disconnect(Disconnect::BadRequest, cx);
    };
    let hello = Hello {
        command: 0,
        request: data,
        connect: &connect,
    };
    self::connect(ws, &hello, cx);
}

/// Handles a backend's answer about the client's identity. `request` is the client's `connect`.
pub(crate) fn welcome(
    ws: &mut Socket,
    command: u32,
    request: &[u8],
    claims: Claims,
    cx: &mut Cx<'_>,
) {
    ws.asked_mut().welcome.clone_from(&claims.options.data);
    let connect = match ws.is_bidirectional() {
        false => ws.mode().codec().connect(request).ok(),
        true => match ws.mode().codec().commands(request).next() {
            Some(Ok(throng_centrifuge::ClientCommand {
                request: ClientRequest::Connect(connect),
                ..
            })) => Some(connect),
            _ => None,
        },
    };
    match connect {
        Some(connect) => enter(ws, command, &connect, Some(claims), cx),
        None => ws.disconnect(Disconnect::BadRequest, cx),
    }
}

/// Connects the client with its claims, if it has any.
fn enter(
    ws: &mut Socket,
    command: u32,
    connect: &Connect<'_>,
    claims: Option<Claims>,
    cx: &mut Cx<'_>,
) {
    let identity = claims.as_ref().map(Identity::from_claims);
    let user = identity.as_ref().map_or("", |identity| &*identity.user);
    if let Err(over) = cx.admit_user("", user) {
        return ws.disconnect(over.disconnect(), cx);
    }
    if !ws.is_bidirectional() {
        return match uni_channels(connect, claims.as_ref(), identity.as_ref(), cx) {
            Ok(channels) => uni_ask(ws, identity, channels, cx),
            Err(fault) => ws.disconnect(end_of(&fault), cx),
        };
    }
    let own = claims
        .as_ref()
        .map(|claims| own_channels(claims, cx.shared));
    let own = match own.transpose() {
        Ok(own) => own.unwrap_or_default(),
        Err(fault) => return ws.disconnect(end_of(&fault), cx),
    };
    ws.set_identity(identity, &own);
    ws.ws.state.phase = Phase::Connected;
    ws.arm(cx);
    if own.is_empty() {
        return connected(ws, command, &[], cx);
    }
    let since = |channel: &ChannelName| {
        let sub = connect
            .subs
            .iter()
            .find(|sub| *sub.channel == *channel.as_str());
        sub.and_then(position)
    };
    let own = own.into_iter().map(|wanted| InitialSubscription {
        since: since(&wanted.channel),
        ..wanted
    });
    ws.open(own.collect(), command, cx);
}

/// Begins with these channels, once backends have answered about those that they decide.
pub(crate) fn uni_ask(
    ws: &mut Socket,
    identity: Option<Identity>,
    channels: Vec<InitialSubscription>,
    cx: &mut Cx<'_>,
) {
    ws.set_identity(identity, &[]);
    let channels = match channels.iter().any(|wanted| wanted.ask.is_some()) {
        true => ws.ask_to_begin(Some(channels), cx),
        false => Ok(Some(channels)),
    };
    uni_begin(ws, channels, cx);
}

/// Begins with these channels; nothing while a backend is being asked about one.
pub(crate) fn uni_begin(
    ws: &mut Socket,
    channels: Result<Option<Vec<InitialSubscription>>, Disconnect>,
    cx: &mut Cx<'_>,
) {
    let channels = match channels {
        Ok(Some(channels)) => channels,
        Ok(None) => return,
        Err(why) => return ws.disconnect(why, cx),
    };
    ws.note_ends(&channels);
    ws.ws.state.phase = Phase::Connected;
    ws.arm(cx);
    if channels.is_empty() {
        opened(ws, &Opening::default(), &[], cx);
    } else {
        ws.open(channels, 0, cx);
    }
}

/// Writes the first words, once all channels of the beginning have answered.
pub(crate) fn opened(
    ws: &mut Socket,
    opening: &Opening,
    data: &[(ChannelName, Box<str>)],
    cx: &mut Cx<'_>,
) {
    cx.hold(false);
    if !ws.is_bidirectional() && opening.opened.iter().any(|opened| opened.result.is_err()) {
        return ws.disconnect(Disconnect::ServerError, cx);
    }
    let subs = subscriptions(opening, data, cx);
    connected(ws, opening.command, &subs, cx);
}

/// Answers the command `connect`, or tells a listener that it is connected.
fn connected(ws: &mut Socket, command: u32, subs: &[(&str, SubscribeResult<'_>)], cx: &mut Cx<'_>) {
    let (mode, node) = (ws.mode(), &cx.shared.node);
    let client = node.client_id(cx.id);
    let emulated = { mode.is_emulated() }.then(|| (node.session_id(cx.id), node.name()));
    let (session, node) = match &emulated {
        Some((session, node)) => (session.as_str(), &**node),
        None => ("", ""),
    };
    let data = ws.take_welcome();
    let ends_at = ws.identity().and_then(|it| it.expires_at_unix_s);
    // Where a backend is asked when it expires, the client could do nothing about it.
    let ends_at = ends_at.filter(|_| !ws.is_backends());
    let ping_ms = ws.ws.interval_ms(cx);
    let result = ConnectResult {
        client: client.as_str(),
        version: cx.shared.version,
        expires: ends_at.is_some(),
        ttl_s: ends_at.map_or(0, |at| ttl(at, cx.now)),
        data: data.as_deref(),
        subs,
        ping_s: u32::try_from(ping_ms / 1000).unwrap_or(u32::MAX),
        pong: mode.is_bidirectional() && ping_ms > 0,
        session,
        node,
        ..ConnectResult::default()
    };
    match mode.is_bidirectional() {
        true => ws.reply(command, &Reply::Connect(&result), cx),
        false => mode.frame(cx.out, |out| mode.codec().connect_push(&result, out)),
    }
}

pub(crate) fn refresh(ws: &mut Socket, command: u32, token: &str, cx: &mut Cx<'_>) {
    if token.is_empty() {
        // Without this an anonymous client could take its own expiry away.
        return ws.disconnect(Disconnect::BadRequest, cx);
    }
    let claims = match authenticate(Some(token), cx.shared, cx.now) {
        Ok(claims) => claims.unwrap_or_default(),
        Err(why) => return ws.refuse_token(command, TokenUse::Refresh, why, cx),
    };
    let same_user = ws
        .identity()
        .is_none_or(|identity| identity.user == claims.sub);
    if !same_user {
        return ws.disconnect(Disconnect::InvalidToken, cx);
    }
    let ends_at = claims.ends_at_unix_s();
    if ws.identity().is_some() {
        let identity = ws.identity_mut();
        identity.expires_at_unix_s = ends_at;
        identity.allow.clone_from(&claims.allow);
    }
    ws.arm(cx);
    let client = cx.shared.node.client_id(cx.id);
    let result = RefreshResult {
        client: client.as_str(),
        version: cx.shared.version,
        expires: ends_at.is_some(),
        ttl_s: ends_at.map_or(0, |at| ttl(at, cx.now)),
    };
    ws.reply(command, &Reply::Refresh(&result), cx);
}
