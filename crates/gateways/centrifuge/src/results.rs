//! Results of commands for clients, made from answers of the hub and from tokens.

use throng_auth::{Claims, TokenFault};
use throng_broker::{HistoryPage, HistoryQuery, Recovery, Subscribed};
use throng_centrifuge::api::ServerApiError;
use throng_centrifuge::proxy::{ProxyKind, encode_cache_empty};
use throng_centrifuge::{Connect, History, HistoryResult, Subscribe, SubscribeResult};
use throng_metrics::Counter;
use throng_session::{
    EntryFault, Holder, Identity, InitialSubscription, Named, Opening, Question, all_channels,
};
use throng_types::{ChannelName, Disconnect, Epoch, Position};

use crate::Cx;
use crate::order::Order;

/// The `channel` of a call of the server API.
pub(crate) fn channel_of(name: &str) -> Result<ChannelName, ServerApiError> {
    match name {
        "" => Err(ServerApiError::NoChannel),
        name => name_of(name),
    }
}

/// One of the channels that a call of the server API names.
pub(crate) fn name_of(name: &str) -> Result<ChannelName, ServerApiError> {
    ChannelName::new(name).map_err(|_| ServerApiError::BadChannel)
}

/// Returns the client's last position.
pub(crate) fn position(subscribe: &Subscribe<'_>) -> Option<Position> {
    { subscribe.recover }.then(|| position_of(&subscribe.epoch, subscribe.offset))
}

/// A position as a client or a backend states it. Nowhere, without an epoch and an offset, is
/// before everything (Centrifugo gives such a client the whole stream).
pub(crate) fn position_of(epoch: &str, offset: u64) -> Position {
    if epoch.is_empty() && offset == 0 {
        return Position::START;
    }
    // An unknown epoch recovers nothing, and the client must be told so.
    let epoch = Epoch::parse(epoch).unwrap_or(Epoch(0));
    Position { epoch, offset }
}

/// The channels of a unidirectional connection: those that it names and those of its token.
pub(crate) fn uni_channels(
    connect: &Connect<'_>,
    claims: Option<&Claims>,
    identity: Option<&Identity>,
    cx: &Cx<'_>,
) -> Result<Vec<InitialSubscription>, EntryFault> {
    let holder = Holder {
        identity,
        conn: cx.id,
    };
    let named = connect.subs.iter().map(|sub| Named {
        channel: Some(&sub.channel),
        token: &sub.token,
        since: position(sub),
    });
    all_channels(claims, named, &holder, cx.shared, cx.now)
}

/// Returns the disconnect for a connection that cannot begin with the requested channels.
pub(crate) const fn end_of(fault: &EntryFault) -> Disconnect {
    match fault {
        EntryFault::Name(_) => Disconnect::BadRequest,
        EntryFault::TooMany(_) => Disconnect::ChannelLimit,
        EntryFault::Closed(_) | EntryFault::Unknown(_) => Disconnect::PermissionDenied,
        EntryFault::Token(TokenFault::UnknownKey) => Disconnect::ServerError,
        EntryFault::Token(TokenFault::Expired) => Disconnect::Expired,
        EntryFault::Token(_) => Disconnect::InvalidToken,
    }
}

/// The broker's form of a query for history.
pub(crate) fn history_query(history: &History<'_>) -> HistoryQuery {
    HistoryQuery {
        limit: u32::try_from(history.limit).ok(),
        since: { history.since.as_ref() }.map(|since| position_of(&since.epoch, since.offset)),
        reverse: history.reverse,
    }
}

/// A page of history, as clients and backends get it.
pub(crate) fn history_result(page: &HistoryPage) -> HistoryResult<'_> {
    let nowhere = Position {
        epoch: Epoch(0),
        offset: 0,
    };
    HistoryResult {
        publications: &page.publications,
        position: page.position.unwrap_or(nowhere),
    }
}

/// Builds the result of a subscribe, with recovered publications.
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

/// Tells the channel's backend that there is no newest publication, for a client that asked for it.
/// The client has its subscription already, so it gets the backend's next publication, and does not
/// wait for an answer.
pub(crate) fn tell_if_empty(channel: &ChannelName, subscribed: &Subscribed, cx: &mut Cx<'_>) {
    let options = cx.shared.namespaces.find(channel);
    let to = options
        .filter(|options| options.cache)
        .and_then(|options| options.proxies.cache_empty);
    let is_empty = match &subscribed.recovery {
        Recovery::NotAsked => false,
        Recovery::Lost => true,
        // A client without a position has missed nothing of a stream without publications.
        Recovery::Whole(missed) => {
            let offset = subscribed.position.map_or(0, |position| position.offset);
            missed.is_empty() && offset == 0
        }
    };
    let Some(to) = to.filter(|_| is_empty) else {
        return;
    };
    let mut body = Vec::new();
    let codec = cx.own.codec(to, ProxyKind::CacheEmpty);
    encode_cache_empty(channel.as_str(), codec, &mut body);
    cx.order(Order::CacheEmpty {
        conn: cx.id,
        channel: channel.clone(),
        question: Question {
            to,
            kind: ProxyKind::CacheEmpty,
            headers: Vec::new(),
            body,
        },
    });
}

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
