//! Surveys of the server API, asked of every shard, and this shard's own replies.

use throng_engine::{Conns, Kernel};
use throng_hub::ReplyTo;
use throng_remote::{NodeEvent, Nodes};
use throng_session::{
    CloseReason, Event, NodeCount, NodeReply, Survey, SurveyReply, Transport, Wish, from_node,
    to_node,
};
use throng_types::{ConnId, Now, ShardId, Unsubscribe};

use crate::list::GatewayList;
use crate::outbox::Note;
use crate::shard::ShardApp;
use crate::surveys::Asked;

impl<L: GatewayList> ShardApp<L> {
    /// Asks every node and every shard, this one first.
    pub(crate) fn survey<K: Kernel>(
        &mut self,
        reply_to: ReplyTo,
        survey: Survey,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        if let Survey::Carry { node, .. } = &survey {
            return self.carry(reply_to, &node.clone(), &survey, conns);
        }
        self.survey_for(Asked::Here(reply_to), survey, conns, now);
    }

    /// Asks the one node that has a session; nobody else is concerned.
    fn carry<K: Kernel>(
        &mut self,
        reply_to: ReplyTo,
        node: &str,
        survey: &Survey,
        conns: &mut Conns<L::Session, K>,
    ) {
        let ticket = self.surveys.begin(Asked::Here(reply_to), 1);
        match &self.parts.nodes {
            Some(nodes) => nodes.ask_one(ticket, node, to_node(survey)),
            None => self.surveyed(ticket, SurveyReply::Elsewhere(Vec::new()), conns),
        }
    }

    fn survey_for<K: Kernel>(
        &mut self,
        asked: Asked,
        survey: Survey,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        if let Survey::Carry { session, .. } = &survey {
            let to = self.parts.shared.node.conn_of_session(session);
            let to = to.map_or(self.parts.shard, |conn| conn.shard());
            if to != self.parts.shard && to.0 < self.outboxes.shards() {
                let ticket = self.surveys.begin(asked, 1);
                return self.outboxes.push(to, Note::Survey { ticket, survey });
            }
            let ticket = self.surveys.begin(asked, 1);
            let reply = self.reply(survey, conns, now);
            return self.surveyed(ticket, reply, conns);
        }
        let shards = self.outboxes.shards();
        let nodes = self.parts.nodes.as_ref();
        let nodes = nodes.filter(|_| matches!(asked, Asked::Here(_)));
        // All other nodes count as one.
        let expected = usize::from(shards) + usize::from(nodes.is_some());
        let ticket = self.surveys.begin(asked, expected);
        if let Some(nodes) = nodes {
            nodes.ask(ticket, to_node(&survey));
        }
        for shard in (0..shards).map(ShardId) {
            if shard != self.parts.shard {
                let survey = survey.clone();
                self.outboxes.push(shard, Note::Survey { ticket, survey });
            }
        }
        let reply = self.reply(survey, conns, now);
        self.surveyed(ticket, reply, conns);
    }

    /// Takes what other nodes want or say.
    pub(crate) fn hear_nodes<K: Kernel>(&mut self, conns: &mut Conns<L::Session, K>, now: Now) {
        while let Some(event) = self.parts.nodes.as_ref().and_then(Nodes::next) {
            match event {
                // What cannot be read is of another version: no answer says so.
                NodeEvent::Asked(asker, question) => {
                    if let Some(survey) = from_node(&question) {
                        self.survey_for(Asked::Elsewhere(asker), survey, conns, now);
                    }
                }
                NodeEvent::Answered(ticket, answers) => {
                    let nodes = answers.and_then(|answers| {
                        let nodes = answers.iter().map(|answer| from_node(answer));
                        nodes.collect::<Option<Vec<_>>>()
                    });
                    let reply = nodes.map_or(SurveyReply::Unanswered, SurveyReply::Elsewhere);
                    self.surveyed(ticket, reply, conns);
                }
            }
        }
    }

    pub(crate) fn surveyed<K: Kernel>(
        &mut self,
        ticket: u32,
        reply: SurveyReply,
        conns: &mut Conns<L::Session, K>,
    ) {
        match self.surveys.take(ticket, reply) {
            Some((Asked::Here(reply_to), replies)) => {
                self.event(reply_to.conn, Event::Surveyed(replies), conns);
            }
            Some((Asked::Elsewhere(asker), replies)) => {
                let shared = &self.parts.shared;
                let uptime_ms = self.now.unix_ms.saturating_sub(shared.started_unix_ms);
                let reply = NodeReply {
                    uid: shared.node.name().into(),
                    version: shared.version.into(),
                    uptime_s: u32::try_from(uptime_ms / 1000).unwrap_or(u32::MAX),
                    replies,
                };
                if let Some(nodes) = &self.parts.nodes {
                    nodes.answer(asker, to_node(&reply));
                }
            }
            None => {}
        }
    }

