//! Permissions of a connection in a channel: the token decides first, then the channel's options.
//! Every transport of every gateway asks here, and nowhere else.
//!
//! With keys every channel is closed that nothing opens (Centrifugo, page "Channel permissions").
//! What opens one to a subscriber, the first that speaks decides:
//! 1. a token for this channel: a subscription token, or a connection token that names it;
//! 2. nothing else, where the name begins with `$`;
//! 3. the patterns of the connection token's claim `allow`, if it has the claim;
//! 4. `#` in the name, where the option `user_channels` is on: the users named after the last one;
//! 5. a backend, where the option `subscribe_proxy_enabled` is on;
//! 6. the options `anonymous_subscribe`, and `subscribe` for connections with a user.

use throng_auth::{Allow, Caller, ChannelPattern, KeyRole};
use throng_broker::{BackendId, ChannelOptions, PresenceOptions};
use throng_metrics::Counter;
use throng_types::ChannelName;

use crate::http::Reject;
use crate::{Context, Identity, Shared};

/// Channels of the server's own; clients have no business there.
pub const RESERVED: &str = "throng";

/// Decision on a request for a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Yes,
    /// This backend has to decide.
    Ask(BackendId),
    /// No configured namespace has the channel.
    UnknownChannel,
    /// The client lacks the permission.
    No,
}

/// Facts that a decision depends on.
struct Grounds<'a> {
    /// Kind of request, for the log.
    what: &'static str,
    options: &'a ChannelOptions,
    channel: &'a ChannelName,
    /// The user that the token names; empty for none.
    user: &'a str,
    /// Whether the token's own patterns cover the channel, if it has any.
    covered: Option<bool>,
    /// Whether the channel is closed to clients, whatever their tokens allow: the server's own
    /// channels, and those of gateways that alone decide on subscribers.
    is_closed: bool,
}

impl<'a> Grounds<'a> {
    /// None, which is recorded as a refusal, if the channel's namespace is not configured.
    /// `patterns` are those for this kind of request.
    fn find(
        what: &'static str,
        identity: Option<&'a Identity>,
        patterns: fn(&Allow) -> &[ChannelPattern],
        channel: &'a ChannelName,
        shared: &'a Shared,
    ) -> Option<Self> {
        let allow = identity.and_then(|identity| identity.allow.as_ref());
        let covers = |allow| {
            let mut patterns = patterns(allow).iter();
            patterns.any(|pattern| pattern.covers(channel.as_str()))
        };
        let is_closed = channel.namespace().is_some_and(|namespace| {
            namespace == RESERVED || shared.closed_namespaces.contains(&namespace)
        });
        let user = identity.map_or("", |identity| &identity.user);
        let Some(options) = shared.namespaces.find(channel) else {
            let why = "unknown namespace";
            shared.notices.refused(what, channel.as_str(), user, why);
            return None;
        };
        Some(Self {
            what,
            options,
            channel,
            user,
            covered: allow.map(covers),
            is_closed,
        })
    }

    /// Records a refusal for the log, followers and the dashboard.
    fn note_refused(&self, why: &str, shared: &Shared) {
        let channel = self.channel.as_str();
        shared.notices.refused(self.what, channel, self.user, why);
    }

    const fn has_user(&self) -> bool {
        !self.user.is_empty()
    }

    /// The backend that decides, unless clients have no business there.
    fn decides(&self, backend: Option<BackendId>) -> Option<BackendId> {
        backend.filter(|_| !self.is_closed)
    }

    /// Whether the channel needs a token that names it.
    fn needs_token(&self) -> bool {
        self.channel.as_str().starts_with('$')
    }

    /// Whether the channel's name lists the user; `None` if it lists none.
    fn is_named(&self) -> Option<bool> {
        let (_, users) = self.channel.as_str().rsplit_once('#')?;
        let is_named = || self.has_user() && users.split(',').any(|user| user == self.user);
        self.options.user_channels.then(is_named)
    }

    /// Decides by names and patterns; `None` leaves it to the options.
    fn by_name(&self) -> Option<bool> {
        match self.needs_token() {
            true => Some(false),
            false => self.covered.or_else(|| self.is_named()),
        }
    }
}

