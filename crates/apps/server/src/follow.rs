//! What followers are told, in words: the events of a user or a channel that pass a shard.
//!
//! Called where the events pass anyway, and only while somebody follows. Never: keeps anything;
//! [`throng_session::Follow`] has the lines until the turn is over.

use std::sync::Arc;

use throng_broker::{Draft, HookConnection, Recovery, Refusal, Subscribed};
use throng_engine::{Conns, Kernel};
use throng_hub::{Answer, Command, Hub};
use throng_session::{FollowEvent, Notice, NoticeKind, Shared, Transport, write_followed_data};
use throng_types::{ChannelName, ConnId, Now, Publication, PublicationKind, Unsubscribe};

use crate::gateways::Session;

fn user_of(session: Option<&Session>) -> &str {
    session.map_or("", Session::user)
}

fn event_of<'a>(
    name: &'static str,
    conn: ConnId,
    session: Option<&'a Session>,
    channel: &'a str,
) -> FollowEvent<'a> {
    FollowEvent {
        name,
        conn: Some(conn),
        user: user_of(session),
        channel,
        is_for_user: false,
    }
}

/// Why the hub refused a subscribe.
const fn words(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::AlreadySubscribed => "subscribed already",
        Refusal::ChannelLimit => "too many channels in one connection",
        Refusal::UnknownChannel => "the namespace is not configured",
        Refusal::Cancelled => "unsubscribed meanwhile",
        Refusal::Busy => "a queue is full",
        Refusal::Unavailable | Refusal::Unknown => "the broker does not answer",
        _ => "not possible in this channel",
    }
}

/// Tells how a subscribe was answered.
#[cold]
pub(crate) fn answered(shared: &Shared, conn: ConnId, session: Option<&Session>, answer: &Answer) {
    let Answer::Subscribed { channel, result } = answer else {
        return;
    };
    let name = if result.is_ok() {
        "subscribed"
    } else {
        "refused"
    };
    let event = event_of(name, conn, session, channel.as_str());
    shared.tell_followers(&event, |line, _| match result {
        Ok(Subscribed { position, recovery }) => {
            if let Some(position) = position {
                line.number("offset", position.offset);
            }
            match recovery {
                Recovery::NotAsked => {}
                Recovery::Whole(missed) => line.number("recovered", missed.len()),
                Recovery::Lost => line.flag("lost", true),
            }
        }
        Err(refusal) => {
            line.text("what", "subscribe");
            line.text("why", words(*refusal));
        }
    });
}

/// Tells what a connection got.
#[cold]
pub(crate) fn got(
    shared: &Shared,
    conn: ConnId,
    session: Option<&Session>,
    publications: &[Arc<Publication>],
) {
    for publication in publications {
        if publication.told == PublicationKind::Data {
            let channel = publication.channel.as_str();
            let event = FollowEvent {
                is_for_user: true,
                ..event_of("got", conn, session, channel)
            };
            shared.tell_followers(&event, |line, with_data| {
                if let Some(position) = publication.position {
                    line.number("offset", position.offset);
                }
                write_followed_data(line, &publication.payload, with_data);
            });
        }
    }
}

/// Tells what a connection got that was in no channel of the hub's.
#[cold]
pub(crate) fn got_apart(shared: &Shared, conn: ConnId, session: Option<&Session>, bytes: usize) {
    let event = event_of("got", conn, session, "");
    shared.tell_followers(&event, |line, _| line.number("bytes", bytes));
}

/// Tells that all members of a shard have a publication.
#[cold]
pub(crate) fn reached(shared: &Shared, publication: &Publication, members: u32, now: Now) {
    if publication.told != PublicationKind::Data {
        return;
    }
    let event = FollowEvent {
        name: "delivered",
        channel: publication.channel.as_str(),
        ..FollowEvent::default()
    };
    shared.tell_followers(&event, |line, with_data| {
        line.number("subscribers", members);
        let lag_ms = now.unix_ms.saturating_sub(publication.time_unix_ms);
        line.number("lag_ms", lag_ms);
        if let Some(position) = publication.position {
            line.number("offset", position.offset);
        }
        if let Some(publisher) = &publication.publisher {
            line.text_if_any("publisher", &publisher.client);
        }
        write_followed_data(line, &publication.payload, with_data);
    });
}

