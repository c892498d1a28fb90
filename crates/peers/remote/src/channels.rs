//! Subscriptions and deliveries of a node's channels, and what is done about gaps: written once,
//! over the verbs of any broker.
//!
//! # Why nothing is lost or doubled on a node
//!
//! *A look behind the subscription.* A node that wants a channel subscribes to it and looks where
//! its stream stands behind that. Take a publication with offset *o*, and the answer of the look
//! with top *t*. If *o* ≤ *t*, it was stored before the look: what the subscriber misses of such is
//! in the answer, and its delivery, if there is one, is known by its offset and not passed on. If
//! *o* > *t*, it was stored after the look, hence after the subscription, so it is delivered. On
//! one road ([`Verbs::IS_ONE_ROAD`]) that comes behind the answer. Otherwise it may come before
//! it, and waits for it. The answer is left in the shard's queue, what had to wait and what comes
//! then behind it: the order holds up to the hub. Where a subscription may take effect late
//! ([`Verbs::is_late`]), the channel is compared with its stream soon after.
//!
//! *No holes.* While a channel is `Live`, each delivery has the offset after the last one. Any
//! other one shows that something is missing: the node then forgets deliveries, or keeps them
//! aside, and looks again, from the last position that it has. The same look follows every new
//! connection. So a gap is filled from history, in order, or the shards are told that the channel
//! is broken, and its subscribers come again from the position that they have; only then is one of
//! them told that something is lost. Every channel is compared with its stream now and then, which
//! finds a loss that no later publication would show. A delivery that does not follow what several
//! refills in a row have found contradicts the stream, and is given up.

use std::sync::Arc;

use throng_broker::{ChannelMember, HistoryQuery, Refusal, Reply, Request, Ticket};
use throng_metrics::Counter;
use throng_types::{ChannelName, Position, Publication};

use crate::agent::continue_to;
use crate::agent::{
    self, AUDITS_PER_S, FUTILE_MAX, HistoryMatch, Looked, Mode, REFILL_BYTES_MAX, REFILL_MAX,
    State, Took,
};
use crate::verbs::{PendingSubscribe, Purpose, Query, Verbs};

pub trait NodeChannels: Verbs {
    fn shard_comes(
        &mut self,
        (shard, ticket): (u8, Ticket),
        name: &ChannelName,
        since: Option<Position>,
        presence: Option<ChannelMember>,
    ) {
        let is_late = self.is_late();
        let (serial, channel) = self.core().open(name, is_late);
        channel.pending += 1;
        let number = channel.serial;
        if !std::mem::replace(&mut channel.is_subscribed, true) {
            self.subscribe(&[(name.clone(), number)]);
        }
        let subscribe = PendingSubscribe {
            shard,
            ticket,
            channel: name.clone(),
            since,
            presence,
            serial,
        };
        match subscribe.presence {
            Some(_) => self.come(subscribe),
            None => self.look_for(subscribe),
        }
    }

    /// Asks where the stream stands, behind the subscription.
    fn look_for(&mut self, subscribe: PendingSubscribe) {
        let name = subscribe.channel.clone();
        self.refill_if_deaf(&name);
        let io = &self.core().io;
        let options = io.options.of(&name);
        if !options.retention.keeps() {
            return self.settle(subscribe);
        }
        let reply = io.options.reply;
        let (mode, since, limit) =
            agent::subscriber_query(&options, subscribe.since, reply.publications_max);
        let query = Query {
            mode,
            since,
            limit,
            bytes: reply.bytes_max,
        };
        self.look(&name, Purpose::Subscribe(subscribe), query);
    }

    fn history(&mut self, shard: u8, ticket: Ticket, channel: &ChannelName, query: HistoryQuery) {
        let reply = self.core().io.options.reply;
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        let query = Query {
            mode: match query.reverse {
                true => Mode::Newest,
                false => Mode::Oldest,
            },
            since: query.since,
            limit: limit.min(reply.publications_max),
            bytes: reply.bytes_max,
        };
        self.look(channel, Purpose::History(shard, ticket), query);
    }

    // ---- answers ----

    /// The broker has said where a stream stands.
    fn tell_looked(&mut self, channel: &ChannelName, purpose: Purpose, looked: Looked) {
        match purpose {
            Purpose::Subscribe(subscribe) => self.subscribed(subscribe, Some(looked)),
            Purpose::Refill(serial) => self.refilled(channel, serial, looked),
            Purpose::Audit(serial) => self.audited(channel, serial, looked.position),
            Purpose::History(shard, ticket) => {
                let result = looked.into_page();
                let reply = Reply::History { ticket, result };
                self.core().io.reply(shard, reply);
            }
        }
    }

    /// The broker has taken the subscription of a channel without history.
    fn settled(&mut self, subscribe: PendingSubscribe) {
        self.subscribed(subscribe, None);
    }

