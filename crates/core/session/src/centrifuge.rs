//! The Centrifugo client protocol, version 2, over a WebSocket: what each command does.
//!
//! Replies carry the command's id; the hub's answers bring it back as their token. A
//! reply may overtake another one's, a delivery never overtakes its subscription's reply.

use std::borrow::Cow;

use throng_auth::{Claims, TokenFault};
use throng_broker::{Draft, HistoryQuery, Recovery, Refusal, Subscribed};
use throng_centrifuge::{
    Connect, ConnectResult, ErrorCode, History, HistoryResult, RefreshResult, Request,
    SubRefreshResult, Subscribe, SubscribeResult, encode_connect_push, encode_connect_result,
    encode_error, encode_history_result, encode_ping_result, encode_publish_result,
    encode_refresh_result, encode_sub_refresh_result, encode_subscribe_result,
    encode_unsubscribe_result,
};
use throng_hub::{Answer, Asker, Command};
use throng_metrics::Counter;
use throng_types::{
    ChannelName, ConnId, Disconnect, Epoch, Now, Payload, PayloadKind, Position, Publisher,
};

use crate::effects::Fx;
use crate::format::ws_text;
use crate::identity::{Stranger, authenticate, failure};
use crate::opening::Opening;
use crate::permit::{Verdict, may_publish, may_subscribe};
use crate::ws::{Mode, Ws};
use crate::{Desk, Identity};

/// Carries out the commands of one frame.
pub(crate) fn commands(ws: &mut Ws, id: ConnId, frame: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
    for command in throng_centrifuge::commands(frame) {
        if ws.is_closing() {
            return;
        }
        match command {
            Ok(command) => run(ws, id, command.id, command.request, desk, fx),
            Err(_) => {
                desk.board.count(Counter::BadRequests);
                ws.disconnect(Disconnect::BadRequest, desk, fx);
            }
        }
    }
}

fn run(ws: &mut Ws, id: ConnId, command: u32, request: Request<'_>, desk: &Desk, fx: &mut Fx<'_>) {
    desk.board.count(counter(&request));
    let (known, connects) = (ws.connected, matches!(request, Request::Connect(_)));
    if known == connects {
        // Connect comes first, and once.
        return ws.disconnect(Disconnect::BadRequest, desk, fx);
    }
    match request {
        Request::Pong => ws.alive(desk, fx),
        Request::Connect(connect) => self::connect(ws, id, command, &connect, desk, fx),
        Request::Subscribe(subscribe) => self::subscribe(ws, id, command, &subscribe, desk, fx),
        Request::Unsubscribe { channel } => {
            let Ok(channel) = ChannelName::new(&channel) else {
                return error(command, ErrorCode::BadRequest, desk, fx);
            };
            if ws.identity().is_some() {
                ws.identity_mut().set_subscription_until(&channel, None);
            }
            fx.hub(Command::Unsubscribe { conn: id, channel });
            ws_text(fx.out, |out| encode_unsubscribe_result(command, out));
        }
        Request::Publish { channel, data } => {
            let payload = Payload {
                bytes: data.get().as_bytes().into(),
                kind: PayloadKind::Json,
            };
            publish(ws, id, command, &channel, payload, desk, fx);
        }
        Request::History(history) => self::history(ws, id, command, &history, desk, fx),
        Request::Ping => ws_text(fx.out, |out| encode_ping_result(command, out)),
        // Nobody here listens to messages outside channels, and no reply is expected.
        Request::Send { .. } => {}
        Request::Rpc { .. } | Request::Presence { .. } | Request::PresenceStats { .. } => {
            error(command, ErrorCode::NotAvailable, desk, fx);
        }
        Request::Refresh { token } => refresh(ws, id, command, &token, desk, fx),
        Request::SubRefresh { channel, token } => {
            sub_refresh(ws, id, command, &channel, &token, desk, fx);
        }
        Request::Refused(code) => error(command, code, desk, fx),
    }
}

const fn counter(request: &Request<'_>) -> Counter {
    match request {
        Request::Connect(_) => Counter::CommandConnect,
        Request::Subscribe(_) => Counter::CommandSubscribe,
        Request::Unsubscribe { .. } => Counter::CommandUnsubscribe,
        Request::Publish { .. } => Counter::CommandPublish,
        Request::Presence { .. } => Counter::CommandPresence,
        Request::PresenceStats { .. } => Counter::CommandPresenceStats,
        Request::History(_) => Counter::CommandHistory,
        Request::Pong | Request::Ping => Counter::CommandPing,
        Request::Send { .. } => Counter::CommandSend,
        Request::Rpc { .. } | Request::Refused(_) => Counter::CommandRpc,
        Request::Refresh { .. } => Counter::CommandRefresh,
        Request::SubRefresh { .. } => Counter::CommandSubRefresh,
    }
}

fn error(command: u32, code: ErrorCode, desk: &Desk, fx: &mut Fx<'_>) {
    desk.board.count(Counter::error(code.code()));
    ws_text(fx.out, |out| encode_error(command, code, out));
}

/// The code that says why the hub refused.
pub(crate) const fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Busy => ErrorCode::TooManyRequests,
        Refusal::UnknownChannel => ErrorCode::UnknownChannel,
        Refusal::AlreadySubscribed => ErrorCode::AlreadySubscribed,
        Refusal::ChannelLimit => ErrorCode::LimitExceeded,
        Refusal::NotAvailable => ErrorCode::NotAvailable,
        Refusal::UnrecoverablePosition => ErrorCode::UnrecoverablePosition,
    }
}

// ---- connect ----

fn connect(
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

fn ttl(at_unix_s: u64, now: Now) -> u32 {
    u32::try_from(at_unix_s.saturating_sub(now.unix_s())).unwrap_or(u32::MAX)
}

fn refresh(ws: &mut Ws, id: ConnId, command: u32, token: &str, desk: &Desk, fx: &mut Fx<'_>) {
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

// ---- channels ----

fn subscribe(
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

fn sub_refresh(
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

fn publish(
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

fn history(ws: &Ws, id: ConnId, command: u32, history: &History<'_>, desk: &Desk, fx: &mut Fx<'_>) {
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

// ---- answers of the hub ----

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
