//! A call whose answer needs all shards: channels with their subscribers, or an event whose sender
//! asks for them.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::{Draft, HistoryPage, HistoryQuery, Present, Refusal};
use throng_hub::{Answer, Command};
use throng_pusher::ChannelKind;
use throng_pusher::api::{
    ChannelInfo, InfoAttributes, batch_answer, cached_event, channels_answer, users_answer,
};
use throng_session::{
    Event, Exchange, Flow, Incoming, NodeReply, Publications, Survey, SurveyReply, publish_all,
};
use throng_types::{ChannelName, End};

use crate::refusal::{Refused, answer, answer_error, refused};
use crate::{Cx, PusherApp, forms, names};

/// Beginning of the names of presence channels.
pub(crate) const PRESENCE: &str = "presence-";
/// Token of a question about one channel, which no publication of a call has.
const QUESTION: u32 = u32::MAX;

/// Content of an answer that needs all shards.
pub(crate) enum AnswerContent {
    /// All occupied channels of an app whose names begin so.
    Channels {
        prefix: String,
        info: InfoAttributes,
    },
    Channel {
        name: String,
        info: InfoAttributes,
    },
    /// Users of a presence channel, which the hub is asked for, and no shard.
    Users {
        name: String,
    },
    /// Channels of one event.
    Event {
        channels: Vec<String>,
        info: InfoAttributes,
    },
    /// Each event of a batch.
    Batch(Vec<(String, InfoAttributes)>),
}

/// A call whose answer waits for all shards. Its connection takes the next request once it is
/// answered.
pub struct WaitingCall {
    exchange: Exchange,
    /// Id of the app.
    app: Box<str>,
    content: AnswerContent,
    publications: Publications,
    /// Subscribers of the app's channels, by the app's names, once all shards have replied.
    counts: Option<BTreeMap<String, u32>>,
    /// Channels whose users are still to be asked for, or whose newest event if that is noted
    /// beside them, one after the other; the last is being asked for. Bound: the app's channels.
    to_ask: Vec<(String, bool)>,
    facts: Facts,
}

/// Facts about channels, which the hub has told.
#[derive(Default)]
struct Facts {
    /// Numbers of users by channel, or the users of the only one. Bound: the app's channels.
    users: BTreeMap<String, Present>,
    /// JSON about newest events by channel. Bound: the channels that a call names, with an event
    /// each.
    caches: BTreeMap<String, String>,
}

impl WaitingCall {
    /// Publishes the drafts, and asks all shards.
    pub(crate) fn open(
        incoming: &Incoming<'_, '_>,
        (app, content): (&PusherApp, AnswerContent),
        drafts: Vec<Draft>,
        cx: &mut Cx<'_>,
    ) -> Self {
        cx.set_deadline(None);
        let publications = Publications::new(drafts.len());
        if !drafts.is_empty() {
            publish_all(0, drafts, cx);
        }
        let mut call = Self {
            exchange: Exchange::new(incoming),
            app: app.id.clone(),
            content,
            publications,
            counts: None,
            to_ask: Vec::new(),
            facts: Facts::default(),
        };
        match &call.content {
            AnswerContent::Users { name } => {
                call.counts = Some(BTreeMap::new());
                call.to_ask = vec![(name.clone(), false)];
                call.ask(cx);
            }
            content => cx.survey(content.survey(app)),
        }
        call
    }

