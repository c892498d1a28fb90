//! Subscriptions and deliveries of this node's channels, and what is done about gaps.

use std::sync::Arc;

use throng_broker::{Presence, Refusal, Reply, Request, Ticket};
use throng_metrics::Counter;
use throng_nats_protocol::write;
use throng_remote::agent::{
    self, AUDITS_PER_S, Channel, Looked, Mode, REFILL_BYTES_MAX, REFILL_MAX, State, Status, Took,
};
use throng_types::{ChannelName, Position, Publication};

use crate::early::{Agent, Early, continue_to};
use crate::flight::{Then, Wanted};
use crate::link::Message;
use crate::node::Node;
use crate::record::Record;
use crate::stream::{Op, Purpose};
use crate::walk::Query;

impl Node {
    /// A shard wants a channel.
    pub(crate) fn subscribe(
        &mut self,
        (lane, ticket): (u8, Ticket),
        name: &ChannelName,
        since: Option<Position>,
        presence: Option<Presence>,
    ) {
        let serial = self.next_serial();
        let now_ms = self.desk.now_ms;
        let agent = self.channels.get_or_insert(name, || Agent {
            channel: Channel::new(serial),
            sid: 0,
            early: Early::default(),
        });
        agent.channel.pending += 1;
        let is_new = agent.channel.serial == serial;
        if !agent.channel.is_subscribed {
            self.join(name);
        }
        if is_new && self.keeps(name) {
            // Servers of a cluster learn of a subscription one after the other: a first look soon.
            let is_clustered = self.link.is_some_and(|link| link.is_clustered);
            self.audits.add(name, serial, now_ms, is_clustered);
        }
        let wanted = Wanted {
            lane,
            ticket,
            channel: name.clone(),
            since,
            presence,
            serial,
        };
        if wanted.presence.is_some() {
            return self.come(wanted);
        }
        self.look_for(wanted);
    }

    /// Subscribes to a channel on this connection.
    pub(crate) fn join(&mut self, name: &ChannelName) {
        let subject = self.names.channel(name, self.keeps(name));
        let sid = self.next_sid;
        self.next_sid += 1;
        if let Some(agent) = self.channels.get_mut(name) {
            agent.channel.is_subscribed = true;
            agent.sid = sid;
            self.sids.insert(sid, name.clone());
            write::subscribe(&mut self.desk.out, &subject, sid);
        }
    }

    /// Asks where the stream stands, behind the subscription.
    pub(crate) fn look_for(&mut self, wanted: Wanted) {
        let name = wanted.channel.clone();
        let options = self.desk.options.of(&name);
        if !options.retention.keeps() {
            self.behind.push(Then::Subscribed(wanted));
            return;
        }
        let reply = self.desk.options.reply;
        let (mode, since, limit) = agent::wanted(&options, wanted.since, reply.publications_max);
        let query = Query {
            mode,
            since,
            limit,
            bytes: reply.bytes_max,
        };
        self.refill_if_deaf(&name);
        self.enqueue(&name, Op::Look(Purpose::Subscribe(wanted), query));
    }

    /// NATS has said where the stream stands: the subscription begins there.
    pub(crate) fn subscribed(&mut self, wanted: Wanted, looked: Option<Looked>) {
        let options = self.desk.options.of(&wanted.channel);
        let mut result = self
            .desk
            .subscribed(&wanted.channel, &options, wanted.since, looked);
        let Some(agent) = self.channels.get_mut(&wanted.channel) else {
            return;
        };
        let channel = &mut agent.channel;
        let mut early = Vec::new();
        match (channel.state, channel.top.zip(result.position)) {
            // Another shard has yet to say what its subscribers have.
            (State::Arriving, _) => return self.look_for(wanted),
            (State::Joining, _) => {
                channel.state = State::Live;
                channel.top = result.position;
                early = result.position.map_or(early, |at| agent.early.behind(at));
            }
            (State::Live, None) => {}
            (State::Live, Some((top, here))) if top == here => {}
            // The other shards have more than the look has seen; so gets this one.
            (State::Live, Some((top, here)))
                if top.epoch == here.epoch && top.offset > here.offset =>
            {
                let more = agent.early.behind(here);
                if more.len() as u64 != top.offset - here.offset {
                    return self.look_for(wanted);
                }
                continue_to(&mut result, top, more, options.cache);
            }
            // What the other shards have ends elsewhere: first they get what they lack.
            (State::Live | State::Deaf, _) => {
                channel.state = State::Deaf;
                return self.look_for(wanted);
            }
        }
        channel.pending -= 1;
        channel.interest |= 1 << wanted.lane;
        let (ticket, result) = (wanted.ticket, Ok(result));
        self.desk
            .leave(wanted.lane, Reply::Subscribed { ticket, result });
        self.has_come(&wanted);
        self.go_on(&wanted.channel, early);
    }

