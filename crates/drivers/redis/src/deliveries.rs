//! Subscriptions and deliveries of this node's channels, and what is done about gaps.

use std::mem;
use std::sync::Arc;

use redis::Value;
use throng_broker::{Presence, Refusal, Reply, Ticket};
use throng_metrics::Counter;
use throng_redis_link::command;
use throng_remote::Questions;
use throng_remote::agent::{
    self, AUDITS_PER_S, Channel, Looked, Mode, REFILL_BYTES_MAX, REFILL_MAX, State, Status, Took,
};
use throng_types::{ChannelName, Position, Publication};

use crate::answer;
use crate::command::Script;
use crate::flight::{Flight, Wanted};
use crate::node::{FLIGHTS_MAX, Node};

/// Channels in one command.
const BATCH: usize = 512;
impl Node {
    /// A shard wants a channel.
    pub(crate) fn subscribe(
        &mut self,
        (lane, ticket): (u8, Ticket),
        name: &ChannelName,
        since: Option<Position>,
        presence: Option<Presence>,
    ) {
        self.serial += 1;
        let serial = self.serial;
        let channel = { &mut self.channels }.get_or_insert(name, || Channel::new(serial));
        channel.pending += 1;
        if channel.serial == serial && self.desk.options.of(name).retention.keeps() {
            self.audits.add(name, serial, self.desk.now_ms, false);
        }
        if !channel.is_subscribed {
            channel.is_subscribed = true;
            let there = self.keys.channel(name);
            let subscribe = self.target.verbs().subscribe.as_bytes();
            command(&mut self.desk.out, &[subscribe, there.as_bytes()]);
        }
        self.refill_if_deaf(name);
        if let Some(presence) = &presence {
            self.come(name, presence);
        }
        let wanted = Wanted {
            lane,
            ticket,
            channel: name.clone(),
            since,
            presence: presence.clone(),
        };
        self.look_for(wanted);
        if let Some(presence) = presence.filter(|presence| presence.is_announced) {
            self.tell_joined(name, &presence);
        }
    }

    /// Asks where the stream stands, behind the subscription.
    fn look_for(&mut self, wanted: Wanted) {
        let name = wanted.channel.clone();
        let options = self.desk.options.of(&name);
        if !options.retention.keeps() {
            return self.send(Flight::Subscribe(wanted), &[b"PING"]);
        }
        let reply = self.desk.options.reply;
        let (mode, since, most) = agent::wanted(&options, wanted.since, reply.publications_max);
        let bounds = (most, reply.bytes_max);
        self.look(Flight::Subscribe(wanted), &name, mode, since, bounds);
    }

    /// Redis has said where the stream stands: the subscription begins there.
    pub(crate) fn subscribed(&mut self, wanted: Wanted, value: &Value) -> bool {
        let options = self.desk.options.of(&wanted.channel);
        let looked = answer::looked(value, &wanted.channel);
        if options.retention.keeps() && looked.is_none() {
            return false;
        }
        let looked = looked.filter(|_| options.retention.keeps());
        let result = self
            .desk
            .subscribed(&wanted.channel, &options, wanted.since, looked);
        let Some(channel) = self.channels.get_mut(&wanted.channel) else {
            return true;
        };
        match channel.state {
            // Another shard has yet to say what its subscribers have.
            State::Arriving => {
                self.look_for(wanted);
                return true;
            }
            State::Joining => {
                channel.state = State::Live;
                channel.top = result.position;
            }
            State::Live if channel.top == result.position => {}
            // What the other shards have ends elsewhere: first they get what they lack.
            State::Live | State::Deaf => {
                channel.state = State::Deaf;
                self.refill_if_deaf(&wanted.channel);
                self.look_for(wanted);
                return true;
            }
        }
        channel.pending -= 1;
        channel.interest |= 1 << wanted.lane;
        let (ticket, result) = (wanted.ticket, Ok(result));
        self.desk
            .leave(wanted.lane, Reply::Subscribed { ticket, result });
        true
    }

    /// Redis refused to say where the stream stands.
    pub(crate) fn not_subscribed(&mut self, wanted: &Wanted) {
        let ticket = wanted.ticket;
        let result = Err(Refusal::Unavailable);
        if let Some(presence) = &wanted.presence {
            self.quit(&wanted.channel, presence);
        }
        self.desk
            .leave(wanted.lane, Reply::Subscribed { ticket, result });
        if let Some(channel) = self.channels.get_mut(&wanted.channel) {
            channel.pending -= 1;
        }
        self.release(&wanted.channel);
    }

