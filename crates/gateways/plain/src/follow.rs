//! `/follow` of the API port: an operator hears live what happens to one user or in one channel.
//!
//! A stream of events like those of `/sse`, in a channel that nobody else may listen in. It ends
//! with an upgrade, since the process that takes over does not know who follows.

use throng_session::http::{StreamHead, check_draining, write_stream_head};
use throng_session::{
    EntryFault, FOLLOWERS_MAX, FollowTarget, Incoming, KeyRole, RESERVED, Reject, may_call,
    may_touch,
};
use throng_types::ChannelName;

use crate::Cx;
use crate::framing::Framing;
use crate::stream::StreamSession;

/// Parameters of a request.
#[derive(Debug, PartialEq, Eq)]
struct FollowQuery {
    target: FollowTarget,
    with_data: bool,
}

impl FollowQuery {
    /// Error: 400 unless it names one user or one channel; 403 for a channel of the server's own.
    fn read(incoming: &Incoming<'_, '_>) -> Result<Self, Reject> {
        let (mut user, mut channel, mut with_data) = (None, None, false);
        for pair in incoming.parameters() {
            let (name, value) = pair?;
            match &*name {
                "user" if user.is_none() => user = Some(value),
                "channel" if channel.is_none() => channel = Some(value),
                "user" | "channel" => return Err(neither()),
                "data" => {
                    with_data = match &*value {
                        "true" => true,
                        "false" => false,
                        _ => return Err(Reject::new(400, "data is true or false")),
                    }
                }
                _ => {}
            }
        }
        let target = match (user, channel) {
            (Some(user), None) if !user.is_empty() => FollowTarget::User((*user).into()),
            (None, Some(name)) => {
                let channel = ChannelName::new(&name).map_err(EntryFault::Name)?;
                if channel.namespace() == Some(RESERVED) {
                    return Err(EntryFault::Closed(channel).into());
                }
                FollowTarget::Channel(channel)
            }
            _ => return Err(neither()),
        };
        Ok(Self { target, with_data })
    }
}

fn neither() -> Reject {
    Reject::new(400, "add one of ?user=NAME and ?channel=NAME")
}

/// Lets an operator follow, and writes the head of the answer. Error: 403 if its key is not for
/// that, 503 if too many follow.
pub(crate) fn follow(
    incoming: &Incoming<'_, '_>,
    cx: &mut Cx<'_>,
) -> Result<StreamSession, Reject> {
    check_draining(cx.shared)?;
    let FollowQuery { target, with_data } = FollowQuery::read(incoming)?;
    let (user, channel) = match &target {
        FollowTarget::User(user) => (&**user, None),
        FollowTarget::Channel(channel) => ("", Some(channel)),
    };
    may_touch(incoming.caller, channel, cx)?;
    if with_data {
        let path = incoming.request.path();
        may_call(incoming.caller, KeyRole::Admin, path, cx)?;
    }
    let object = channel.map_or("", ChannelName::as_str);
    let what = if with_data {
        "follow with data"
    } else {
        "follow"
    };
    let (object, user) = (object.to_owned(), user.to_owned());
    let feed = cx.shared.follow.begin(cx.id, target, with_data);
    let feed = feed.ok_or_else(|| {
        let sentence = format!("{FOLLOWERS_MAX} follow something already; end one of these");
        Reject::new(503, sentence)
    })?;
    cx.shared.notices.changed(what, &object, [&user, ""]);
    let origin = incoming.request.header("origin");
    write_stream_head(origin, StreamHead::of(false), cx);
    Ok(StreamSession::open(
        Framing::Sse,
        None,
        vec![(feed, None)],
        cx,
    ))
}