    /// Delivers what had come before the answer that it follows.
    fn go_on(&mut self, name: &ChannelName, early: Vec<Arc<Publication>>) {
        for publication in early {
            self.delivered(publication);
        }
        if let Some(agent) = self.channels.get_mut(name)
            && agent.channel.state == State::Live
            && agent.channel.pending == 0
        {
            agent.early = Early::default();
        }
    }

    /// NATS did not say where the stream stands.
    pub(crate) fn not_subscribed(&mut self, wanted: Wanted, refusal: Refusal) {
        let ticket = wanted.ticket;
        let result = Err(refusal);
        self.desk
            .leave(wanted.lane, Reply::Subscribed { ticket, result });
        if let Some(agent) = self.channels.get_mut(&wanted.channel) {
            agent.channel.pending -= 1;
        }
        self.has_not_come(&wanted);
        self.release(&wanted.channel);
    }

    /// The connection broke before the answer: it is asked again on the next one.
    pub(crate) fn wait(&mut self, wanted: Wanted) {
        let until_ms = self.desk.now_ms + self.desk.options.timeout_ms;
        if let Some(agent) = self.channels.get_mut(&wanted.channel) {
            agent.channel.pending -= 1;
        }
        let presence = self.come_later(&wanted);
        let request = Request::Subscribe {
            ticket: wanted.ticket,
            channel: wanted.channel,
            since: wanted.since,
            presence,
        };
        self.waiting.push_back((until_ms, wanted.lane, request));
    }

    /// A shard wants a channel no more.
    pub(crate) fn shard_left(&mut self, lane: u8, name: &ChannelName) {
        if let Some(agent) = self.channels.get_mut(name) {
            agent.channel.interest &= !(1 << lane);
        }
        self.release(name);
    }

    /// Forgets a channel that no shard wants.
    pub(crate) fn release(&mut self, name: &ChannelName) {
        let Some(key) = self.channels.key(name) else {
            return;
        };
        let Some((_, agent)) = self.channels.at(key) else {
            return;
        };
        if !agent.channel.is_unwanted() {
            return;
        }
        if agent.channel.is_subscribed {
            self.sids.remove(&agent.sid);
            write::unsubscribe(&mut self.desk.out, agent.sid);
        }
        self.channels.remove(key);
    }

    // ---- deliveries ----

    /// Takes a message of a channel.
    pub(crate) fn channel_message(&mut self, message: &Message) {
        let Some(name) = self.sids.get(&message.sid).cloned() else {
            return;
        };
        let record = Record::decode(&message.payload);
        let publications = record.as_ref().and_then(|it| it.publications(&name, None));
        let (Some(record), Some(publications)) = (record, publications) else {
            return self.gap(&name);
        };
        if let Some(state) = &record.state {
            self.heard(&name, message.seq, state);
            let agent = self.channels.get(&name);
            let top = agent.and_then(|agent| agent.channel.top);
            if record.kept() == 0 && top.is_some_and(|top| top != state.position()) {
                self.gap(&name);
            }
        }
        for publication in publications {
            self.delivered(publication);
        }
    }

