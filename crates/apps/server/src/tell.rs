//! A shard's answers to the server API's questions.

use throng_engine::{Conns, Kernel};
use throng_session::{Farewell, NodeCount, Question, Session, Told, Transport};
use throng_types::{ConnId, Now, Unsubscribe};

use crate::shard::ShardApp;
use crate::sink::act;

impl ShardApp {
    /// Answers a question for this shard.
    pub(crate) fn tell(
        &mut self,
        question: Question,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) -> Told {
        match question {
            Question::Channels { .. } => {
                // The asker knows the pattern; names are matched there, once.
                let channels = self.parts.hub.channels();
                Told::Channels(
                    channels
                        .map(|(name, count)| (name.clone(), count))
                        .collect(),
                )
            }
            Question::Count => Told::Count(self.count(conns)),
            Question::Disconnect {
                user,
                client,
                code,
                reason,
                whitelist,
            } => {
                let node = self.parts.desk.node;
                let found = self.find(&user, &client, conns);
                let spared: Vec<_> = whitelist
                    .iter()
                    .filter_map(|client| node.conn_id(client))
                    .collect();
                let farewell = Farewell::Custom { code, reason };
                let mut count = 0;
                for conn in found.into_iter().filter(|conn| !spared.contains(conn)) {
                    self.farewell(conn, &farewell, conns);
                    count += 1;
                }
                Told::Done(count)
            }
            Question::Unsubscribe {
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
                            let orders = &mut self.orders;
                            conns.with(conn, |session, effects| {
                                act(effects, orders, |fx| {
                                    session.unsubscribed(&channel, Unsubscribe::Server, fx);
                                });
                            });
                        }
                    }
                }
                Told::Done(count)
            }
        }
    }

    fn count(&self, conns: &Conns<Session, impl Kernel>) -> NodeCount {
        let mut count = NodeCount::default();
        for (_, session) in conns.sessions().filter(|(_, session)| session.is_client()) {
            if session.transport() == Transport::Http {
                continue;
            }
            count.clients += 1;
            if let Some(identity) = session
                .identity()
                .filter(|identity| !identity.user.is_empty())
            {
                count.users.push(hash(&identity.user));
            }
        }
        count.users.sort_unstable();
        count.users.dedup();
        count.channels = self
            .parts
            .hub
            .channels()
            .map(|(name, _)| name.stable_hash())
            .collect();
        count.subscriptions = self.parts.hub.stats().subscriptions as u32;
        count
    }

    /// The connections of a user, or the one with a public id.
    fn find(&self, user: &str, client: &str, conns: &Conns<Session, impl Kernel>) -> Vec<ConnId> {
        let is_user =
            |session: &Session| session.identity().map_or("", |identity| &identity.user) == user;
        if !client.is_empty() {
            let named = self.parts.desk.node.conn_id(client);
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
            .filter(|(_, session)| session.is_client() && is_user(session));
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
