//! The subscriptions that a connection begins with: those that its token names, and those that its
//! client names as it connects.
//!
//! Plain and unidirectional transports ask here, so that a token opens the same on all of them.
//! [`crate::may_subscribe`] decides each channel.

use throng_auth::{Claims, SubscriptionOptions, TokenFault};
use throng_broker::BackendId;
use throng_types::{ChannelError, ChannelName, ConnId, Now, Position};

use crate::permit::{Verdict, may_subscribe};
use crate::{Identity, Shared, check_token};

#[derive(Clone, Debug)]
pub struct InitialSubscription {
    pub channel: ChannelName,
    /// Where the client was.
    pub since: Option<Position>,
    pub options: SubscriptionOptions,
    /// When its own token ends it, in Unix seconds, if it has one: `Some(None)` for never.
    pub until: Option<Option<u64>>,
    /// The backend that decides about it, until it is asked.
    pub ask: Option<BackendId>,
}

impl InitialSubscription {
    /// Begins with the next publication, for as long as the connection is there.
    pub const fn new(channel: ChannelName, options: SubscriptionOptions) -> Self {
        Self {
            channel,
            since: None,
            options,
            until: None,
            ask: None,
        }
    }
}

/// A channel that a client names as it connects.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Name of the channel; `None` if the subscription token alone names it.
    pub channel: Option<&'a str>,
    pub token: &'a str,
    /// Where the client was.
    pub since: Option<Position>,
}

/// Reason why a connection cannot begin with the requested channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryFault {
    Name(ChannelError),
    /// More channels than a connection may have.
    TooMany(usize),
    Closed(ChannelName),
    Unknown(ChannelName),
    Token(TokenFault),
}

/// A good subscription token.
#[derive(Clone, Debug)]
pub struct Grant {
    pub channel: ChannelName,
    /// When the subscription ends, in Unix seconds; `None` for never.
    pub until: Option<u64>,
    pub options: SubscriptionOptions,
}

#[derive(Clone, Copy)]
pub struct Holder<'a> {
    /// Kept of its token.
    pub identity: Option<&'a Identity>,
    /// The connection. Its public id is made where a token names one.
    pub conn: ConnId,
}

impl Holder<'_> {
    /// Checks a subscription token for a channel, or for the one that it names itself. `None`:
    /// there is no token, or no key to check one with. Error: why it is not accepted; it is
    /// counted.
    pub fn check(
        &self,
        channel: Option<&ChannelName>,
        token: &str,
        shared: &Shared,
        now: Now,
    ) -> Result<Option<Grant>, TokenFault> {
        let Some(verifier) = shared.verifier.as_ref().filter(|_| !token.is_empty()) else {
            return Ok(None);
        };
        let user = self.identity.map_or("", |identity| &identity.user);
        let client = shared.node.client_id(self.conn);
        let check = |claims: Claims| {
            let named = claims.channel.as_deref().unwrap_or_default();
            let channel = match channel {
                Some(channel) => channel.clone(),
                None => ChannelName::new(named).map_err(|_| TokenFault::Purpose)?,
            };
            claims.check_subscription(channel.as_str(), user, client.as_str())?;
            Ok(Some(Grant {
                channel,
                until: claims.ends_at_unix_s(),
                options: SubscriptionOptions {
                    info: claims.info,
                    ..claims.options
                },
            }))
        };
        check_token(verifier, token, check, shared, now)
    }
}

/// The channels that a token subscribes its connection to. Error: [`EntryFault::Closed`] if one is
/// closed to clients, whatever their tokens say.
pub fn own_channels(
    claims: &Claims,
    shared: &Shared,
) -> Result<Vec<InitialSubscription>, EntryFault> {
    let wanted = |name: &str, options: SubscriptionOptions| {
        let channel = ChannelName::new(name).ok()?;
        Some(InitialSubscription::new(channel, options))
    };
    let mut all: Vec<InitialSubscription> = if claims.subs.is_empty() {
        let names = claims.channels.iter();
        { names.filter_map(|name| wanted(name, SubscriptionOptions::default())) }.collect()
    } else {
        let subs = claims.subs.iter();
        { subs.filter_map(|(name, options)| wanted(name, options.clone())) }.collect()
    };
    if shared.personal_channel && !claims.sub.is_empty() {
        let name = format!("#{}", claims.sub);
        all.extend(wanted(&name, SubscriptionOptions::default()));
    }
    all.sort_by(|a, b| a.channel.cmp(&b.channel));
    all.dedup_by(|a, b| a.channel == b.channel);
    let is_closed = |wanted: &&InitialSubscription| {
        may_subscribe(None, &wanted.channel, true, shared) == Verdict::No
    };
    match all.iter().find(is_closed) {
        Some(closed) => Err(EntryFault::Closed(closed.channel.clone())),
        None => Ok(all),
    }
}

/// The channels of a token, and those that the client names beside them. A backend decides about
/// those with [`InitialSubscription::ask`]. Error: the first thing that is wrong; the connection
/// then does not begin.
pub fn all_channels<'a>(
    claims: Option<&Claims>,
    named: impl Iterator<Item = Named<'a>> + Clone,
    holder: &Holder<'_>,
    shared: &Shared,
    now: Now,
) -> Result<Vec<InitialSubscription>, EntryFault> {
    let channels_max = shared.limits.channels_max;
    // Before anything is looked up: below, each channel is compared with all before it. One may be
    // there twice, by its name and by its token.
    let names = { named.clone() }.filter(|named| named.channel.is_some());
    let names = names.count();
    if names.max(named.clone().count() - names) > channels_max {
        return Err(EntryFault::TooMany(channels_max));
    }
    let own = claims.map(|claims| own_channels(claims, shared));
    let mut channels = own.transpose()?.unwrap_or_default();
    for Named {
        channel,
        token,
        since,
    } in named
    {
        let channel = channel.map(ChannelName::new).transpose();
        let channel = channel.map_err(EntryFault::Name)?;
        let is_it = |known: &&mut InitialSubscription| Some(&known.channel) == channel.as_ref();
        if let Some(known) = channels.iter_mut().find(is_it) {
            known.since = since.or(known.since);
            continue;
        }
        let grant = holder.check(channel.as_ref(), token, shared, now);
        let grant = grant.map_err(EntryFault::Token)?;
        let Some(channel) = channel.or_else(|| grant.as_ref().map(|grant| grant.channel.clone()))
        else {
            continue;
        };
        let ask = match may_subscribe(holder.identity, &channel, grant.is_some(), shared) {
            Verdict::Yes => None,
            Verdict::Ask(to) => Some(to),
            Verdict::No => return Err(EntryFault::Closed(channel)),
            Verdict::UnknownChannel => return Err(EntryFault::Unknown(channel)),
        };
        if channels.iter().any(|known| known.channel == channel) {
            continue;
        }
        let (until, options) = match grant {
            Some(grant) => (Some(grant.until), grant.options),
            None => (None, SubscriptionOptions::default()),
        };
        channels.push(InitialSubscription {
            channel,
            since,
            options,
            until,
            ask,
        });
    }
    match channels.len() > channels_max {
        true => Err(EntryFault::TooMany(channels_max)),
        false => Ok(channels),
    }
}

/// Notes in an identity when subscriptions with tokens of their own end.
pub fn note_ends(identity: &mut Option<Box<Identity>>, channels: &[InitialSubscription]) {
    for wanted in channels {
        if let Some(until) = wanted.until {
            let identity = identity.get_or_insert_default();
            identity.set_subscription_until(&wanted.channel, until);
        }
    }
}