/// Returns the verdict, and records a refusal.
fn verdict(
    grounds: Option<Grounds<'_>>,
    shared: &Shared,
    is_open: impl FnOnce(&Grounds<'_>) -> bool,
) -> Verdict {
    match grounds {
        None => Verdict::UnknownChannel,
        Some(grounds) if !grounds.is_closed && is_open(&grounds) => Verdict::Yes,
        Some(grounds) => {
            grounds.note_refused("no permission", shared);
            Verdict::No
        }
    }
}

/// Decides whether a connection may subscribe. `proven` means that it sent a valid token for the
/// channel.
pub fn may_subscribe(
    identity: Option<&Identity>,
    channel: &ChannelName,
    proven: bool,
    shared: &Shared,
) -> Verdict {
    let grounds = Grounds::find("subscribe", identity, |it| &it.subscribe, channel, shared);
    if !proven
        && let Some(grounds) = grounds
            .as_ref()
            .filter(|grounds| grounds.by_name().is_none())
        && let Some(to) = grounds.decides(grounds.options.proxies.subscribe)
    {
        return Verdict::Ask(to);
    }
    verdict(grounds, shared, |grounds| {
        let options = grounds.options;
        let by_options = || options.anonymous_subscribe || grounds.has_user() && options.subscribe;
        proven || grounds.by_name().unwrap_or_else(by_options)
    })
}

/// Decides whether a connection may read a channel's history. Subscribers always may, since
/// recovery shows them the same; the hub knows the subscribers, so nobody is refused here for want
/// of a permission.
pub fn may_read_history(
    identity: Option<&Identity>,
    channel: &ChannelName,
    shared: &Shared,
) -> Sight {
    let grounds = Grounds::find("history", identity, |it| &it.subscribe, channel, shared);
    let Some(grounds) = grounds else {
        return Sight::UnknownChannel;
    };
    let options = grounds.options;
    if !options.retention.keeps() {
        grounds.note_refused("not available", shared);
        return Sight::NotAvailable;
    }
    let by_options = || options.history && (grounds.has_user() || options.anonymous_subscribe);
    match !grounds.is_closed && grounds.by_name().unwrap_or_else(by_options) {
        true => Sight::Yes,
        false => Sight::IfSubscribed,
    }
}

/// Permission to see a channel's history or presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Allowed without further checks.
    Yes,
    /// While it subscribes to the channel.
    IfSubscribed,
    UnknownChannel,
    /// There is no such list.
    NotAvailable,
    /// The client lacks the permission.
    No,
}

pub fn may_see_presence(
    identity: Option<&Identity>,
    channel: &ChannelName,
    shared: &Shared,
) -> Sight {
    let grounds = Grounds::find("presence", identity, |it| &it.subscribe, channel, shared);
    if let Some(grounds) = &grounds {
        let options = grounds.options.presence;
        if !options.is_listed {
            grounds.note_refused("not available", shared);
            return Sight::NotAvailable;
        }
        if options.for_subscriber {
            let by_option = !grounds.is_closed && sees(identity, options);
            return if by_option {
                Sight::Yes
            } else {
                Sight::IfSubscribed
            };
        }
    }
    let by_options = |grounds: &Grounds<'_>| sees(identity, grounds.options.presence);
    match verdict(grounds, shared, by_options) {
        Verdict::Yes => Sight::Yes,
        Verdict::UnknownChannel => Sight::UnknownChannel,
        Verdict::Ask(_) | Verdict::No => Sight::No,
    }
}

/// Whether the options let a connection see presence in channels that it does not subscribe to.
fn sees(identity: Option<&Identity>, options: PresenceOptions) -> bool {
    let has_user = identity.is_some_and(|identity| !identity.user.is_empty());
    options.for_client && (has_user || options.for_anonymous)
}

pub fn may_publish(identity: Option<&Identity>, channel: &ChannelName, shared: &Shared) -> Verdict {
    let grounds = Grounds::find("publish", identity, |it| &it.publish, channel, shared);
    let asked = { grounds.as_ref() }.and_then(|it| it.decides(it.options.proxies.publish));
    if let Some(to) = asked {
        return Verdict::Ask(to);
    }
    verdict(grounds, shared, |grounds| match grounds.covered {
        Some(covered) => covered,
        None if grounds.has_user() => grounds.options.publish,
        None => grounds.options.anonymous_publish,
    })
}

/// Decides whether a caller of the server API may make calls of a kind. Error: 403, which says for
/// which role the key has to be.
pub fn may_call<S, O>(
    caller: &Caller,
    role: KeyRole,
    path: &str,
    cx: &Context<'_, S, O>,
) -> Result<(), Reject> {
    match caller {
        Some(key) if !key.allows(role) => {
            let needed = role.word();
            let why = format!("the API key {:?} lacks the role {needed}", key.name);
            Err(beyond(path, why, cx))
        }
        _ => Ok(()),
    }
}

/// Decides whether a caller of the server API may touch a channel; `None` stands for all channels
/// at once. Error: 403, which says for which channels the key is.
pub fn may_touch<S, O>(
    caller: &Caller,
    channel: Option<&ChannelName>,
    cx: &Context<'_, S, O>,
) -> Result<(), Reject> {
    match caller {
        Some(key) if !key.covers(channel) => {
            let own = key.prefixes.join("…, ");
            let why = format!("the API key {:?} is for channels {own}… alone", key.name);
            Err(beyond(channel.map_or("", ChannelName::as_str), why, cx))
        }
        _ => Ok(()),
    }
}

fn beyond<S, O>(object: &str, why: String, cx: &Context<'_, S, O>) -> Reject {
    cx.count(Counter::AuthRole);
    cx.shared.notices.refused("request", object, "", &why);
    Reject::new(403, why)
}
