//! What a connection may do in a channel: its token's word first, then the channel's options.

use throng_broker::ChannelOptions;
use throng_types::ChannelName;

use crate::{Desk, Identity};

/// Channels of the server's own; clients have no business there.
pub(crate) const RESERVED: &str = "throng";

/// Whether clients have no business in a channel, whatever their tokens say: the server's own,
/// and those in which backends alone say who listens.
fn is_closed(channel: &ChannelName) -> bool {
    matches!(channel.namespace(), Some(RESERVED | crate::grip::NAMESPACE))
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    Yes,
    /// The namespace is not configured.
    UnknownChannel,
    /// Not this client.
    No,
}

fn options<'a>(channel: &ChannelName, desk: &'a Desk) -> Option<&'a ChannelOptions> {
    desk.namespaces.find(channel)
}

/// Whether a connection may subscribe. `proven` says that it brought a good token for the channel.
pub(crate) fn may_subscribe(
    identity: Option<&Identity>,
    channel: &ChannelName,
    proven: bool,
    desk: &Desk,
) -> Verdict {
    let Some(options) = options(channel, desk) else {
        return Verdict::UnknownChannel;
    };
    let user = identity.filter(|identity| !identity.user.is_empty());
    let allow = identity.and_then(|identity| identity.allow.as_ref());
    let covered = allow.map(|allow| {
        allow
            .subscribe
            .iter()
            .any(|pattern| pattern.covers(channel.as_str()))
    });
    let yes = match (proven, covered) {
        _ if is_closed(channel) => false,
        (true, _) | (_, Some(true)) => true,
        (_, Some(false)) => false,
        _ if options.subscribe_token => false,
        _ => user.is_some() || options.anonymous_subscribe,
    };
    if yes { Verdict::Yes } else { Verdict::No }
}

/// Whether a connection may publish.
pub(crate) fn may_publish(
    identity: Option<&Identity>,
    channel: &ChannelName,
    desk: &Desk,
) -> Verdict {
    let Some(options) = options(channel, desk) else {
        return Verdict::UnknownChannel;
    };
    let user = identity.filter(|identity| !identity.user.is_empty());
    let allow = identity.and_then(|identity| identity.allow.as_ref());
    let covered = allow.map(|allow| {
        allow
            .publish
            .iter()
            .any(|pattern| pattern.covers(channel.as_str()))
    });
    let yes = match covered {
        _ if is_closed(channel) => false,
        Some(covered) => covered,
        None if user.is_some() => options.publish,
        None => options.anonymous_publish,
    };
    if yes { Verdict::Yes } else { Verdict::No }
}