/// Tells what a client, a feed or a gateway publishes; the front door tells of the server API's.
pub(crate) fn published(
    shared: &Shared,
    conn: Option<ConnId>,
    session: Option<&Session>,
    draft: &Draft,
) {
    let event = FollowEvent {
        name: "published",
        conn,
        user: user_of(session),
        channel: draft.channel.as_str(),
        is_for_user: false,
    };
    shared.tell_followers(&event, |line, with_data| {
        write_followed_data(line, &draft.payload, with_data);
    });
}

/// Tells what a command does that is about to be carried out.
#[cold]
pub(crate) fn ordered<K: Kernel>(
    (shared, hub): (&Shared, &Hub),
    command: &Command,
    conns: &Conns<Session, K>,
) {
    let is_client = |session: &Session| {
        let class = session.class();
        class.is_client && class.transport != Transport::Http
    };
    match command {
        Command::Unsubscribe { conn, channel, .. } if hub.is_subscribed(*conn, channel) => {
            let session = conns.session(*conn);
            let event = event_of("unsubscribed", *conn, session, channel.as_str());
            shared.tell_followers(&event, |_, _| {});
        }
        Command::Publish { reply_to, draft } => {
            let session = conns.session(reply_to.conn);
            if session.is_some_and(is_client) {
                published(shared, Some(reply_to.conn), session, draft);
            }
        }
        Command::Feed { drafts, .. } => {
            for draft in drafts {
                published(shared, None, None, draft);
            }
        }
        _ => {}
    }
}

/// Tells that the server ended a subscription.
pub(crate) fn unsubscribed(
    shared: &Shared,
    conn: ConnId,
    session: Option<&Session>,
    (channel, why): (&ChannelName, Unsubscribe),
) {
    if shared.follow.is_on() {
        let event = event_of("unsubscribed", conn, session, channel.as_str());
        shared.tell_followers(&event, |line, _| line.text("why", why.reason()));
    }
}

/// Tells of a connection that leaves the hub; the hub still knows its channels.
#[cold]
pub(crate) fn left((shared, hub): (&Shared, &Hub), conn: ConnId, session: &Session, why: &str) {
    for channel in shared.follow.channels() {
        if hub.is_subscribed(conn, &channel) {
            let event = event_of("unsubscribed", conn, Some(session), channel.as_str());
            shared.tell_followers(&event, |line, _| line.text("why", why));
        }
    }
}

/// Tells of a connection that is closed for being slow, and so leaves the hub.
#[cold]
pub(crate) fn too_slow((shared, hub): (&Shared, &Hub), conn: ConnId, session: &Session) {
    let why = "too slow";
    let event = event_of("slow", conn, Some(session), "");
    shared.tell_followers(&event, |line, _| line.text("why", why));
    left((shared, hub), conn, session, why);
}

/// Tells that a client has come, or has gone, with the code and reason of its end.
#[cold]
pub(crate) fn connected(
    shared: &Shared,
    conn: ConnId,
    client: &HookConnection,
    end: Option<&(u16, Box<str>)>,
) {
    let event = FollowEvent {
        name: if end.is_some() {
            "disconnected"
        } else {
            "connected"
        },
        conn: Some(conn),
        user: &client.user,
        ..FollowEvent::default()
    };
    shared.tell_followers(&event, |line, _| {
        line.text("protocol", &client.protocol);
        line.text("transport", &client.transport);
        if let Some((code, reason)) = end.filter(|(code, _)| *code > 0) {
            line.number("code", *code);
            line.text("why", reason);
        }
    });
}

/// Tells of a refusal, or of a call that changes something; `key` is how logs call the key.
pub(crate) fn noted<K: Kernel>(
    shared: &Shared,
    notice: &Notice,
    (address, key): (&str, &str),
    conns: &Conns<Session, K>,
) {
    let is_refusal = match notice.kind {
        NoticeKind::Refused => true,
        NoticeKind::Changed => false,
        NoticeKind::Published => return,
    };
    let user = match &*notice.user {
        "" if is_refusal => user_of(conns.session(notice.conn)),
        user => user,
    };
    let event = FollowEvent {
        name: if is_refusal { "refused" } else { "called" },
        // Of a call it is the caller's, and none of the user's.
        conn: is_refusal.then_some(notice.conn),
        user,
        channel: &notice.object,
        is_for_user: false,
    };
    shared.tell_followers(&event, |line, _| {
        line.text_if_any("client", &notice.client);
        line.text_if_any("address", address);
        line.text("what", notice.what);
        line.text_if_any("why", &notice.why);
        line.text_if_any("key", key);
    });
}