    /// The broker has refused to say where a stream stands.
    fn refuse_look(&mut self, channel: &ChannelName, purpose: Purpose, refusal: Refusal) {
        match purpose {
            Purpose::Subscribe(subscribe) => self.not_subscribed(&subscribe, refusal),
            // It is asked again with the next audit.
            Purpose::Refill(serial) => {
                if let Some(channel) = self.core().same(channel, serial) {
                    channel.is_refilling = false;
                }
            }
            Purpose::Audit(_) => {}
            Purpose::History(shard, ticket) => {
                let result = Err(refusal);
                let reply = Reply::History { ticket, result };
                self.core().io.reply(shard, reply);
            }
        }
    }

    /// The connection broke before the answer: a subscribe is made again on the next one.
    fn lose_look(&mut self, channel: &ChannelName, purpose: Purpose) {
        match purpose {
            Purpose::Subscribe(subscribe) => self.wait_again(subscribe),
            purpose => self.refuse_look(channel, purpose, Refusal::Unavailable),
        }
    }

    /// A subscribe waits for the next connection.
    fn wait_again(&mut self, subscribe: PendingSubscribe) {
        if let Some(channel) = self.core().channels.get_mut(&subscribe.channel) {
            channel.pending -= 1;
        }
        let request = Request::Subscribe {
            ticket: subscribe.ticket,
            presence: self.come_later(&subscribe),
            channel: subscribe.channel,
            since: subscribe.since,
        };
        self.core().wait(subscribe.shard, request);
    }

    /// Begins a subscription, now that it is known where the stream stands.
    fn subscribed(&mut self, subscribe: PendingSubscribe, looked: Option<Looked>) {
        let core = self.core();
        let options = core.io.options.of(&subscribe.channel);
        let keeps = options.retention.keeps();
        if keeps && looked.is_none() {
            // It keeps history since other options hold.
            return self.look_for(subscribe);
        }
        let looked = looked.filter(|_| keeps);
        let (name, since) = (&subscribe.channel, subscribe.since);
        let mut result = core.io.subscribed(name, &options, since, looked);
        let Some(channel) = core.channels.get_mut(name) else {
            return;
        };
        let mut early = Vec::new();
        match (channel.state, channel.top, result.position) {
            // Another shard has yet to say what its subscribers have.
            (State::Arriving, ..) => return self.look_for(subscribe),
            (State::Joining, ..) => {
                channel.state = State::Live;
                channel.top = result.position;
                early = channel.early_behind(result.position);
            }
            (State::Live, _, None) => {}
            (State::Live, Some(top), Some(here)) if top == here => {}
            // The other shards have more than the look has seen; so gets this one.
            (State::Live, Some(top), Some(here))
                if !Self::IS_ONE_ROAD && top.epoch == here.epoch && top.offset > here.offset =>
            {
                let more = channel.early_behind(Some(here));
                if more.len() as u64 != top.offset - here.offset {
                    return self.look_for(subscribe);
                }
                continue_to(&mut result, top, more, options.cache);
            }
            // What the other shards have ends elsewhere: first they get what they lack.
            (State::Live | State::Deaf, ..) => {
                channel.state = State::Deaf;
                return self.look_for(subscribe);
            }
        }
        channel.pending -= 1;
        channel.interest |= 1 << subscribe.shard;
        let (ticket, result) = (subscribe.ticket, Ok(result));
        core.io
            .reply(subscribe.shard, Reply::Subscribed { ticket, result });
        self.has_come(&subscribe);
        self.go_on(&subscribe.channel, early);
    }

    fn not_subscribed(&mut self, subscribe: &PendingSubscribe, refusal: Refusal) {
        let (ticket, result) = (subscribe.ticket, Err(refusal));
        let core = self.core();
        core.io
            .reply(subscribe.shard, Reply::Subscribed { ticket, result });
        if let Some(channel) = core.channels.get_mut(&subscribe.channel) {
            channel.pending -= 1;
        }
        self.has_not_come(subscribe);
        self.release(&subscribe.channel);
    }

    fn shard_leaves(&mut self, shard: u8, name: &ChannelName) {
        if let Some(channel) = self.core().channels.get_mut(name) {
            channel.interest &= !(1 << shard);
        }
        self.release(name);
    }

    /// Forgets a channel in which no shard has interest.
    fn release(&mut self, name: &ChannelName) {
        let channels = &mut self.core().channels;
        let Some(key) = channels.key(name) else {
            return;
        };
        let found = channels.at(key).map(|(_, channel)| channel);
        let Some(channel) = found.filter(|channel| channel.is_unwanted()) else {
            return;
        };
        let is_empty = channel.top.is_some_and(|top| top.offset == 0);
        let (serial, is_subscribed) = (channel.serial, channel.is_subscribed);
        channels.remove(key);
        if is_subscribed {
            self.unsubscribe(name, serial, is_empty);
        }
    }

    // ---- deliveries ----

