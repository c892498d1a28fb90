//! Replies to commands, pushes before they have a form, and the publications inside.
//!
//! Fields that hold their default (zero, false, empty) are left out, as in Protobuf's JSON mapping,
//! except where the reference server writes them: clients of both read the same.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use throng_types::{Payload, PayloadKind, Position, Publication, Publisher};

use crate::ErrorCode;
use crate::json::{Object, append_epoch, append_json, append_list, append_payload, append_text};

/// The server's ping, and the whole reply: an empty object.
pub const PING: &[u8] = b"{}";

/// Appends the server's ping. The client answers with the same if the connect result asked for it.
pub fn encode_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(PING);
}

/// Result of `connect`: the state of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectResult<'a> {
    /// The connection's public id.
    pub client: &'a str,
    pub version: &'a str,
    /// True if the connection ends unless it is refreshed within `ttl_s`.
    pub expires: bool,
    /// Seconds until the connection expires.
    pub ttl_s: u32,
    /// JSON for the application.
    pub data: Option<&'a str>,
    /// Subscriptions that the server made, by channel.
    pub subs: &'a [(&'a str, SubscribeResult<'a>)],
    /// Seconds between the server's pings; 0 when it sends none.
    pub ping_s: u32,
    /// True if the client must answer them.
    pub pong: bool,
    /// The session's id, which emulated transports send back.
    pub session: &'a str,
    pub node: &'a str,
    /// The server's clock in Unix milliseconds; 0 leaves it out.
    pub time_unix_ms: u64,
}

/// Result of `subscribe`: the state of a subscription.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscribeResult<'a> {
    /// True if the subscription ends unless it is refreshed within `ttl_s`.
    pub expires: bool,
    /// Seconds until the subscription expires.
    pub ttl_s: u32,
    /// True if the client may recover later, from `position` on.
    pub recoverable: bool,
    /// True if the server watches for gaps.
    pub positioned: bool,
    /// Position of the stream; only in channels that keep history.
    pub position: Option<Position>,
    /// Publications that the client missed, oldest first; only when `recovered`.
    pub publications: &'a [Arc<Publication>],
    /// True if `publications` is all that the client missed.
    pub recovered: bool,
    /// True if the client had asked to recover.
    pub was_recovering: bool,
    /// JSON for the application.
    pub data: Option<&'a str>,
    /// True if publications may be said as differences. In JSON all data of the subscription are
    /// then texts that hold JSON, here too.
    pub delta: bool,
}

/// Part of a channel's past.
#[derive(Clone, Copy, Debug)]
pub struct HistoryResult<'a> {
    /// The publications, in the order that was asked for.
    pub publications: &'a [Arc<Publication>],
    pub position: Position,
}

/// The state of the connection after a refresh.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefreshResult<'a> {
    /// The connection's public id.
    pub client: &'a str,
    pub version: &'a str,
    /// True if it still expires.
    pub expires: bool,
    /// Seconds until the connection expires.
    pub ttl_s: u32,
}

/// The state of a subscription after a refresh.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubRefreshResult {
    /// True if it still expires.
    pub expires: bool,
    /// Seconds until the subscription expires.
    pub ttl_s: u32,
}

/// Client behind a connection in a channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientInfo<'a> {
    /// The user, empty for an anonymous one.
    pub user: &'a str,
    /// The connection's public id.
    pub client: &'a str,
    /// JSON from the connection token.
    pub conn_info: Option<&'a str>,
    /// JSON from the subscription token.
    pub chan_info: Option<&'a str>,
}

impl<'a> From<&'a Publisher> for ClientInfo<'a> {
    fn from(publisher: &'a Publisher) -> Self {
        Self {
            user: &publisher.user,
            client: &publisher.client,
            conn_info: publisher.conn_info.as_deref(),
            chan_info: publisher.chan_info.as_deref(),
        }
    }
}

/// Appends the reply to command `id`.
pub(crate) fn encode_reply(id: u32, reply: &Reply<'_>, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.number_if_any("id", id.into());
    match *reply {
        Reply::Error(code) => {
            let (number, message) = (code.code(), code.message());
            append_error(number, message, code.temporary(), object.value("error"));
        }
        Reply::Failure {
            code,
            message,
            temporary,
        } => append_error(code, message, temporary, object.value("error")),
        Reply::Connect(result) => append_connect(result, object.value("connect")),
        Reply::Subscribe(result) => append_subscribe(result, object.value("subscribe")),
        Reply::Unsubscribe => object.value("unsubscribe").extend_from_slice(b"{}"),
        Reply::Publish => object.value("publish").extend_from_slice(b"{}"),
        Reply::Presence(present) => append_presence(present, object.value("presence")),
        Reply::PresenceStats { clients, users } => {
            append_presence_stats(clients, users, object.value("presence_stats"));
        }
        Reply::History(result) => append_history(result, object.value("history")),
        Reply::Ping => object.value("ping").extend_from_slice(b"{}"),
        Reply::Rpc(data) => {
            let mut rpc = Object::open(object.value("rpc"));
            if let Some(data) = data {
                append_payload(data, rpc.value("data"));
            }
            rpc.close();
        }
        Reply::Refresh(result) => {
            let mut refresh = Object::open(object.value("refresh"));
            refresh.text_if_any("client", result.client);
            refresh.text_if_any("version", result.version);
            append_expiry(result.expires, result.ttl_s, refresh);
        }
        Reply::SubRefresh(result) => {
            let refresh = Object::open(object.value("sub_refresh"));
            append_expiry(result.expires, result.ttl_s, refresh);
        }
    }
    object.close();
}

