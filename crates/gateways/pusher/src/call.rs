//! A call whose answer needs all shards: channels with their subscribers, or an event whose sender
//! asks for them.

use std::collections::BTreeMap;

use throng_broker::Draft;
use throng_pusher::api::{ChannelInfo, InfoAttributes, batch_answer, channels_answer};
use throng_session::{
    Event, Exchange, Flow, Incoming, NodeReply, Publications, Survey, SurveyReply, publish_all,
    respond_json,
};
use throng_types::{ChannelName, End};

use crate::refusal::{answer_error, refused};
use crate::{Cx, forms};

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
    /// Channels of one event.
    Event {
        channels: Vec<String>,
        info: InfoAttributes,
    },
    /// Each event of a batch.
    Batch(Vec<(String, InfoAttributes)>),
}

/// A call that waits. The connection takes requests again once it is answered.
pub struct WaitingCall {
    exchange: Exchange,
    /// Id of the app.
    app: Box<str>,
    content: AnswerContent,
    publications: Publications,
    /// Subscribers of the app's channels, by the app's names, once all shards have replied.
    counts: Option<BTreeMap<String, u32>>,
}

impl WaitingCall {
    /// Publishes the drafts, and asks all shards.
    pub(crate) fn open(
        incoming: &Incoming<'_, '_>,
        (app, content): (&str, AnswerContent),
        drafts: Vec<Draft>,
        cx: &mut Cx<'_>,
    ) -> Self {
        cx.set_deadline(None);
        let publications = Publications::new(drafts.len());
        if !drafts.is_empty() {
            publish_all(0, drafts, cx);
        }
        cx.survey(Survey::Channels);
        Self {
            exchange: Exchange::new(incoming),
            app: app.into(),
            content,
            publications,
            counts: None,
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.exchange.keep_behind_api_call(input, cx),
            Event::Answer { token, answer } => self.publications.take(token, &answer),
            Event::Surveyed(replies) => match SurveyReply::split(replies) {
                (own, Some(others)) => self.counted(own, others),
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

    fn counted(&mut self, own: Vec<SurveyReply>, others: Vec<NodeReply>) {
        let app = &*self.app;
        let is_own = |name: &str| forms::is_of_app(name, app);
        let channels = SurveyReply::sum_channels((own, others), is_own);
        let own_name =
            |(channel, count): (ChannelName, u32)| (forms::own_name(&channel).to_owned(), count);
        self.counts = Some(channels.into_iter().map(own_name).collect());
    }

    /// Answers, once all is known.
    fn answer(&mut self, cx: &mut Cx<'_>) -> Flow {
        let (Some(counts), Some(results)) = (&self.counts, self.publications.all()) else {
            return Flow::Stay;
        };
        let keep_alive = self.exchange.keep_alive;
        match results.into_iter().find_map(Result::err) {
            Some(refusal) => {
                answer_error(refused(refusal), keep_alive, cx);
            }
            None => {
                let mut body = Vec::new();
                write(&self.content, counts, &mut body);
                respond_json(200, &body, keep_alive, cx);
            }
        }
        self.exchange.done(cx)
    }
}

fn write(content: &AnswerContent, counts: &BTreeMap<String, u32>, out: &mut Vec<u8>) {
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    let fact = |name: &str, info: InfoAttributes| ChannelInfo {
        subscription_count: info.subscription_count.then(|| count(name).into()),
        ..ChannelInfo::default()
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