    /// Takes a publication of a channel as the broker delivers it.
    fn delivered(&mut self, publication: Arc<Publication>) {
        let core = self.core();
        if publication.position.is_none() && core.io.arrival.is_before_cut() {
            return;
        }
        let name = &publication.channel;
        let Some(channel) = core.channels.get_mut(name) else {
            return;
        };
        let (top, interest) = (channel.top, channel.interest);
        let took = channel.took(&publication);
        let is_waiting = channel.state != State::Live || channel.pending > 0;
        if !Self::IS_ONE_ROAD && publication.position.is_some() && (took == Took::Gap || is_waiting)
        {
            channel.keep_early(&publication);
        }
        match took {
            Took::Next => core
                .io
                .reply_all(interest, || Reply::Delivery(publication.clone())),
            Took::Known => {}
            Took::Gap => self.gap(&name.clone()),
            Took::Strange(why) => {
                if let Some(first) = publication.position {
                    core.io.doubt_from(name, why, first, top, interest);
                }
            }
        }
    }

    /// Delivers what had come before the answer that it follows.
    fn go_on(&mut self, name: &ChannelName, early: Vec<Arc<Publication>>) {
        for publication in early {
            self.delivered(publication);
        }
        if let Some(channel) = self.core().channels.get_mut(name)
            && channel.state == State::Live
            && channel.pending == 0
        {
            channel.early = None;
        }
    }

    /// Something is missing before this delivery.
    fn gap(&mut self, name: &ChannelName) {
        let core = self.core();
        let keeps = core.keeps(name);
        if let Some(channel) = core.channels.get_mut(name)
            && channel.state == State::Live
            && keeps
        {
            channel.state = State::Deaf;
            self.refill_if_deaf(name);
        }
    }

    /// Asks for what a deaf channel missed.
    fn refill_if_deaf(&mut self, name: &ChannelName) {
        let Some(channel) = self.core().channels.get_mut(name) else {
            return;
        };
        if channel.state != State::Deaf || channel.is_refilling || !channel.is_subscribed {
            return;
        }
        channel.is_refilling = true;
        let query = Query {
            mode: Mode::Since,
            since: channel.top,
            limit: REFILL_MAX,
            bytes: REFILL_BYTES_MAX,
        };
        let purpose = Purpose::Refill(channel.serial);
        self.look(name, purpose, query);
    }

    /// Delivers what a deaf channel missed, or notes that it is lost.
    fn refilled(&mut self, name: &ChannelName, serial: u64, looked: Looked) {
        let core = self.core();
        let recovers = core.io.options.of(name).recovery;
        let Some(channel) = core.same(name, serial) else {
            return;
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
        let gives_up = channel.futile == FUTILE_MAX && channel.early.take().is_some();
        channel.futile = (channel.futile + 1).min(FUTILE_MAX);
        let early = channel.early_behind(Some(position));
        if gives_up {
            core.io
                .doubt(name, "deliveries that its stream does not have");
        }
        if status == HistoryMatch::Fits && (same_epoch || !recovers) {
            if !publications.is_empty() {
                core.io.count(Counter::BrokerRefilled);
            }
            for publication in publications {
                if let Some(channel) = core.channels.get_mut(name)
                    && !channel.remember(&publication)
                    && let Some(first) = publication.position
                {
                    let why = "two contents for one position";
                    core.io
                        .doubt_from(name, why, first, Some(position), interest);
                }
                let shards = shares.of(publication.position);
                core.io
                    .reply_all(shards, || Reply::Delivery(publication.clone()));
            }
            if recovers && shares.strange != 0 {
                core.io.tell_broken(name, shares.strange);
            }
        } else if recovers && interest != 0 {
            core.io.tell_broken(name, interest);
        }
        self.go_on(name, early);
        if let Some(channel) = self.core().same(name, serial)
            && channel.state == State::Live
        {
            channel.futile = 0;
        }
    }

    /// Looks whether channels have missed anything that no later publication would show, a few at
    /// a time. This also keeps their positions alive.
    fn audit(&mut self) {
        let core = self.core();
        let now_ms = core.io.now_ms;
        if now_ms < core.due.audit_ms {
            return;
        }
        core.due.audit_ms = now_ms + 100;
        for _ in 0..AUDITS_PER_S.div_ceil(10) {
            let core = self.core();
            let Some((name, serial)) = core.audits.next(now_ms) else {
                return;
            };
            let Some(channel) = core.same(&name, serial) else {
                continue;
            };
            let (is_deaf, has_top) = (channel.state == State::Deaf, channel.top.is_some());
            core.audits.add(&name, serial, now_ms, false);
            if is_deaf {
                self.refill_if_deaf(&name);
            } else if has_top {
                let query = Query {
                    mode: Mode::Top,
                    since: None,
                    limit: 0,
                    bytes: 0,
                };
                self.look(&name, Purpose::Audit(serial), query);
            }
        }
    }

    /// Takes where a stream stands. On one road every publication up to there has come before this
    /// answer; otherwise what is on its way to us is taken for missing, and then for known.
    fn audited(&mut self, name: &ChannelName, serial: u64, position: Position) {
        let found = self.core().same(name, serial);
        let is_gap = { found.and_then(|channel| channel.top) }.is_some_and(|top| {
            let is_ahead = top.epoch == position.epoch && top.offset > position.offset;
            top != position && (Self::IS_ONE_ROAD || !is_ahead)
        });
        if is_gap {
            self.gap(name);
        }
    }
}

impl<V: Verbs> NodeChannels for V {}
