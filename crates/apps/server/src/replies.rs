//! Surveys of the server API, asked of every shard, and this shard's own replies.

use throng_engine::{Conns, Kernel};
use throng_hub::ReplyTo;
use throng_session::{CloseReason, Event, NodeCount, Survey, SurveyReply, Transport};
use throng_types::{ConnId, Now, ShardId, Unsubscribe};

use crate::list::GatewayList;
use crate::outbox::Note;
use crate::shard::ShardApp;

impl<L: GatewayList> ShardApp<L> {
    /// Asks every shard, this one first.
    pub(crate) fn survey<K: Kernel>(
        &mut self,
        reply_to: ReplyTo,
        survey: Survey,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        let shards = self.outboxes.shards();
        let ticket = self.surveys.begin(reply_to, usize::from(shards));
        for shard in (0..shards).map(ShardId) {
            if shard != self.parts.shard {
                let survey = survey.clone();
                self.outboxes.push(shard, Note::Survey { ticket, survey });
            }
        }
        let reply = self.reply(survey, conns, now);
        self.surveyed(ticket, reply, conns);
    }

    pub(crate) fn surveyed<K: Kernel>(
        &mut self,
        ticket: u32,
        reply: SurveyReply,
        conns: &mut Conns<L::Session, K>,
    ) {
        if let Some((reply_to, replies)) = self.surveys.take(ticket, reply) {
            self.event(reply_to.conn, Event::Surveyed(replies), conns);
        }
    }

    /// This shard's reply.
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
