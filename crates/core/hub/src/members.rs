//! Who is a member of what: subscribing, joining, leaving.

use throng_broker::{Recovery, Refusal, Request, Subscribed, Ticket};
use throng_types::{ChannelName, ConnId, Now, Position};

use crate::channel::{Channel, Member};
use crate::hub::Pending;
use crate::subscriptions::{Entry, Place};
use crate::sweep::Newcomer;
use crate::{Answer, Asker, Format, Hub, Sink};

/// A wish to subscribe, as the session put it.
pub(crate) struct Wish {
    pub(crate) asker: Asker,
    pub(crate) name: ChannelName,
    pub(crate) format: Format,
    pub(crate) since: Option<Position>,
}

impl Hub {
    /// Subscribes a connection, at once where this shard knows where the stream stands, or by
    /// way of the channel's home.
    pub(crate) fn subscribe(&mut self, wish: Wish, now: Now, sink: &mut impl Sink) {
        if let Some(refusal) = self.refusal(&wish) {
            let result = Err(refusal);
            return sink.answer(
                wish.asker,
                Answer::Subscribed {
                    channel: wish.name,
                    result,
                },
            );
        }
        let home = self.home_of(&wish.name);
        let key = self.channels.key_or_insert(&wish.name, || Channel::NEW);
        let known = if home == self.options.shard {
            Some(self.home.subscribe(home, &wish.name, wish.since, now))
        } else {
            self.stands_at(key).filter(|_| wish.since.is_none())
        };
        if let Some(subscribed) = known {
            self.join(wish.asker.conn, key, wish.format, subscribed.position);
            let result = Ok(subscribed);
            return sink.answer(
                wish.asker,
                Answer::Subscribed {
                    channel: wish.name,
                    result,
                },
            );
        }
        if let Some(channel) = self.channels.at_mut(key) {
            channel.asked += 1;
        }
        let Wish {
            asker,
            name,
            format,
            since,
        } = wish;
        let ticket = self.pend(Pending::Subscribe {
            asker,
            channel: key,
            format,
        });
        let place = Place::Asked(ticket.0);
        self.subscriptions.add(
            asker.conn,
            Entry {
                channel: key,
                place,
            },
        );
        self.ask(
            home,
            Request::Subscribe {
                ticket,
                channel: name,
                since,
            },
        );
    }

    fn refusal(&self, wish: &Wish) -> Option<Refusal> {
        let home = self.home_of(&wish.name);
        let road_closed = home != self.options.shard && !self.links[home.index()].may_ask();
        if self.namespaces.find(&wish.name).is_none() {
            Some(Refusal::UnknownChannel)
        } else if self.is_subscribed(wish.asker.conn, &wish.name) {
            Some(Refusal::AlreadySubscribed)
        } else if self.subscription_count(wish.asker.conn) >= self.options.subscriptions_max {
            Some(Refusal::ChannelLimit)
        } else {
            (road_closed || wish.asker.conn.index() > Member::INDEX_MAX).then_some(Refusal::Busy)
        }
    }

    /// Where a remote channel's stream stands, if its deliveries reach this shard already:
    /// where the last one left it.
    fn stands_at(&self, key: u32) -> Option<Subscribed> {
        let (_, channel) = self.channels.at(key).filter(|(_, channel)| channel.live)?;
        Some(Subscribed {
            position: channel.position.get(),
            recovery: Recovery::NotAsked,
        })
    }

    /// Takes the home's answer to a subscribe.
    pub(crate) fn subscribed(
        &mut self,
        pending: (Asker, u32, Format),
        ticket: Ticket,
        result: Subscribed,
        now: Now,
        sink: &mut impl Sink,
    ) {
        let (asker, key, format) = pending;
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        channel.asked -= 1;
        channel.live = true;
        channel.position.set(result.position);
        let Some((name, _)) = self.channels.at(key) else {
            return;
        };
        let name = name.clone();
        if self.subscriptions.find(asker.conn, key) != Some(Place::Asked(ticket.0)) {
            // It was taken back meanwhile. Who asked is told, if it is still there: every
            // command has an answer, and an opening waits for all of its channels.
            let answer = Answer::Subscribed {
                channel: name,
                result: Err(Refusal::TakenBack),
            };
            sink.answer(asker, answer);
            return self.release_if_unused(key, now);
        }
        self.subscriptions.remove(asker.conn, key);
        self.join(asker.conn, key, format, result.position);
        sink.answer(
            asker,
            Answer::Subscribed {
                channel: name,
                result: Ok(result),
            },
        );
    }

    /// Makes a connection a member from now on.
    fn join(&mut self, conn: ConnId, key: u32, format: Format, position: Option<Position>) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        channel.live = true;
        channel.position.set(position);
        let member = Member::new(conn.index(), format);
        let place = match self.sweeps.get_mut(channel.sweep) {
            Some(sweep) => {
                let mark = sweep.next_number();
                sweep.newcomers.push(Newcomer { member, mark });
                Place::Newcomer
            }
            None => {
                channel.members.push(member);
                Place::Member(channel.members.len() - 1)
            }
        };
        self.subscriptions.add(
            conn,
            Entry {
                channel: key,
                place,
            },
        );
    }

    /// Takes a connection out of a channel after its entry was taken out of the subscriptions.
    pub(crate) fn detach(&mut self, conn: ConnId, entry: Entry, now: Now) {
        let Some(channel) = self.channels.at_mut(entry.channel) else {
            return;
        };
        match entry.place {
            // The answer will find that nobody waits for it.
            Place::Asked(_) => return,
            Place::Newcomer => {
                if let Some(sweep) = self.sweeps.get_mut(channel.sweep) {
                    sweep
                        .newcomers
                        .retain(|newcomer| newcomer.member.index() != conn.index());
                }
            }
            Place::Member(at) => self.remove_member(entry.channel, at),
        }
        self.release_if_unused(entry.channel, now);
    }

    /// Removes the member at a place. Others move up so that, during a sweep, those who
    /// stand side by side still have the same.
    fn remove_member(&mut self, key: u32, at: u32) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        let last = channel.members.len() - 1;
        let moves = match self.sweeps.get_mut(channel.sweep) {
            Some(sweep) => sweep.remove(at),
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