    /// A shard wants a channel no more.
    pub(crate) fn shard_left(&mut self, lane: u8, name: &ChannelName) {
        if let Some(channel) = self.channels.get_mut(name) {
            channel.interest &= !(1 << lane);
        }
        self.release(name);
    }

    /// Forgets a channel that no shard wants.
    fn release(&mut self, name: &ChannelName) {
        let Some(key) = self.channels.key(name) else {
            return;
        };
        let Some((_, channel)) = self.channels.at(key) else {
            return;
        };
        if !channel.is_unwanted() {
            return;
        }
        let is_empty = channel.top.is_some_and(|top| top.offset == 0);
        if channel.is_subscribed {
            let there = self.keys.channel(name);
            let unsubscribe = self.target.verbs().unsubscribe.as_bytes();
            command(&mut self.desk.out, &[unsubscribe, there.as_bytes()]);
            if is_empty {
                let [_, _, clock, keep] = self.stream_args();
                let (meta, empty) = (self.keys.meta(name), self.empty_ms());
                let args = [&*clock, &keep, &empty].map(str::as_bytes);
                self.call(Flight::Nothing, Script::Release, &[&meta, &there], &args);
            }
        }
        self.channels.remove(key);
    }

    // ---- deliveries ----

    /// Takes a message of any channel.
    pub(crate) fn message(&mut self, data: &[Value]) {
        let [name, body, ..] = data else { return };
        let (Some(there), Some(body)) = (answer::text(name), answer::bytes(body)) else {
            return;
        };
        let Some(name) = self.keys.channel_of(there) else {
            let own = self
                .link
                .as_ref()
                .map(|link| self.keys.probe(&link.incarnation));
            match body {
                b"" if own.as_deref() == Some(there) => self.proved_at_ms = self.desk.now_ms,
                _ if own.as_deref() == Some(there) => {
                    self.questions.hear_answer(body, &mut self.desk)
                }
                _ if self.keys.everybody() == there => {
                    if self.desk.hear_cut(body) {
                        return;
                    }
                    let own = self.link.as_ref().map_or("", |link| &link.incarnation);
                    Questions::hear_question(own, body, &mut self.desk);
                }
                _ if { self.name.as_ref() }.is_some_and(|it| self.keys.named(it) == there) => {
                    let own = self.link.as_ref().map_or("", |link| &link.incarnation);
                    Questions::hear_question(own, body, &mut self.desk);
                }
                _ => {}
            }
            return;
        };
        // A name of ours that is longer than clients' may be is a gateway's.
        let Ok(name) = ChannelName::with_bound(name, usize::MAX) else {
            return;
        };
        match answer::message(&name, body, self.desk.unix_ms) {
            Some(publication) => self.delivered(publication.shared()),
            None => self.gap(&name),
        }
    }

    fn delivered(&mut self, publication: Arc<Publication>) {
        if publication.position.is_none() && self.desk.arrival.is_before_cut() {
            return;
        }
        let name = &publication.channel;
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        let interest = channel.interest;
        let top = channel.top;
        match channel.took(&publication) {
            Took::Next => {}
            Took::Known => return,
            Took::Gap => return self.gap(&name.clone()),
            Took::Strange(why) => {
                if let Some(first) = publication.position {
                    self.desk.doubt_from(name, why, first, top, interest);
                }
                return;
            }
        }
        self.desk
            .leave_all(interest, || Reply::Delivery(publication.clone()));
    }

    /// Something is missing before what came.
    fn gap(&mut self, name: &ChannelName) {
        let keeps = self.desk.options.of(name).retention.keeps();
        if let Some(channel) = self.channels.get_mut(name)
            && channel.state == State::Live
            && keeps
        {
            channel.state = State::Deaf;
            self.refill_if_deaf(name);
        }
    }

    /// Asks for what a deaf channel missed.
    fn refill_if_deaf(&mut self, name: &ChannelName) {
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        if channel.state != State::Deaf || channel.is_refilling {
            return;
        }
        channel.is_refilling = true;
        let (since, serial) = (channel.top, channel.serial);
        let flight = Flight::Refill(name.clone(), serial);
        self.look(
            flight,
            name,
            Mode::Since,
            since,
            (REFILL_MAX, REFILL_BYTES_MAX),
        );
    }