    /// Asks for the users of the next channel, or for its newest event.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let app = cx.own.by_id(&self.app).map(|(_, app)| app);
        while let Some((name, is_cache)) = self.to_ask.last() {
            if let Some(channel) = app.and_then(|app| hub_channel(app, name)) {
                let reply_to = cx.reply_to(QUESTION);
                return cx.hub(match is_cache {
                    true => Command::History {
                        reply_to,
                        channel,
                        query: HistoryQuery {
                            limit: Some(1),
                            since: None,
                            reverse: true,
                        },
                        only_subscribed: false,
                    },
                    false => Command::Present {
                        reply_to,
                        channel,
                        with_members: matches!(self.content, AnswerContent::Users { .. }),
                        only_subscribed: false,
                    },
                });
            }
            self.to_ask.pop();
        }
    }

    /// Takes the newest event of a channel; gives the reason if the call cannot be answered.
    fn take_cache(
        &mut self,
        result: Result<HistoryPage, Refusal>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let page = result.map_err(refused)?;
        let newest = page.publications.first().map(|newest| {
            let until = newest.time_unix_ms + names::CACHE_TTL_MS;
            let ttl_ms = until.saturating_sub(cx.now.unix_ms);
            (&*newest.payload.bytes, ttl_ms.div_ceil(1000))
        });
        if let Some((name, _)) = self.to_ask.pop() {
            self.facts.caches.insert(name, cached_event(newest));
        }
        self.ask(cx);
        Ok(())
    }

    /// Takes the users of a channel; gives the reason if the call cannot be answered.
    fn take_users(
        &mut self,
        result: Result<Present, Refusal>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        let present = result.map_err(|refusal| match refusal {
            Refusal::TooLong => (400, "the channel has too many members for a list").into(),
            refusal => refused(refusal),
        })?;
        if let Some((name, _)) = self.to_ask.pop() {
            self.facts.users.insert(name, present);
        }
        self.ask(cx);
        Ok(())
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.exchange.keep_behind_api_call(input, cx),
            Event::Answer {
                token: QUESTION,
                answer,
            } => {
                let taken = match answer {
                    Answer::Present { result } => self.take_users(result, cx),
                    Answer::History { result } => self.take_cache(result, cx),
                    _ => Ok(()),
                };
                if let Err(refused) = taken {
                    answer_error(refused, self.exchange.keep_alive, cx);
                    return self.exchange.done(cx);
                }
            }
            Event::Answer { token, answer } => self.publications.take(token, &answer),
            Event::Surveyed(replies) => match SurveyReply::split(replies) {
                (own, Some(others)) => self.counted(own, others, cx),
                // An answer that leaves a node out would pass for one of all.
                (_, None) => {
                    let why = "another node does not answer; try again in a moment";
                    answer_error((503, why), self.exchange.keep_alive, cx);
                    return self.exchange.done(cx);
                }
            },
            Event::Timeout => cx.end(End::Flush),
            // The answer still comes.
            Event::Close(_) => self.exchange.keep_alive = false,
            _ => {}
        }
        self.answer(cx)
    }

    fn counted(&mut self, own: Vec<SurveyReply>, others: Vec<NodeReply>, cx: &mut Cx<'_>) {
        let app = &*self.app;
        let is_own = |name: &str| forms::is_of_app(name, app);
        let channels = SurveyReply::sum_channels((own, others), is_own);
        let own_name =
            |(channel, count): (ChannelName, u32)| (names::own_name(&channel).to_owned(), count);
        let counts: BTreeMap<String, u32> = channels.into_iter().map(own_name).collect();
        let (mut users, mut caches) = (BTreeSet::new(), BTreeSet::new());
        if let AnswerContent::Channels { prefix, info } = &self.content
            && info.user_count
        {
            users.extend(counts.keys().filter(|name| name.starts_with(&**prefix)));
        }
        for (name, info) in self.content.named() {
            if info.user_count && counts.contains_key(name) {
                users.insert(name);
            }
            if info.cache && ChannelKind::of(name).is_some_and(|kind| kind.is_cache) {
                caches.insert(name);
            }
        }
        users.retain(|name| name.starts_with(PRESENCE));
        let with = |is_cache| move |name: &String| (name.clone(), is_cache);
        let users = users.into_iter().map(with(false));
        self.to_ask = users.chain(caches.into_iter().map(with(true))).collect();
        self.counts = Some(counts);
        self.ask(cx);
    }

    /// Answers, once all is known.
    fn answer(&mut self, cx: &mut Cx<'_>) -> Flow {
        let (Some(counts), Some(results)) = (&self.counts, self.publications.all()) else {
            return Flow::Stay;
        };
        if !self.to_ask.is_empty() {
            return Flow::Stay;
        }
        let mut body = Vec::new();
        write(&self.content, counts, &self.facts, &mut body);
        answer(&results, &body, self.exchange.keep_alive, cx);
        self.exchange.done(cx)
    }
}

/// The hub's name for a channel of an app; `None` if no channel has the name.
pub(crate) fn hub_channel(app: &PusherApp, name: &str) -> Option<ChannelName> {
    forms::hub_channel(app, name, ChannelKind::of(name)?)
}

impl AnswerContent {
    /// Question for the subscribers that the answer needs.
    fn survey(&self, app: &PusherApp) -> Survey {
        if matches!(self, Self::Channels { .. }) {
            return Survey::Channels;
        }
        // One that is named twice is counted once.
        let names: BTreeSet<ChannelName> = { self.named().into_iter() }
            .filter_map(|(name, _)| hub_channel(app, name))
            .collect();
        Survey::Subscribers(names.into_iter().collect())
    }

    /// Channels that the call names, and what it asks about each.
    fn named(&self) -> Vec<(&String, InfoAttributes)> {
        match self {
            Self::Channels { .. } => Vec::new(),
            Self::Channel { name, info } => vec![(name, *info)],
            Self::Users { name } => vec![(name, InfoAttributes::default())],
            Self::Event { channels, info } => channels.iter().map(|name| (name, *info)).collect(),
            Self::Batch(events) => events.iter().map(|(name, info)| (name, *info)).collect(),
        }
    }
}

fn write(
    content: &AnswerContent,
    counts: &BTreeMap<String, u32>,
    Facts { users, caches }: &Facts,
    out: &mut Vec<u8>,
) {
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    let user_count = |name: &str| users.get(name).map_or(0, |present| present.users);
    let fact = |name: &str, info: InfoAttributes| ChannelInfo {
        user_count: (info.user_count && name.starts_with(PRESENCE))
            .then(|| user_count(name).into()),
        subscription_count: info.subscription_count.then(|| count(name).into()),
        cache: { caches.get(name).filter(|_| info.cache) }.map(String::as_str),
        occupied: None,
    };
    match content {
        AnswerContent::Channels { prefix, info } => {
            let found = counts.keys().filter(|name| name.starts_with(&**prefix));
            channels_answer(found.map(|name| (&**name, fact(name, *info))), out);
        }
        AnswerContent::Channel { name, info } => {
            let occupied = Some(count(name) > 0);
            let info = ChannelInfo {
                occupied,
                ..fact(name, *info)
            };
            info.append(out);
        }
        AnswerContent::Users { name } => {
            let members = users.get(name).and_then(|present| present.members.as_ref());
            let members = members.into_iter().flatten();
            let ids: BTreeSet<&str> = members.map(|who| &*who.user).collect();
            users_answer(ids, out);
        }
        AnswerContent::Event { channels, info } => {
            channels_answer(
                channels.iter().map(|name| (&**name, fact(name, *info))),
                out,
            );
        }
        AnswerContent::Batch(events) => {
            let infos = events.iter().map(|(name, info)| fact(name, *info));
            batch_answer(&infos.collect::<Vec<_>>(), out);
        }
    }
}
