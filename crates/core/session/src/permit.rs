//! What a connection may do in a channel: its token's word first, then the channel's options.

use throng_auth::{Allow, ChannelPattern};
use throng_broker::ChannelOptions;
use throng_types::ChannelName;

use crate::{Identity, Shared};

/// Channels of the server's own; clients have no business there.
pub const RESERVED: &str = "throng";

/// Whether clients have no business in a channel, whatever their tokens say: the server's own, and
/// those of gateways that alone say who subscribes.
fn is_closed(channel: &ChannelName, shared: &Shared) -> bool {
    channel.namespace().is_some_and(|namespace| {
        namespace == RESERVED || shared.closed_namespaces.contains(&namespace)
    })
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Yes,
    /// The namespace is not configured.
    UnknownChannel,
    /// Not this client.
    No,
}

/// What decides beside the wish itself.
struct Grounds<'a> {
    options: &'a ChannelOptions,
    /// Whether the token names a user.
    has_user: bool,
    /// Whether the token's own patterns cover the channel, if it has any.
    covered: Option<bool>,
}

impl<'a> Grounds<'a> {
    /// None if the channel's namespace is not configured. `patterns` are those of the wish.
    fn find(
        identity: Option<&Identity>,
        patterns: fn(&Allow) -> &[ChannelPattern],
        channel: &ChannelName,
        shared: &'a Shared,
    ) -> Option<Self> {
        let allow = identity.and_then(|identity| identity.allow.as_ref());
        let covers = |allow| {
            let mut patterns = patterns(allow).iter();
            patterns.any(|pattern| pattern.covers(channel.as_str()))
        };
        Some(Self {
            options: shared.namespaces.find(channel)?,
            has_user: identity.is_some_and(|identity| !identity.user.is_empty()),
            covered: allow.map(covers),
        })
    }
}

/// Whether a connection may subscribe. `proven` says that it brought a good token for the channel.
#[must_use]
pub fn may_subscribe(
    identity: Option<&Identity>,
    channel: &ChannelName,
    proven: bool,
    shared: &Shared,
) -> Verdict {
    let Some(grounds) = Grounds::find(identity, |allow| &allow.subscribe, channel, shared) else {
        return Verdict::UnknownChannel;
    };
    let yes = match (proven, grounds.covered) {
        _ if is_closed(channel, shared) => false,
        (true, _) | (_, Some(true)) => true,
        (_, Some(false)) => false,
        _ if grounds.options.subscribe_token => false,
        _ => grounds.has_user || grounds.options.anonymous_subscribe,
    };
    if yes { Verdict::Yes } else { Verdict::No }
}

/// Whether a connection may publish.
#[must_use]
pub fn may_publish(identity: Option<&Identity>, channel: &ChannelName, shared: &Shared) -> Verdict {
    let Some(grounds) = Grounds::find(identity, |allow| &allow.publish, channel, shared) else {
        return Verdict::UnknownChannel;
    };
    let yes = match grounds.covered {
        _ if is_closed(channel, shared) => false,
        Some(covered) => covered,
        None if grounds.has_user => grounds.options.publish,
        None => grounds.options.anonymous_publish,
    };
    if yes { Verdict::Yes } else { Verdict::No }
}