    /// What a deaf channel missed is here, or is lost.
    pub(crate) fn refilled(&mut self, name: &ChannelName, serial: u64, value: &Value) -> bool {
        let Some(looked) = answer::looked(value, name) else {
            return false;
        };
        let recovers = self.desk.options.of(name).recovery;
        let found = self.channels.get_mut(name);
        let Some(channel) = found.filter(|channel| channel.serial == serial) else {
            return true;
        };
        let Looked {
            position,
            status,
            publications,
        } = looked;
        let same_epoch = channel.top.is_some_and(|top| top.epoch == position.epoch);
        let shares = channel.take_shares();
        channel.state = State::Live;
        channel.is_refilling = false;
        channel.top = Some(position);
        let interest = channel.interest;
        if status == Status::Fits && (same_epoch || !recovers) {
            if !publications.is_empty() {
                self.desk.count(Counter::BrokerRefilled);
            }
            for publication in publications {
                if let Some(channel) = self.channels.get_mut(name)
                    && !channel.remember(&publication)
                    && let Some(first) = publication.position
                {
                    let why = "two contents for one position";
                    self.desk
                        .doubt_from(name, why, first, Some(position), interest);
                }
                let shards = shares.of(publication.position);
                self.desk
                    .leave_all(shards, || Reply::Delivery(publication.clone()));
            }
            if recovers && shares.strange != 0 {
                self.desk.count(Counter::BrokerBroken);
                self.desk
                    .leave_all(shares.strange, || Reply::Broken(name.clone()));
            }
        } else if recovers && interest != 0 {
            self.desk.count(Counter::BrokerBroken);
            self.desk
                .leave_all(interest, || Reply::Broken(name.clone()));
        }
        true
    }

    /// Redis refused: it is asked again with the next audit.
    pub(crate) fn not_refilled(&mut self, name: &ChannelName, serial: u64) {
        let found = self.channels.get_mut(name);
        if let Some(channel) = found.filter(|channel| channel.serial == serial) {
            channel.is_refilling = false;
        }
    }

    // ---- connections ----

    /// The connection is lost: nothing comes any more, and nobody knows what is missed.
    pub(crate) fn all_deaf(&mut self) {
        let names: Vec<ChannelName> = self.channels.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let keeps = self.desk.options.of(&name).retention.keeps();
            if let Some(channel) = self.channels.get_mut(&name) {
                channel.lost_connection(keeps);
            }
            self.release(&name);
        }
    }

    /// Subscribes to channels again, as far as there is room.
    pub(crate) fn subscribe_again(&mut self) {
        while !self.again.is_empty() && self.flights.len() < FLIGHTS_MAX / 2 {
            let mut batch = Vec::new();
            while batch.len() < BATCH
                && let Some(name) = self.again.pop_front()
            {
                batch.push(name);
            }
            let is_new = |name: &&ChannelName| {
                let channel = self.channels.get_mut(name);
                channel.is_some_and(|channel| !mem::replace(&mut channel.is_subscribed, true))
            };
            let new: Vec<&ChannelName> = batch.iter().filter(is_new).collect();
            let there: Vec<String> = new
                .into_iter()
                .map(|name| self.keys.channel(name))
                .collect();
            if !there.is_empty() {
                let names = there.iter().map(|name| name.as_bytes());
                let subscribe = self.target.verbs().subscribe.as_bytes();
                let parts: Vec<&[u8]> = [subscribe].into_iter().chain(names).collect();
                command(&mut self.desk.out, &parts);
            }
            for name in &batch {
                self.refill_if_deaf(name);
            }
        }
    }

    /// Looks whether channels have missed anything that no later publication would show, a few at
    /// a time. This also keeps their positions in Redis alive.
    pub(crate) fn audit(&mut self) {
        if self.desk.now_ms < self.due.audit_ms {
            return;
        }
        let now_ms = self.desk.now_ms;
        self.due.audit_ms = now_ms + 100;
        for _ in 0..AUDITS_PER_S.div_ceil(10) {
            let Some((name, serial)) = self.audits.next(now_ms) else {
                return;
            };
            let channel = self.channels.get(&name);
            let Some(channel) = channel.filter(|channel| channel.serial == serial) else {
                continue;
            };
            self.audits.add(&name, serial, now_ms, false);
            if channel.state == State::Deaf {
                self.refill_if_deaf(&name);
            } else if channel.top.is_some() {
                self.look(
                    Flight::Audit(name.clone(), serial),
                    &name,
                    Mode::Top,
                    None,
                    (0, 0),
                );
            }
        }
    }

    /// Where a stream stands: every publication up to there has come before this answer.
    pub(crate) fn audited(&mut self, name: &ChannelName, serial: u64, value: &Value) -> bool {
        let Some(looked) = answer::looked(value, name) else {
            return false;
        };
        let found = self.channels.get_mut(name);
        if let Some(channel) = found.filter(|channel| channel.serial == serial)
            && channel.top != Some(looked.position)
        {
            self.gap(name);
        }
        true
    }
}
