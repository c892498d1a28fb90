//! Replies to commands, pushes, and the publications inside, in either form.
//!
//! Fields that hold their default (zero, false, empty) are left out, as in Protobuf's JSON mapping,
//! except where the reference server writes them: clients of both read the same.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use throng_types::{Payload, Position, Publication, Publisher};

use crate::ErrorCode;
use crate::form::{Form, Key};
use crate::json::Object;

/// The server's ping, and the whole reply: an empty object. The client answers with the same if the
/// connect result asked for it.
pub const PING: &[u8] = b"{}";
/// Field of a reply in which a push stands.
pub(crate) const PUSH: Key = ("push", 4);

/// Result of `connect`: the state of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectResult<'a> {
    /// The connection's public id.
    pub client: &'a str,
    pub version: &'a str,
    /// True if the connection ends unless it is refreshed within `ttl_s`.
    pub expires: bool,
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
    pub ttl_s: u32,
}

/// The state of a subscription after a refresh.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubRefreshResult {
    /// True if it still expires.
    pub expires: bool,
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
    Connect(&'a ConnectResult<'a>),
    Subscribe(&'a SubscribeResult<'a>),
    Unsubscribe,
    Publish,
    /// To `presence`: everyone in the channel.
    Presence(&'a [ClientInfo<'a>]),
    PresenceStats {
        /// Number of connections in the channel.
        clients: u32,
        /// Number of different users.
        users: u32,
    },
    History(&'a HistoryResult<'a>),
    /// To the command `ping`, which is not the server's own ping.
    Ping,
    /// To `rpc`: the application's own data, if there are any.
    Rpc(Option<&'a Payload>),
    Refresh(&'a RefreshResult<'a>),
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

/// Writes the reply to command `id`.
pub(crate) fn write_reply<F: Form>(id: u32, reply: &Reply<'_>, form: &mut F) {
    form.number_if_any(("id", 1), id.into());
    match *reply {
        Reply::Error(code) => write_error(code.code(), code.message(), code.temporary(), form),
        Reply::Failure {
            code,
            message,
            temporary,
        } => write_error(code, message, temporary, form),
        Reply::Connect(result) => form.message(("connect", 5), |form| {
            write_connect(result, REPLIES, form);
        }),
        Reply::Subscribe(result) => {
            form.message(("subscribe", 6), |form| write_subscribe(result, form));
        }
        Reply::Unsubscribe => form.message(("unsubscribe", 7), |_| ()),
        Reply::Publish => form.message(("publish", 8), |_| ()),
        Reply::Presence(present) => {
            form.message(("presence", 9), |form| write_presence(present, form));
        }
        Reply::PresenceStats { clients, users } => form.message(("presence_stats", 10), |form| {
            write_presence_stats(clients, users, form);
        }),
        Reply::History(result) => form.message(("history", 11), |form| {
            write_history(result, CLIENTS, form);
        }),
        Reply::Ping => form.message(("ping", 12), |_| ()),
        Reply::Rpc(data) => form.message(("rpc", 13), |form| {
            if let Some(data) = data {
                form.data(("data", 1), data);
            }
        }),
        Reply::Refresh(result) => form.message(("refresh", 14), |form| {
            form.text_if_any(("client", 1), result.client);
            form.text_if_any(("version", 2), result.version);
            form.flag_if_set(("expires", 3), result.expires);
            form.number_if_any(("ttl", 4), result.ttl_s.into());
        }),
        Reply::SubRefresh(result) => form.message(("sub_refresh", 15), |form| {
            form.flag_if_set(("expires", 1), result.expires);
            form.number_if_any(("ttl", 2), result.ttl_s.into());
        }),
    }
}

fn write_error<F: Form>(code: u32, message: &str, temporary: bool, form: &mut F) {
    form.message(("error", 2), |form| {
        form.number(("code", 1), code.into());
        form.text(("message", 2), message);
        form.flag_if_set(("temporary", 3), temporary);
    });
}

/// Numbers of the fields that differ between the reply to `connect` and a push.
const REPLIES: [u32; 4] = [3, 4, 5, 6];
const PUSHES: [u32; 4] = [5, 6, 3, 4];

fn write_connect<F: Form>(result: &ConnectResult<'_>, numbers: [u32; 4], form: &mut F) {
    let [expires, ttl, data, subs] = numbers;
    form.text(("client", 1), result.client);
    form.text_if_any(("version", 2), result.version);
    form.flag_if_set(("expires", expires), result.expires);
    form.number_if_any(("ttl", ttl), result.ttl_s.into());
    form.json_if_any(("data", data), result.data);
    if !result.subs.is_empty() {
        let by_channel = result.subs.iter().map(|(channel, sub)| (*channel, sub));
        form.map(("subs", subs), by_channel, write_subscribe);
    }
    form.number_if_any(("ping", 7), result.ping_s.into());
    form.flag_if_set(("pong", 8), result.pong);
    form.text_if_any(("session", 9), result.session);
    form.text_if_any(("node", 10), result.node);
    form.number_if_any(("time", 11), result.time_unix_ms);
}

fn write_subscribe<F: Form>(result: &SubscribeResult<'_>, form: &mut F) {
    form.flag_if_set(("expires", 1), result.expires);
    form.number_if_any(("ttl", 2), result.ttl_s.into());
    form.flag_if_set(("recoverable", 3), result.recoverable);
    form.position_if_any((6, 9), result.position);
    if !result.publications.is_empty() {
        form.list(
            ("publications", 7),
            result.publications,
            |publication, form| match result.delta {
                true => write_delta(publication, None, form),
                false => write_publication(publication, form),
            },
        );
    }
    form.flag_if_set(("recovered", 8), result.recovered);
    form.flag_if_set(("positioned", 10), result.positioned);
    form.json_if_any(("data", 11), result.data);
    form.flag_if_set(("was_recovering", 12), result.was_recovering);
    form.flag_if_set(("delta", 13), result.delta);
}

/// The number of a publication's first field for clients; those of the others follow.
pub(crate) const CLIENTS: u32 = 4;

/// The client protocol and the server API show history alike, but for the numbers of publications'
/// fields in Protobuf.
pub(crate) fn write_history<F: Form>(result: &HistoryResult<'_>, numbers: u32, form: &mut F) {
    form.list(
        ("publications", 1),
        result.publications,
        |publication, form| {
            form.data(("data", numbers), &publication.payload);
            write_rest(publication, numbers, false, form);
        },
    );
    form.epoch(("epoch", 2), result.position.epoch);
    form.number(("offset", 3), result.position.offset);
}

/// Writes one publication. Its time stays here: the reference server does not send it, and most
/// SDKs would not show it.
fn write_publication<F: Form>(publication: &Publication, form: &mut F) {
    form.data(("data", CLIENTS), &publication.payload);
    write_rest(publication, CLIENTS, false, form);
}

/// Writes one publication for a subscriber with deltas.
fn write_delta<F: Form>(publication: &Publication, patch: Option<&[u8]>, form: &mut F) {
    form.delta(("data", CLIENTS), &publication.payload, patch);
    write_rest(publication, CLIENTS, patch.is_some(), form);
}

fn write_rest<F: Form>(publication: &Publication, numbers: u32, is_patch: bool, form: &mut F) {
    if let Some(publisher) = &publication.publisher {
        let info = ClientInfo::from(&**publisher);
        form.message(("info", numbers + 1), |form| write_info(&info, form));
    }
    if let Some(position) = publication.position {
        form.number(("offset", numbers + 2), position.offset);
    }
    if let Some(tags) = publication.tags.as_deref() {
        form.tags(("tags", numbers + 3), tags);
    }
    form.flag_if_set(("delta", numbers + 4), is_patch);
}

pub(crate) fn write_presence<F: Form>(present: &[ClientInfo<'_>], form: &mut F) {
    let clients = present.iter().map(|info| (info.client, info));
    form.map(("presence", 1), clients, write_info);
}

pub(crate) fn write_presence_stats<F: Form>(clients: u32, users: u32, form: &mut F) {
    form.number(("num_clients", 1), clients.into());
    form.number(("num_users", 2), users.into());
}

/// `user` and `client` are written even when empty, because SDKs read them unasked.
fn write_info<F: Form>(info: &ClientInfo<'_>, form: &mut F) {
    form.text(("user", 1), info.user);
    form.text(("client", 2), info.client);
    form.json_if_any(("conn_info", 3), info.conn_info);
    form.json_if_any(("chan_info", 4), info.chan_info);
}

/// Writes a push, which stands in a reply where a transport carries those.
pub(crate) fn write_push<F: Form>(push: &Push<'_>, form: &mut F) {
    let channel = match *push {
        Push::Publication(publication) | Push::Delta { publication, .. } => {
            publication.channel.as_str()
        }
        Push::Join { channel, .. }
        | Push::Leave { channel, .. }
        | Push::Unsubscribe { channel, .. }
        | Push::Subscribe { channel, .. } => channel,
        Push::Message(_) | Push::Disconnect { .. } | Push::Refresh { .. } => "",
    };
    form.text_if_any(("channel", 2), channel);
    match *push {
        Push::Publication(publication) => {
            form.message(("pub", 4), |form| write_publication(publication, form));
        }
        Push::Delta { publication, patch } => {
            form.message(("pub", 4), |form| write_delta(publication, patch, form));
        }
        Push::Join { ref info, .. } => write_member(("join", 5), info, form),
        Push::Leave { ref info, .. } => write_member(("leave", 6), info, form),
        Push::Unsubscribe { code, reason, .. } => form.message(("unsubscribe", 7), |form| {
            form.number(("code", 2), code.into());
            form.text(("reason", 3), reason);
        }),
        Push::Message(data) => form.message(("message", 8), |form| form.data(("data", 1), data)),
        Push::Subscribe { subscribe, .. } => form.message(("subscribe", 9), |form| {
            form.flag_if_set(("recoverable", 1), subscribe.recoverable);
            form.position_if_any((4, 5), subscribe.position);
            form.flag_if_set(("positioned", 6), subscribe.positioned);
            form.json_if_any(("data", 7), subscribe.data);
        }),
        Push::Disconnect { code, reason } => form.message(("disconnect", 11), |form| {
            form.number(("code", 1), code.into());
            form.text(("reason", 2), reason);
        }),
        Push::Refresh { ttl_s } => form.message(("refresh", 12), |form| {
            form.flag_if_set(("expires", 1), ttl_s.is_some());
            form.number_if_any(("ttl", 2), ttl_s.unwrap_or_default().into());
        }),
    }
}

fn write_member<F: Form>(key: Key, info: &ClientInfo<'_>, form: &mut F) {
    form.message(key, |form| {
        form.message(("info", 1), |form| write_info(info, form));
    });
}

/// Appends a push in JSON.
///
/// A bidirectional transport carries replies, so a push is wrapped: `{"push":{..}}`. A
/// unidirectional one (`uni_websocket`, `uni_sse`, `uni_http_stream`) carries bare pushes, begins
/// with `{"connect":{..}}` and has `{}` as its ping (page "Unidirectional protocol"). A WebSocket
/// says in its close frame what [`Push::Disconnect`] says, and needs no such push.
pub fn encode_push(push: &Push<'_>, bidirectional: bool, out: &mut Vec<u8>) {
    Object::append(out, |form| match bidirectional {
        true => form.message(PUSH, |form| write_push(push, form)),
        false => write_push(push, form),
    });
}

/// Writes the first push of a unidirectional connection, which has no command to reply to.
pub(crate) fn write_connect_push<F: Form>(result: &ConnectResult<'_>, form: &mut F) {
    form.message(("connect", 10), |form| write_connect(result, PUSHES, form));
}