    /// Returns this shard's reply to a survey.
    pub(crate) fn reply<K: Kernel>(
        &mut self,
        survey: Survey,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) -> SurveyReply {
        match survey {
            Survey::Channels => {
                let channels = self.parts.hub.channels();
                let channels = channels.map(|(name, count)| (name.clone(), count));
                SurveyReply::Channels(channels.collect())
            }
            Survey::Count => SurveyReply::Count(self.count(conns)),
            Survey::Find(search) => SurveyReply::Found(self.look_for(&search, conns)),
            Survey::Disconnect {
                user,
                client,
                code,
                reason,
                whitelist,
            } => {
                let node = self.parts.shared.node.clone();
                let spared = whitelist.iter();
                let spared: Vec<_> = spared.filter_map(|client| node.conn_id(client)).collect();
                let why = CloseReason::Custom { code, reason };
                let mut count = 0;
                for conn in self.find(&user, &client, conns) {
                    if !spared.contains(&conn) {
                        self.event(conn, Event::Close(&why), conns);
                        count += 1;
                    }
                }
                SurveyReply::Done(count)
            }
            Survey::Carry {
                node,
                session,
                data,
            } => {
                let own = &self.parts.shared.node;
                if own.name() != *node {
                    return SurveyReply::Done(0);
                }
                // As in Centrifugo, whether the session is still there is not told.
                let to = own.conn_of_session(&session);
                if let Some(to) = to.filter(|to| to.shard() == self.parts.shard) {
                    self.event(to, Event::Wished(&Wish::Hear(data)), conns);
                }
                SurveyReply::Done(1)
            }
            Survey::Wish { user, client, wish } => {
                let theirs = self.find(&user, &client, conns);
                for &conn in &theirs {
                    self.event(conn, Event::Wished(&wish), conns);
                }
                SurveyReply::Done(theirs.len() as u32)
            }
            Survey::Unsubscribe {
                user,
                client,
                channel,
            } => {
                let mut count = 0;
                for conn in self.find(&user, &client, conns) {
                    let channels = match &channel {
                        Some(channel) => vec![channel.clone()],
                        None => self.parts.hub.channels_of(conn).cloned().collect(),
                    };
                    for channel in channels {
                        if self.parts.hub.unsubscribe(conn, &channel, now) {
                            count += 1;
                            let (channel, why) = (&channel, Unsubscribe::Server);
                            self.event(conn, Event::Unsubscribed { channel, why }, conns);
                        }
                    }
                }
                SurveyReply::Done(count)
            }
        }
    }

    fn count<K: Kernel>(&self, conns: &Conns<L::Session, K>) -> NodeCount {
        let mut count = NodeCount::default();
        for (_, session) in conns.sessions() {
            let class = L::class(session);
            if !class.is_client || class.transport == Transport::Http {
                continue;
            }
            count.clients += 1;
            let user = class.identity.map_or("", |identity| &identity.user);
            if !user.is_empty() {
                count.users.push(hash(user));
            }
        }
        count.users.sort_unstable();
        count.users.dedup();
        let channels = self.parts.hub.channels();
        count.channels = channels.map(|(name, _)| name.stable_hash()).collect();
        count.subscriptions = self.parts.hub.stats().subscriptions as u32;
        count
    }

    /// The connections of a user, or the one with a public id.
    fn find<K: Kernel>(
        &self,
        user: &str,
        client: &str,
        conns: &Conns<L::Session, K>,
    ) -> Vec<ConnId> {
        let is_user = |session: &L::Session| {
            let identity = L::class(session).identity;
            identity.map_or("", |identity| &identity.user) == user
        };
        if !client.is_empty() {
            let named = self.parts.shared.node.conn_id(client);
            let named = named.filter(|conn| conn.shard() == self.parts.shard);
            let fits = |conn: &ConnId| {
                conns
                    .session(*conn)
                    .is_some_and(|session| user.is_empty() || is_user(session))
            };
            return named.filter(fits).into_iter().collect();
        }
        let theirs = conns
            .sessions()
            .filter(|(_, session)| L::class(session).is_client && is_user(session));
        theirs.map(|(conn, _)| conn).collect()
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    // The same on every shard of this process, which is all that counting needs.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
