//! Channels of an app in the hub, and the wire form of deliveries.

use throng_broker::{ChannelOptions, Draft, PresenceOptions, Retention};
use throng_pusher::{
    ChannelAccess, ChannelKind, EventData, SUBSCRIPTION_COUNT, append_delivery, append_event,
    server_to_user,
};
use throng_session::encode::ws_text;
use throng_session::{Form, FormKind};
use throng_types::{ChannelName, Payload, PayloadKind, Publication, PublicationKind, Publisher};

use crate::PusherApp;
use crate::names::{CACHE_NAMESPACE, CACHE_TTL_MS, NAMESPACE, own_name};

/// One text frame for each event.
pub(crate) const EVENTS: Form = Form::new(0, FormKind::Noted);

/// Beginning of channels that tell whether a user is online: all its connections that have signed
/// in are members there. Clients cannot name such a channel.
const ONLINE: &str = "#online-";

/// Tag of a publication that ends the connections of a user.
const TERMINATE: &str = r#"{"pusher":"terminate"}"#;

/// Options of the channels in one of the namespaces.
pub(crate) fn channel_options(namespace: &str) -> ChannelOptions {
    let presence = PresenceOptions {
        is_listed: true,
        ..PresenceOptions::default()
    };
    if namespace != CACHE_NAMESPACE {
        return ChannelOptions {
            presence,
            ..ChannelOptions::default()
        };
    }
    ChannelOptions {
        presence,
        retention: Retention {
            publications_max: 1,
            ttl_ms: CACHE_TTL_MS,
        },
        recovery: true,
        cache: true,
        ..ChannelOptions::default()
    }
}

/// The hub's name for a channel of an app; `None` if the channel's name is too long.
pub(crate) fn hub_channel(app: &PusherApp, name: &str, kind: ChannelKind) -> Option<ChannelName> {
    let namespace = match kind.is_cache {
        true => CACHE_NAMESPACE,
        false => NAMESPACE,
    };
    ChannelName::new(&format!("{namespace}:{}:{name}", app.id)).ok()
}

/// Kind of the channels that are of one user.
const OF_USER: ChannelKind = ChannelKind {
    access: ChannelAccess::User,
    is_cache: false,
};

/// The hub's name for the channel of a user; `None` if the user's id is too long.
pub(crate) fn user_channel(app: &PusherApp, user_id: &str) -> Option<ChannelName> {
    hub_channel(app, &server_to_user(user_id), OF_USER)
}

/// The hub's name for the channel that tells whether a user is online; `None` as above.
pub(crate) fn online_channel(app: &PusherApp, user_id: &str) -> Option<ChannelName> {
    hub_channel(app, &format!("{ONLINE}{user_id}"), OF_USER)
}

/// Id of the user of whom a channel tells whether it is online.
pub(crate) fn watched(channel: &ChannelName) -> Option<&str> {
    own_name(channel).strip_prefix(ONLINE)
}

/// Whether a channel of the hub is one of an app, and not a user's own.
pub(crate) fn is_of_app(channel: &str, app_id: &str) -> bool {
    let parts: Vec<&str> = channel.splitn(3, ':').collect();
    let [namespace, app, name] = parts[..] else {
        return false;
    };
    matches!(namespace, NAMESPACE | CACHE_NAMESPACE) && app == app_id && !name.starts_with('#')
}

/// Draft of an event. `left_out` is the connection that does not get it.
pub(crate) fn draft(
    channel: ChannelName,
    event: (&str, EventData<'_>),
    user_id: Option<&str>,
    left_out: Option<&str>,
) -> Draft {
    let mut bytes = Vec::new();
    append_event(event.0, event.1, user_id, &mut bytes);
    let payload = Payload {
        bytes: bytes.into(),
        kind: PayloadKind::Json,
    };
    let publisher = left_out.map(|socket_id| Publisher {
        client: socket_id.into(),
        ..Publisher::default()
    });
    Draft {
        publisher: publisher.map(Box::new),
        ..Draft::new(channel, payload)
    }
}

/// Draft of the number of a channel's subscribers, for them alone.
pub(crate) fn count(channel: ChannelName, subscribers: u32) -> Draft {
    let data = format!(r#"{{"subscription_count":{subscribers}}}"#);
    let event = (SUBSCRIPTION_COUNT, EventData::Text(&data));
    Draft {
        skip_history: true,
        ..draft(channel, event, None, None)
    }
}

/// Whether the subscribers of a channel may be told how many they are: it is neither a user's nor
/// one with presence.
pub(crate) fn is_counted(channel: &ChannelName) -> bool {
    let kind = ChannelKind::of(own_name(channel));
    kind.is_some_and(|it| !matches!(it.access, ChannelAccess::User | ChannelAccess::Presence))
}

/// Draft of the order to end all connections of a user, for the user's channel.
pub(crate) fn termination(channel: ChannelName) -> Draft {
    Draft {
        tags: Some(TERMINATE.into()),
        ..Draft::new(channel, Payload::text(""))
    }
}

pub(crate) fn is_termination(publication: &Publication) -> bool {
    publication.tags.as_deref() == Some(TERMINATE)
}

/// Whether the frame is the same for all subscribers.
fn is_shared(publication: &Publication) -> bool {
    let is_data = publication.told == PublicationKind::Data;
    is_data && publication.publisher.is_none() && !is_termination(publication)
}

/// Appends the frame of an event, if it is the same for all subscribers.
pub(crate) fn encode(publication: &Publication, out: &mut Vec<u8>) {
    if is_shared(publication) {
        encode_for_one(publication, out);
    }
}

/// Appends the frame of an event for one subscriber that gets it.
pub(crate) fn encode_for_one(publication: &Publication, out: &mut Vec<u8>) {
    let channel = own_name(&publication.channel);
    ws_text(out, |out| {
        append_delivery(&publication.payload.bytes, channel, out)
    });
}
