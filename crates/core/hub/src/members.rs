//! Membership: subscribing, joining, leaving.

use throng_broker::{Presence, Recovery, Refusal, Request, Subscribed};
use throng_types::{ChannelName, ConnId, Position};

use crate::channel::{Channel, Member};
use crate::fanout::Joining;
use crate::local::Local;
use crate::local::Waiting;
use crate::subscriptions::{Entry, Place};
use crate::{Answer, Command, Format, ReplyTo, Sink};

/// Subscription requested by a session.
pub(crate) struct NewSubscription {
    pub(crate) reply_to: ReplyTo,
    pub(crate) channel: ChannelName,
    pub(crate) format: Format,
    pub(crate) since: Option<Position>,
    pub(crate) presence: Option<Presence>,
}

impl Local {
    /// Connection and channel whose earlier command waits for the broker, so that this one must
    /// wait, too. `None` if it can be carried out now.
    #[inline]
    pub(crate) fn waits_for(&self, command: &Command) -> Option<(ConnId, u32)> {
        let (conn, channel) = match command {
            Command::Subscribe {
                reply_to, channel, ..
            } => (reply_to.conn, channel),
            Command::Unsubscribe {
                conn,
                channel,
                token: Some(_),
            } => (*conn, channel),
            _ => return None,
        };
        let key = self.channels.key(channel)?;
        let is_asked = matches!(self.subscriptions.find(conn, key), Some(Place::Asked(_)));
        (is_asked || self.deferred.has(conn, key)).then_some((conn, key))
    }

    /// Subscribes a connection, at once if this shard knows the stream's position. Otherwise
    /// returns the request for the broker.
    pub(crate) fn subscribe(
        &mut self,
        wanted: NewSubscription,
        sink: &mut impl Sink,
    ) -> Option<Request> {
        if let Some(refusal) = self.refusal(&wanted) {
            let (reply_to, channel, result) = (wanted.reply_to, wanted.channel, Err(refusal));
            sink.answer(reply_to, Answer::Subscribed { channel, result });
            return None;
        }
        let NewSubscription {
            reply_to,
            channel,
            format,
            since,
            presence,
        } = wanted;
        let conn = reply_to.conn;
        self.shard = conn.shard();
        let key = self.channels.key_or_insert(&channel, || Channel::NEW);
        if since.is_none()
            && presence.is_none()
            && let Some(subscribed) = self.known_position(key)
        {
            let place = self.join(conn, key, format);
            self.subscriptions.add(
                conn,
                Entry {
                    channel: key,
                    place,
                },
            );
            let result = Ok(subscribed);
            sink.answer(reply_to, Answer::Subscribed { channel, result });
            return None;
        }
        if let Some(channel) = self.channels.at_mut(key) {
            channel.asked.ask();
        }
        let ticket = self.waiting.insert(Waiting::Subscribe {
            reply_to,
            channel: key,
            format,
        });
        if let Some(presence) = &presence {
            self.present.insert((conn, key), presence.clone());
        }
        let place = Place::Asked(ticket.0);
        self.subscriptions.add(
            conn,
            Entry {
                channel: key,
                place,
            },
        );
        Some(Request::Subscribe {
            ticket,
            channel,
            since,
            presence,
        })
    }

    fn refusal(&self, wanted: &NewSubscription) -> Option<Refusal> {
        let conn = wanted.reply_to.conn;
        if self.options.namespaces.find(&wanted.channel).is_none() {
            Some(Refusal::UnknownChannel)
        } else if self.is_subscribed(conn, &wanted.channel) {
            Some(Refusal::AlreadySubscribed)
        } else if self.subscriptions.of(conn).len() >= self.options.subscriptions_max {
            Some(Refusal::ChannelLimit)
        } else {
            (conn.index() > Member::INDEX_MAX).then_some(Refusal::Busy)
        }
    }

    /// Position of a channel's stream after its last delivery, if deliveries reach this shard
    /// already.
    fn known_position(&self, key: u32) -> Option<Subscribed> {
        let (_, channel) = self
            .channels
            .at(key)
            .filter(|(_, channel)| channel.asked.is_live())?;
        Some(Subscribed {
            position: channel.position.get(),
            recovery: Recovery::NotAsked,
        })
    }

    /// Makes a connection a member from now on; returns its place.
    pub(crate) fn join(&mut self, conn: ConnId, key: u32, format: Format) -> Place {
        let member = Member::new(conn.index(), format);
        let Some(channel) = self.channels.at_mut(key) else {
            return Place::Joining;
        };
        match self.fanouts.get_mut(channel.fanout) {
            Some(fanout) => {
                let mark = fanout.next_number();
                fanout.joining.push(Joining { member, mark });
                Place::Joining
            }
            None => {
                channel.members.push(member);
                Place::Member(channel.members.len() - 1)
            }
        }
    }

    /// Ends the subscriptions of a channel whose deliveries have a gap. Drops what still waits for
    /// its members: they come back from the position that they have.
    pub(crate) fn broken(&mut self, name: &ChannelName, sink: &mut impl Sink) {
        let Some(key) = self.channels.key(name) else {
            return;
        };
        let Some((_, channel)) = self.channels.at(key) else {
            return;
        };
        let joining = self.fanouts.get(channel.fanout).into_iter();
        let joining = joining.flat_map(|fanout| fanout.joining.iter().map(|it| it.member));
        let members = channel.members.as_slice().iter().copied().chain(joining);
        let conns: Vec<ConnId> = members
            .filter_map(|member| self.subscriptions.conn_at(member.index(), self.shard))
            .collect();
        for conn in conns {
            if let Some(entry) = self.subscriptions.remove(conn, key) {
                self.detach(conn, entry);
                sink.lost(conn, name);
            }
        }
    }

    /// Queues a quit for a member that came with presence.
    fn quit(&mut self, conn: ConnId, key: u32) {
        if self.present.is_empty() {
            return;
        }
        if let Some(presence) = self.present.remove(&(conn, key))
            && let Some((name, _)) = self.channels.at(key)
        {
            let channel = name.clone();
            self.farewells.push(Request::Quit { channel, presence });
        }
    }

    /// Takes a connection out of a channel after its entry was taken out of the subscriptions.
    pub(crate) fn detach(&mut self, conn: ConnId, entry: Entry) {
        self.quit(conn, entry.channel);
        let Some(channel) = self.channels.at_mut(entry.channel) else {
            return;
        };
        match entry.place {
            // The reply will find no subscription.
            Place::Asked(_) => return,
            Place::Joining => {
                if let Some(fanout) = self.fanouts.get_mut(channel.fanout) {
                    fanout
                        .joining
                        .retain(|joining| joining.member.index() != conn.index());
                }
            }
            Place::Member(at) => self.remove_member(entry.channel, at),
        }
        self.release_if_unused(entry.channel);
    }

    /// Removes the member at a place. Others move up so that, during a fan-out, neighbours still
    /// have the same mark.
    pub(crate) fn remove_member(&mut self, key: u32, at: u32) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        let last = channel.members.len() - 1;
        let moves = match self.fanouts.get_mut(channel.fanout) {
            Some(fanout) => fanout.remove(at),
            None => vec![last],
        };
        let mut hole = at;
        for from in moves.into_iter().filter(|&from| from != at) {
            let members = channel.members.as_mut_slice();
            members.swap(hole as usize, from as usize);
            let moved = members[hole as usize].index();
            self.subscriptions
                .set_place(moved, key, Place::Member(hole));
            hole = from;
        }
        debug_assert_eq!(hole, last, "the hole ends up last");
        channel.members.pop();
    }
}