fn append_error(code: u32, message: &str, temporary: bool, out: &mut Vec<u8>) {
    let mut error = Object::open(out);
    error.number("code", code.into());
    error.text("message", message);
    error.flag_if_set("temporary", temporary);
    error.close();
}

fn append_expiry(expires: bool, ttl_s: u32, mut refresh: Object<'_>) {
    refresh.flag_if_set("expires", expires);
    refresh.number_if_any("ttl", ttl_s.into());
    refresh.close();
}

pub(crate) fn append_connect(result: &ConnectResult<'_>, out: &mut Vec<u8>) {
    let mut connect = Object::open(out);
    connect.text("client", result.client);
    connect.text_if_any("version", result.version);
    connect.flag_if_set("expires", result.expires);
    connect.number_if_any("ttl", result.ttl_s.into());
    connect.json_if_any("data", result.data);
    if !result.subs.is_empty() {
        let mut subs = Object::open(connect.value("subs"));
        for (channel, sub) in result.subs {
            append_subscribe(sub, subs.value_of(channel));
        }
        subs.close();
    }
    connect.number_if_any("ping", result.ping_s.into());
    connect.flag_if_set("pong", result.pong);
    connect.text_if_any("session", result.session);
    connect.text_if_any("node", result.node);
    connect.number_if_any("time", result.time_unix_ms);
    connect.close();
}

fn append_subscribe(result: &SubscribeResult<'_>, out: &mut Vec<u8>) {
    let mut subscribe = Object::open(out);
    subscribe.flag_if_set("expires", result.expires);
    subscribe.number_if_any("ttl", result.ttl_s.into());
    subscribe.flag_if_set("recoverable", result.recoverable);
    subscribe.position_if_any(result.position);
    if !result.publications.is_empty() {
        let publications = subscribe.value("publications");
        let append = |publication: &Arc<_>, out: &mut _| match result.delta {
            true => append_delta(publication, None, out),
            false => append_publication(publication, out),
        };
        append_list(result.publications, publications, append);
    }
    subscribe.flag_if_set("recovered", result.recovered);
    subscribe.flag_if_set("positioned", result.positioned);
    subscribe.json_if_any("data", result.data);
    subscribe.flag_if_set("was_recovering", result.was_recovering);
    subscribe.flag_if_set("delta", result.delta);
    subscribe.close();
}

/// The client protocol and the server API show history alike.
pub(crate) fn append_history(result: &HistoryResult<'_>, out: &mut Vec<u8>) {
    let mut history = Object::open(out);
    let publications = history.value("publications");
    append_list(result.publications, publications, |publication, out| {
        append_publication(publication, out);
    });
    append_epoch(result.position, history.value("epoch"));
    history.number("offset", result.position.offset);
    history.close();
}

/// One publication. Its time stays here: the reference server does not send it, and most SDKs would
/// not show it.
pub(crate) fn append_publication(publication: &Publication, out: &mut Vec<u8>) {
    let data = |out: &mut Vec<u8>| append_payload(&publication.payload, out);
    append_with_data(publication, data, false, out);
}

/// One publication for a subscriber with deltas: its data is a text, which is the JSON of the data
/// or a patch that makes it.
pub(crate) fn append_delta(publication: &Publication, patch: Option<&[u8]>, out: &mut Vec<u8>) {
    let payload = &publication.payload;
    let data = |out: &mut Vec<u8>| match (patch, payload.kind) {
        (Some(patch), _) => append_text(&String::from_utf8_lossy(patch), out),
        (None, PayloadKind::Json) => append_text(&String::from_utf8_lossy(&payload.bytes), out),
        (None, PayloadKind::Text | PayloadKind::Binary) => {
            let mut json = Vec::new();
            append_payload(payload, &mut json);
            append_text(&String::from_utf8_lossy(&json), out);
        }
    };
    append_with_data(publication, data, patch.is_some(), out);
}

