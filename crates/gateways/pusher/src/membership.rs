//! Membership of a client in a presence channel, and what its client is told of users.

use std::collections::BTreeMap;
use std::sync::Arc;

use throng_broker::{Announced, ChannelMember, HookEvent, Recovery, Subscribed};
use throng_hub::Command;
use throng_pusher::{
    ChannelUser, CloseCode, SubscriptionFailure, member_added, member_removed, presence_succeeded,
    watchlist_event,
};
use throng_session::encode::ws_text;
use throng_types::{ChannelName, Position, Publication, PublicationKind, Publisher, Save};

use crate::forms::{self, EVENTS};
use crate::socket_id::socket_id;
use crate::{Cx, names};

/// Token of the subscribes of a client.
pub(crate) const SUBSCRIBE: u32 = 0;
/// The longest id of a user, in bytes.
const USER_ID_BYTES_MAX: usize = 128;
/// The longest JSON about a user, in bytes.
const USER_INFO_BYTES_MAX: usize = 2048;
/// Users of whom news wait for a list; with more, the list is asked for again.
pub(crate) const NEWS_MAX: usize = 1024;

/// Membership of a client in a presence channel, or its interest in whether a user is online.
#[derive(Save)]
pub(crate) struct Membership {
    /// Id of the user as which it is there; empty for one that only watches.
    pub(crate) user: Box<str>,
    /// Set until its client has the list of users; such a client does not move.
    #[save(skip)]
    pub(crate) joining: Option<Box<Joining>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The users of the channel are being counted.
    Counting,
    /// The hub has been asked for the subscription.
    Subscribing,
    /// The list of users is on its way.
    Listing,
}

pub(crate) struct Joining {
    /// Token of the question for users.
    pub(crate) token: u32,
    pub(crate) stage: Stage,
    pub(crate) who: Arc<Publisher>,
    /// Answer to the subscribe, with the newest event of a cache channel.
    pub(crate) newest: Option<Subscribed>,
    /// The newest of each user that came or went meanwhile. Bound: [`NEWS_MAX`].
    pub(crate) news: BTreeMap<Box<str>, Arc<Publication>>,
    /// News were left out, so that the list has to be asked for again.
    pub(crate) is_stale: bool,
}

impl Joining {
    pub(crate) const fn new(token: u32, stage: Stage, who: Arc<Publisher>) -> Self {
        Self {
            token,
            stage,
            who,
            newest: None,
            news: BTreeMap::new(),
            is_stale: false,
        }
    }

    /// The hub has subscribed the member: its client hears of it with the list.
    pub(crate) fn come_in(
        &mut self,
        channel: &ChannelName,
        newest: Option<Subscribed>,
        cx: &mut Cx<'_>,
    ) {
        (self.stage, self.newest) = (Stage::Listing, newest);
        let with_members = forms::watched(channel).is_none();
        ask(self.token, channel.clone(), with_members, cx);
    }
}

/// Reason why a client does not come to a channel.
pub(crate) type NotIn = (SubscriptionFailure, u16, &'static str);

/// Reason of a limit.
pub(crate) const fn over(code: CloseCode, why: &'static str) -> NotIn {
    (SubscriptionFailure::LimitReached, code.code(), why)
}

/// Tells a client that it does not come to a channel.
pub(crate) fn refuse(name: &str, (failure, status, why): NotIn, cx: &mut Cx<'_>) {
    ws_text(cx.out, |out| {
        throng_pusher::subscription_error(name, failure, why, status, out);
    });
}

/// Checks the size of what a client says of its user, and makes it a member.
pub(crate) fn member(user: ChannelUser, cx: &Cx<'_>) -> Result<Publisher, NotIn> {
    let over = |why| Err(over(CloseCode::ClientEvent, why));
    if user.user_id.len() > USER_ID_BYTES_MAX {
        return over("the id of the user is too long");
    }
    let info = user.user_info.map(String::into_boxed_str);
    if info.as_ref().map_or(0, |info| info.len()) > USER_INFO_BYTES_MAX {
        return over("the information about the user is too long");
    }
    Ok(Publisher {
        client: socket_id(&cx.shared.node, cx.id).into(),
        user: user.user_id.into(),
        conn_info: None,
        chan_info: info,
    })
}

pub(crate) fn ask(token: u32, channel: ChannelName, with_members: bool, cx: &mut Cx<'_>) {
    let reply_to = cx.reply_to(token);
    cx.hub(Command::Present {
        reply_to,
        channel,
        with_members,
        only_subscribed: false,
    });
}

/// A member that is announced with its user's first and last connection.
pub(crate) const fn as_user(who: Arc<Publisher>) -> ChannelMember {
    ChannelMember {
        who,
        is_listed: true,
        announced: Announced::Users,
    }
}

/// Asks the hub for a channel, as a member or to listen.
pub(crate) fn subscribe(channel: ChannelName, who: Option<Arc<Publisher>>, cx: &mut Cx<'_>) {
    let since = names::is_cache(&channel).then_some(Position::START);
    let format = match who {
        Some(_) => cx.format(EVENTS).with_news(),
        None => cx.format(EVENTS),
    };
    cx.subscribe_as(SUBSCRIBE, channel, format, since, who.map(as_user));
}

/// Gives a client the users of a channel that it has come to, and what it missed meanwhile.
pub(crate) fn greet(
    channel: &ChannelName,
    joining: Joining,
    members: &[Arc<Publisher>],
    cx: &mut Cx<'_>,
) {
    let name = names::own_name(channel);
    let members = members.iter().chain([&joining.who]);
    let users: BTreeMap<&str, Option<&str>> = members
        .map(|who| (&*who.user, who.chan_info.as_deref()))
        .collect();
    ws_text(cx.out, |out| {
        presence_succeeded(name, users.iter().map(|(id, info)| (*id, *info)), out);
    });
    if let Some(subscribed) = joining.newest {
        begin_with_cache(channel, subscribed, cx);
    }
    for (user, news) in &joining.news {
        let is_listed = users.contains_key(&**user);
        if is_listed != (news.told == PublicationKind::Joined) {
            write_news(news, cx);
        }
    }
}

pub(crate) fn write_news(news: &Publication, cx: &mut Cx<'_>) {
    let name = names::own_name(&news.channel);
    let Some(who) = &news.publisher else { return };
    if let Some(user) = forms::watched(&news.channel) {
        let is_online = news.told == PublicationKind::Joined;
        return ws_text(cx.out, |out| watchlist_event(is_online, user, out));
    }
    let info = who.chan_info.as_deref();
    ws_text(cx.out, |out| match news.told {
        PublicationKind::Joined => member_added(name, &who.user, info, out),
        _ => member_removed(name, &who.user, out),
    });
}

/// Writes the newest event of a channel, or that there is none.
pub(crate) fn begin_with_cache(channel: &ChannelName, subscribed: Subscribed, cx: &mut Cx<'_>) {
    let newest = match subscribed.recovery {
        Recovery::Whole(newest) => newest.into_iter().next_back(),
        Recovery::NotAsked | Recovery::Lost => None,
    };
    match newest {
        Some(newest) => forms::encode_for_one(&newest, cx.out),
        None => {
            let name = names::own_name(channel);
            ws_text(cx.out, |out| throng_pusher::cache_miss(name, out));
            if let Some(hooks) = &cx.shared.hooks {
                hooks.tell(HookEvent::CacheMiss {
                    channel: channel.clone(),
                    trace: cx.shared.client_traces.of(cx.id),
                });
            }
        }
    }
}
