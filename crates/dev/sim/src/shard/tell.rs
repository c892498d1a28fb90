//! A shard's answers to the server API's questions, and the gathering of all shards' answers.

use throng_hub::Asker;
use throng_session::{Farewell, NodeCount, Question, Session, Told, Transport};
use throng_types::{ConnId, Unsubscribe};

use super::{Gather, Note, Shard};
use crate::witness::Witness;

impl Shard {
    pub(super) fn ask(&mut self, asker: Asker, question: Question, witness: &mut Witness) {
        let ticket = self.gathers.insert(Gather {
            asker,
            told: Vec::new(),
        });
        for (to, notes) in self.notes.iter_mut().enumerate() {
            if to != self.id.index() {
                let question = question.clone();
                notes.push_back(Note::Ask { ticket, question });
            }
        }
        let told = self.tell(question, witness);
        self.told(ticket, told);
    }

    pub(super) fn told(&mut self, ticket: u32, told: Told) {
        let shards = self.notes.len();
        let gather = self
            .gathers
            .get_mut(ticket)
            .expect("a question is open until all have answered");
        gather.told.push(told);
        if gather.told.len() == shards
            && let Some(gather) = self.gathers.remove(ticket)
        {
            let (asker, desk) = (gather.asker, &self.desk);
            self.conns
                .with(asker.conn, &mut self.orders, |session, fx| {
                    session.told(asker.conn, gather.told, desk, fx);
                });
        }
    }

    pub(super) fn tell(&mut self, question: Question, witness: &mut Witness) -> Told {
        match question {
            Question::Channels { .. } => {
                let channels = self.hub.channels();
                Told::Channels(
                    channels
                        .map(|(name, count)| (name.clone(), count))
                        .collect(),
                )
            }
            Question::Count => Told::Count(self.count()),
            Question::Disconnect {
                user,
                client,
                code,
                reason,
                whitelist,
            } => {
                let spared: Vec<_> = whitelist
                    .iter()
                    .filter_map(|client| self.desk.node.conn_id(client))
                    .collect();
                let found = self
                    .find(&user, &client)
                    .into_iter()
                    .filter(|conn| !spared.contains(conn));
                let found: Vec<ConnId> = found.collect();
                let farewell = Farewell::Custom { code, reason };
                for &conn in &found {
                    self.farewell(conn, &farewell);
                }
                Told::Done(found.len() as u32)
            }
            Question::Unsubscribe {
                user,
                client,
                channel,
            } => {
                let mut count = 0;
                for conn in self.find(&user, &client) {
                    let channels = match &channel {
                        Some(channel) => vec![channel.clone()],
                        None => self.hub.channels_of(conn).cloned().collect(),
                    };
                    for channel in channels {
                        if self.hub.unsubscribe(conn, &channel, witness.now) {
                            count += 1;
                            witness.ends(conn, &channel);
                            self.conns.with(conn, &mut self.orders, |session, fx| {
                                session.unsubscribed(&channel, Unsubscribe::Server, fx);
                            });
                        }
                    }
                }
                Told::Done(count)
            }
        }
    }

    fn count(&self) -> NodeCount {
        let sessions = self
            .conns
            .sessions()
            .filter(|(_, session)| session.is_client());
        let clients = sessions
            .filter(|(_, session)| session.transport() != Transport::Http)
            .count();
        NodeCount {
            clients: clients as u32,
            users: Vec::new(),
            channels: self
                .hub
                .channels()
                .map(|(name, _)| name.stable_hash())
                .collect(),
            subscriptions: self.hub.stats().subscriptions as u32,
        }
    }

    fn find(&self, user: &str, client: &str) -> Vec<ConnId> {
        let is_user =
            |session: &Session| session.identity().map_or("", |identity| &identity.user) == user;
        if !client.is_empty() {
            let named = self
                .desk
                .node
                .conn_id(client)
                .filter(|conn| conn.shard() == self.id);
            let fits = |conn: &ConnId| {
                self.conns
                    .session(*conn)
                    .is_some_and(|session| user.is_empty() || is_user(session))
            };
            return named.filter(fits).into_iter().collect();
        }
        let theirs = self
            .conns
            .sessions()
            .filter(|(_, session)| session.is_client() && is_user(session));
        theirs.map(|(conn, _)| conn).collect()
    }

    pub(super) fn farewell(&mut self, conn: ConnId, farewell: &Farewell) {
        let desk = &self.desk;
        self.conns.with(conn, &mut self.orders, |session, fx| {
            session.farewell(farewell, desk, fx)
        });
    }
}
