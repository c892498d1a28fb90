//! Presence channels of one client.
//!
//! The users of a channel are counted before a client subscribes, and listed after that. News of
//! users that arrive before the list wait; those that the list does not show yet follow it.
//!
//! Invariant: a token of [`Joining`] is that of one subscription of the connection.

use std::sync::Arc;

use throng_broker::{Present, Refusal};
use throng_pusher::{CloseCode, SignedInUser, SubscriptionFailure};
use throng_session::Work;
use throng_session::encode::ws_text;
use throng_types::{ChannelName, Publication, PublicationKind, Publisher};

use crate::connection::PusherConnection;
use crate::forms::EVENTS;
use crate::membership::{
    Joining, Membership, NEWS_MAX, NotIn, SUBSCRIBE, Stage, as_user, ask, greet, over, refuse,
    subscribe, write_news,
};
use crate::refusal::sentence_of;
use crate::socket_id::socket_id;
use crate::{Cx, PusherApp, forms, names};

/// Users that one client watches at most; the rest of its list is ignored.
const WATCHED_MAX: usize = 100;

impl PusherConnection {
    /// Begins to make a client a member of a channel. One that is a member is listed the users
    /// again.
    pub(crate) fn come(&mut self, channel: ChannelName, who: Publisher, cx: &mut Cx<'_>) {
        let more = self.more.get_or_insert_default();
        let token = more.next_token();
        let known = { more.channels_mut() }.find(|known| known.channel == channel);
        let stage = match known {
            Some(_) => Stage::Listing,
            None => Stage::Counting,
        };
        let user = who.user.clone();
        let joining = Some(Box::new(Joining::new(token, stage, Arc::new(who))));
        match known {
            Some(known) => {
                if let Some(membership) = &mut known.membership {
                    membership.joining = joining;
                }
            }
            None => more.add(
                channel.clone(),
                Some(Box::new(Membership { user, joining })),
            ),
        }
        ask(token, channel, stage == Stage::Listing, cx);
    }

    /// Makes a user that has signed in online, and begins to watch those of its list.
    pub(crate) fn be_online(&mut self, app: &PusherApp, user: &SignedInUser, cx: &mut Cx<'_>) {
        let watched = { user.watchlist.iter().flatten() }.filter(|id| **id != user.id);
        for id in [&user.id].into_iter().chain(watched.take(WATCHED_MAX)) {
            let Some(channel) = forms::online_channel(app, id) else {
                continue;
            };
            if self.subscription(&channel).is_some() {
                continue;
            }
            if !self.ws.may(Work::Subscribe, cx) {
                return;
            }
            let format = cx.format(EVENTS);
            let more = self.more.get_or_insert_default();
            if *id == user.id {
                let who = Arc::new(Publisher {
                    client: socket_id(&cx.shared.node, cx.id).into(),
                    user: id.as_str().into(),
                    ..Publisher::default()
                });
                more.add(channel.clone(), None);
                cx.subscribe_as(SUBSCRIBE, channel, format, None, Some(as_user(who)));
                continue;
            }
            let token = more.next_token();
            let joining = Joining::new(token, Stage::Subscribing, Arc::default());
            let membership = Membership {
                user: Box::default(),
                joining: Some(Box::new(joining)),
            };
            more.add(channel.clone(), Some(Box::new(membership)));
            cx.subscribe_as(SUBSCRIBE, channel, format.with_news(), None, None);
        }
    }

    /// Takes an answer about the users of a channel.
    pub(crate) fn present(
        &mut self,
        token: u32,
        result: Result<Present, Refusal>,
        cx: &mut Cx<'_>,
    ) {
        let Some(users_max) = self.app(cx).map(|app| app.presence_members_max) else {
            return;
        };
        let found = self.channels_mut().filter_map(|known| {
            let membership = known.membership.as_mut()?;
            let joining = membership.joining.as_mut()?;
            (joining.token == token).then_some((&known.channel, &mut known.is_live, membership))
        });
        let Some((channel, is_live, membership)) = { found }.next() else {
            return;
        };
        let Some(joining) = membership.joining.as_mut() else {
            return;
        };
        let channel = channel.clone();
        let present = match result {
            Ok(present) => present,
            Err(Refusal::TooLong) => return self.refuse_full(&channel, cx),
            Err(refusal) => {
                let why = (SubscriptionFailure::ServerError, 503, sentence_of(refusal));
                return self.refuse_member(&channel, why, cx);
            }
        };
        match (joining.stage, &present.members) {
            (Stage::Counting, members) => {
                let is_there = |who: &Arc<Publisher>| who.user == joining.who.user;
                let is_known = members.as_ref().map(|all| all.iter().any(is_there));
                if present.users < users_max || is_known == Some(true) {
                    joining.stage = Stage::Subscribing;
                    let who = joining.who.clone();
                    subscribe(channel, Some(who), cx);
                } else if is_known.is_none() {
                    ask(token, channel, true, cx);
                } else {
                    self.refuse_full(&channel, cx);
                }
            }
            (Stage::Listing, Some(_)) if joining.is_stale => {
                joining.is_stale = false;
                joining.news.clear();
                ask(token, channel, true, cx);
            }
            (Stage::Listing, Some(members)) => {
                *is_live = true;
                if let Some(joining) = membership.joining.take() {
                    greet(&channel, *joining, members, cx);
                }
            }
            (Stage::Listing, None) => {
                *is_live = true;
                let news = membership
                    .joining
                    .take()
                    .and_then(|mut it| it.news.pop_last());
                if let Some(user) = forms::watched(&channel) {
                    let told = news.map(|(_, news)| news.told == PublicationKind::Joined);
                    let is_online = told.unwrap_or(present.users > 0);
                    ws_text(cx.out, |out| {
                        throng_pusher::watchlist_event(is_online, user, out)
                    });
                }
            }
            (Stage::Subscribing, _) => {}
        }
    }

    fn refuse_full(&mut self, channel: &ChannelName, cx: &mut Cx<'_>) {
        let why = "the channel has as many members as it may have";
        self.refuse_member(channel, over(CloseCode::OverCapacity, why), cx);
    }

    fn refuse_member(&mut self, channel: &ChannelName, why: NotIn, cx: &mut Cx<'_>) {
        if self.forget(channel, cx) {
            cx.unsubscribe(channel.clone());
        }
        refuse(names::own_name(channel), why, cx);
    }

    /// A user has come to a channel of this client, or left it.
    pub(crate) fn user_news(&mut self, news: &Arc<Publication>, cx: &mut Cx<'_>) {
        let mut channels = self.channels_mut();
        let known = channels.find(|known| known.channel == news.channel);
        let Some(membership) = known.and_then(|known| known.membership.as_mut()) else {
            return;
        };
        let Some(who) = &news.publisher else { return };
        // While it is here, its own user is.
        if who.user == membership.user {
            return;
        }
        match &mut membership.joining {
            None => write_news(news, cx),
            Some(joining) => {
                let has_room =
                    joining.news.len() < NEWS_MAX || joining.news.contains_key(&who.user);
                match has_room {
                    true => drop(joining.news.insert(who.user.clone(), news.clone())),
                    false => joining.is_stale = true,
                }
            }
        }
    }
}
