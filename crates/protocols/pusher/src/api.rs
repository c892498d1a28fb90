//! The HTTP API of back ends: paths, signed queries, bodies and answers.

mod answer;
mod event;
mod signature;

use throng_types::percent_decoded;

pub use answer::{
    ChannelInfo, batch_answer, cached_event, channels_answer, connections_answer, error_answer,
    users_answer,
};
pub use event::{
    BATCH_MAX, BadEvent, CHANNELS_MAX, EventLimits, InfoAttributes, Trigger, is_socket_id,
};
pub use signature::{BadSignature, SignedQuery, signed_query};

/// A call, as its path names it; names are percent-decoded and not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PusherCall {
    /// `POST /apps/ID/events`: one event to several channels.
    Events,
    /// `POST /apps/ID/batch_events`: several events to one channel each.
    BatchEvents,
    /// `GET /apps/ID/channels`: the occupied channels.
    Channels,
    /// `GET /apps/ID/channels/NAME`: facts about one channel.
    Channel(String),
    /// `GET /apps/ID/channels/NAME/users`: members of a presence channel.
    Users(String),
    /// `POST /apps/ID/users/USER/terminate_connections`: ends all connections of a user.
    Terminate(String),
    /// `GET /apps/ID/connections`, as in Reverb: the number of connections.
    Connections,
}

/// Reads a path below `/apps/`: the app's id as it stands there, and the call, which is `None` if
/// none has this path and method. Returns `None` if the path is not below `/apps/`.
#[must_use]
pub fn call_of(is_post: bool, path: &str) -> Option<(&str, Option<PusherCall>)> {
    let mut parts = path.strip_prefix("/apps/")?.split('/');
    let app = parts.next()?;
    let parts: Vec<&str> = parts.collect();
    let call = match (is_post, &*parts) {
        (true, ["events"]) => Some(PusherCall::Events),
        (true, ["batch_events"]) => Some(PusherCall::BatchEvents),
        (false, ["channels"]) => Some(PusherCall::Channels),
        (false, ["channels", name]) => percent_decoded(name).map(PusherCall::Channel),
        (false, ["channels", name, "users"]) => percent_decoded(name).map(PusherCall::Users),
        (true, ["users", user, "terminate_connections"]) => {
            percent_decoded(user).map(PusherCall::Terminate)
        }
        (false, ["connections"]) => Some(PusherCall::Connections),
        _ => None,
    };
    Some((app, call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (is_post, path, expected) in [
            (true, "/apps/3/events", Some(PusherCall::Events)),
            (false, "/apps/3/events", None),
            (true, "/apps/3/batch_events", Some(PusherCall::BatchEvents)),
            (false, "/apps/3/channels", Some(PusherCall::Channels)),
            (
                false,
                "/apps/3/channels/a%3Bb",
                Some(PusherCall::Channel("a;b".to_owned())),
            ),
            (
                false,
                "/apps/3/channels/presence-a/users",
                Some(PusherCall::Users("presence-a".to_owned())),
            ),
            (
                true,
                "/apps/3/users/4%2F2/terminate_connections",
                Some(PusherCall::Terminate("4/2".to_owned())),
            ),
            (false, "/apps/3/connections", Some(PusherCall::Connections)),
            (false, "/apps/3", None),
            (false, "/apps/3/channels/a/b/c", None),
            (false, "/apps/3/channels/%ff", None),
        ] {
            assert_eq!(call_of(is_post, path), Some(("3", expected)), "{path}");
        }
        assert_eq!(call_of(true, "/app/3/events"), None);
    }
}