    fn delivered(&mut self, publication: Arc<Publication>) {
        if publication.position.is_none() && self.desk.arrival.is_before_cut() {
            return;
        }
        let name = &publication.channel;
        let Some(agent) = self.channels.get_mut(name) else {
            return;
        };
        let top = agent.channel.top;
        let took = agent.channel.took(&publication);
        let is_waiting = agent.channel.state != State::Live || agent.channel.pending > 0;
        let is_kept = publication.position.is_some();
        if is_kept && (took == Took::Gap || is_waiting) {
            agent.early.push(&publication);
        }
        match took {
            Took::Next => {
                let interest = agent.channel.interest;
                let reply = || Reply::Delivery(publication.clone());
                self.desk.leave_all(interest, reply);
            }
            Took::Known => {}
            Took::Gap => self.gap(&name.clone()),
            Took::Strange(why) => {
                let interest = agent.channel.interest;
                if let Some(first) = publication.position {
                    self.desk.doubt_from(name, why, first, top, interest);
                }
            }
        }
    }

    /// Something is missing before what came.
    fn gap(&mut self, name: &ChannelName) {
        let keeps = self.keeps(name);
        if let Some(agent) = self.channels.get_mut(name)
            && agent.channel.state == State::Live
            && keeps
        {
            agent.channel.state = State::Deaf;
            self.refill_if_deaf(name);
        }
    }

    /// Asks for what a deaf channel missed.
    pub(crate) fn refill_if_deaf(&mut self, name: &ChannelName) {
        let Some(agent) = self.channels.get_mut(name) else {
            return;
        };
        let channel = &mut agent.channel;
        if channel.state != State::Deaf || channel.is_refilling || !channel.is_subscribed {
            return;
        }
        channel.is_refilling = true;
        let serial = channel.serial;
        let query = Query {
            mode: Mode::Since,
            since: channel.top,
            limit: REFILL_MAX,
            bytes: REFILL_BYTES_MAX,
        };
        self.enqueue(name, Op::Look(Purpose::Refill(serial), query));
    }

    /// What a deaf channel missed is here, or is lost.
    pub(crate) fn refilled(&mut self, name: &ChannelName, serial: u64, looked: Looked) {
        let recovers = self.desk.options.of(name).recovery;
        let found = self.channels.get_mut(name);
        let Some(agent) = found.filter(|agent| agent.channel.serial == serial) else {
            return;
        };
        let Looked {
            position,
            status,
            publications,
        } = looked;
        let channel = &mut agent.channel;
        let same_epoch = channel.top.is_some_and(|top| top.epoch == position.epoch);
        let shares = channel.take_shares();
        channel.state = State::Live;
        channel.is_refilling = false;
        channel.top = Some(position);
        let interest = channel.interest;
        let early = agent.early.behind(position);
        if status == Status::Fits && (same_epoch || !recovers) {
            if !publications.is_empty() {
                self.desk.count(Counter::BrokerRefilled);
            }
            for publication in publications {
                if let Some(agent) = self.channels.get_mut(name)
                    && !agent.channel.remember(&publication)
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
        self.go_on(name, early);
    }

    /// NATS refused: it is asked again with the next audit.
    pub(crate) fn not_refilled(&mut self, name: &ChannelName, serial: u64) {
        let found = self.channels.get_mut(name);
        if let Some(agent) = found.filter(|agent| agent.channel.serial == serial) {
            agent.channel.is_refilling = false;
        }
    }

    /// Looks whether channels have missed anything that no later publication would show, a few at
    /// a time. This also keeps their positions alive.
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
            let agent = self.channels.get(&name);
            let Some(agent) = agent.filter(|agent| agent.channel.serial == serial) else {
                continue;
            };
            self.audits.add(&name, serial, now_ms, false);
            if agent.channel.state == State::Deaf {
                self.refill_if_deaf(&name);
                continue;
            }
            let query = Query {
                mode: Mode::Top,
                since: None,
                limit: 0,
                bytes: 0,
            };
            self.enqueue(&name, Op::Look(Purpose::Audit(serial), query));
        }
    }

    /// Where a stream stands. What is on its way to us is taken for missing, and then for known.
    pub(crate) fn audited(&mut self, name: &ChannelName, serial: u64, position: Position) {
        let found = self.channels.get(name);
        let is_behind = found.is_some_and(|agent| {
            let top = agent.channel.top;
            agent.channel.serial == serial
                && top
                    .is_some_and(|top| top.epoch != position.epoch || top.offset < position.offset)
        });
        if is_behind {
            self.gap(name);
        }
    }
}