fn append_with_data(
    publication: &Publication,
    data: impl FnOnce(&mut Vec<u8>),
    is_patch: bool,
    out: &mut Vec<u8>,
) {
    let mut object = Object::open(out);
    data(object.value("data"));
    if let Some(publisher) = &publication.publisher {
        append_info(&ClientInfo::from(&**publisher), object.value("info"));
    }
    if let Some(position) = publication.position {
        object.number("offset", position.offset);
    }
    object.json_if_any("tags", publication.tags.as_deref());
    object.flag_if_set("delta", is_patch);
    object.close();
}

pub(crate) fn append_presence(present: &[ClientInfo<'_>], out: &mut Vec<u8>) {
    let mut result = Object::open(out);
    let mut clients = Object::open(result.value("presence"));
    for info in present {
        append_info(info, clients.value_of(info.client));
    }
    clients.close();
    result.close();
}

pub(crate) fn append_presence_stats(clients: u32, users: u32, out: &mut Vec<u8>) {
    let mut result = Object::open(out);
    result.number("num_clients", clients.into());
    result.number("num_users", users.into());
    result.close();
}

/// `user` and `client` are written even when empty, because SDKs read them unasked.
pub(crate) fn append_info(info: &ClientInfo<'_>, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    append_text(info.user, object.value("user"));
    append_text(info.client, object.value("client"));
    for (key, json) in [("conn_info", info.conn_info), ("chan_info", info.chan_info)] {
        if let Some(json) = json {
            append_json(json.as_bytes(), object.value(key));
        }
    }
    object.close();
}

#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// Failure with one of Centrifugo's codes.
    Error(ErrorCode),
    /// Failure for a reason of the application's.
    Failure {
        /// Code from 400 to 1999.
        code: u32,
        /// A word for developers.
        message: &'a str,
        /// True if the client may try again.
        temporary: bool,
    },
    /// Result of the command `connect`.
    Connect(&'a ConnectResult<'a>),
    /// Result of the command `subscribe`.
    Subscribe(&'a SubscribeResult<'a>),
    /// Success of the command `unsubscribe`.
    Unsubscribe,
    /// Success of the command `publish`.
    Publish,
    /// To `presence`: everyone in the channel.
    Presence(&'a [ClientInfo<'a>]),
    /// Result of the command `presence_stats`.
    PresenceStats {
        /// Number of connections in the channel.
        clients: u32,
        /// Number of different users.
        users: u32,
    },
    /// Result of the command `history`.
    History(&'a HistoryResult<'a>),
    /// To the command `ping`, which is not the server's own ping.
    Ping,
    /// To `rpc`: the application's own data, if there are any.
    Rpc(Option<&'a Payload>),
    /// Result of the command `refresh`.
    Refresh(&'a RefreshResult<'a>),
    /// Result of the command `sub_refresh`.
    SubRefresh(&'a SubRefreshResult),
}

/// Message that a bidirectional client gets unasked.
#[derive(Clone, Copy, Debug)]
pub enum Push<'a> {
    /// Publication for a subscriber without deltas.
    Publication(&'a Publication),
    /// For a subscriber with deltas.
    Delta {
        /// Publication with its whole data.
        publication: &'a Publication,
        /// Delta that makes its data of the data before, in place of it; nothing if it is whole. In
        /// JSON both have to be JSON, and this a text.
        patch: Option<&'a [u8]>,
    },
    /// A client has subscribed to a channel.
    Join {
        channel: &'a str,
        info: ClientInfo<'a>,
    },
    /// Somebody's subscription has ended.
    Leave {
        channel: &'a str,
        info: ClientInfo<'a>,
    },
    /// The server ended a subscription; see `throng_types::Unsubscribe`.
    Unsubscribe {
        channel: &'a str,
        /// Code that tells the client to come back or to stay away.
        code: u16,
        /// The sentence beside the code.
        reason: &'a str,
    },
    /// To this connection alone, outside of any channel.
    Message(&'a Payload),
    /// The server ends the connection; for transports without a close frame. See
    /// `throng_types::Disconnect`.
    Disconnect {
        /// Code that tells the client to come back or to stay away.
        code: u16,
        /// The sentence beside the code.
        reason: &'a str,
    },
    /// The server subscribed the connection.
    Subscribe {
        channel: &'a str,
        subscribe: &'a SubscribePush<'a>,
    },
    /// The server refreshed the connection.
    Refresh {
        /// Seconds until it expires; nothing for never.
        ttl_s: Option<u32>,
    },
}

/// State of a subscription that the server made while the connection lived.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubscribePush<'a> {
    /// True if the client may recover later, from `position` on.
    pub recoverable: bool,
    /// True if the server watches for gaps.
    pub positioned: bool,
    /// Position of the stream; only in channels that keep history.
    pub position: Option<Position>,
    /// JSON for the application.
    pub data: Option<&'a str>,
}
